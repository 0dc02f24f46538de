"""A chat frontend on RabbitMQ: writes one message for a visitor, and prints what the agent does until its turn ends.

Needs aio-pika and nothing of Placet. With a user made by `python -m deploy.rabbitmq.frontends acme:widget`:

    export FRONTEND_RABBITMQ_URL=amqp://frontend.acme.widget:PASSWORD@localhost/placet
    python examples/amqp_frontend.py acme widget "what is left of the red shoes?"

It survives a broker that goes and comes back: its queue keeps what was said meanwhile, and what it could not send for
certain it sends again under the same ids, which is the same message. Exit code 1: no turn ended in time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import aio_pika
from aio_pika.abc import AbstractIncomingMessage, AbstractRobustChannel
from aio_pika.exceptions import AMQPError

PAUSE_SECONDS = 0.5


@dataclass
class Chat:
    """One conversation as its visitor sees it."""

    tenant: str
    conversation: str
    message: str = field(default_factory=lambda: uuid.uuid4().hex)
    #: Ids of events that were shown: each may come again.
    seen: set[str] = field(default_factory=set)
    #: Turn that answers our message, as soon as it has begun.
    turn: str = ""
    #: Characters of each of the model's texts that are on the screen, and the ones that are there whole.
    shown: dict[str, int] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)
    #: The text that is being written, and the lines that wait for its end.
    writing: str = ""
    later: list[str] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def envelope(self, visitor: str, text: str) -> bytes:
        """Return our message as an envelope of one event."""
        data = {
            "tenant": self.tenant,
            "conversation_id": self.conversation,
            "message_id": self.message,
            "text": text,
            "author": {"kind": "visitor", "id": visitor},
        }
        event = {
            "specversion": "1.0",
            "id": f"posted-{self.message}",
            "source": "frontend",
            "type": "placet.message.posted.v1",
            "time": datetime.now(UTC).isoformat(),
            "data": data,
        }
        return json.dumps([event]).encode()

    async def hear(self, message: AbstractIncomingMessage) -> None:
        """Show what an envelope says of this conversation; it comes again until it is acknowledged."""
        async with message.process():
            for event in json.loads(message.body):
                if event["data"]["conversation_id"] == self.conversation and event["id"] not in self.seen:
                    self.seen.add(event["id"])
                    sys.stdout.writelines(self._lines(event["type"], event["data"]))
                    sys.stdout.flush()

    def _lines(self, kind: str, data: dict[str, Any]) -> Iterator[str]:
        if kind == "placet.conversation.delta.v1":
            yield from self._piece(data["message_id"], data)
        elif kind == "placet.conversation.event.v1":
            yield from self._happened(data["kind"], data["turn_id"], data["payload"])
        elif kind == "placet.conversation.feed-advanced.v1":
            # The same as `GET …/events` sends; told once at most, so only for what is nice to see.
            for item in data["items"]:
                if item["type"] in {"approval", "tool_call"}:
                    yield from self._line(_news(item["data"]))

    def _line(self, line: str) -> Iterator[str]:
        """Show a line, behind the text that is being written."""
        if self.writing:
            self.later.append(line)
        else:
            yield f"-- {line}\n"

    def _piece(self, message_id: str, delta: dict[str, Any]) -> Iterator[str]:
        """Show a piece of text where it joins on; whatever is missing comes with the whole message.

        A piece may come behind that one, and before the word that its turn began.
        """
        if message_id in self.whole or delta["while_waiting"] or not self.turn:
            return
        if delta["reset"] and self.writing == message_id:
            self.shown[message_id] = 0
            yield "\n(begins again) "
        elif delta["offset"] == self.shown.get(message_id, 0):
            self.writing = message_id
            self.shown[message_id] = delta["offset"] + len(delta["text"])
            yield delta["text"]

    def _happened(self, kind: str, turn: str, payload: dict[str, Any]) -> Iterator[str]:
        if kind == "turn_started":
            if payload["message_id"] == self.message:
                self.turn = turn
            yield from self._line("the agent thinks")
        elif kind == "assistant_message":
            self.whole.add(payload["message_id"])
            # What the model says about a call that waits is in the history, and not shown.
            if not payload.get("while_waiting"):
                yield payload["text"][self.shown.pop(payload["message_id"], 0) :] + "\n"
            if payload["message_id"] == self.writing:
                yield from self._written()
        elif kind == "turn_ended":
            if self.writing:  # an attempt that was given up
                yield "\n"
                yield from self._written()
            yield from self._line(f"the turn has {payload['state']}")
            if turn == self.turn:
                self.ended.set()

    def _written(self) -> Iterator[str]:
        """Show what waited for the end of the text."""
        lines, self.later, self.writing = self.later, [], ""
        yield from (f"-- {line}\n" for line in lines)


def _news(item: dict[str, Any]) -> str:
    """Return one line on a tool call, or on an approval that people are asked for."""
    return f"{item.get('tool', 'approval')}: {item.get('state') or item.get('status')}"


async def publish(channel: AbstractRobustChannel, tenant: str, body: bytes) -> None:
    """Send an envelope until the broker says that it is safe."""
    while True:
        try:
            # Mandatory, so that a broker without Placet's queues says so; our key is the one that our user may use.
            messages = await channel.get_exchange("messages", ensure=False)
            message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await messages.publish(message, routing_key=f"frontend.{tenant}", mandatory=True, timeout=10)
        except (AMQPError, OSError, TimeoutError) as error:
            sys.stderr.write(f"not sent yet: {type(error).__name__}\n")
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            return


async def talk(url: str, frontend: str, chat: Chat, body: bytes) -> None:
    """Listen, then write, then wait for the end of the turn; connects again by itself."""
    async with await aio_pika.connect_robust(url, reconnect_interval=PAUSE_SECONDS) as connection:
        channel = await connection.channel()
        # Not exclusive: it outlives a lost connection, and the broker keeps for us what is said meanwhile.
        queue = await channel.declare_queue(f"frontend.{chat.tenant}.{frontend}.{chat.conversation}", durable=True)
        for key in (f"event.{chat.tenant}", f"delta.{chat.tenant}", f"feed.{chat.tenant}"):
            await queue.bind("conversations", routing_key=key)
        await queue.consume(chat.hear)
        await publish(channel, chat.tenant, body)
        await chat.ended.wait()
        await queue.delete(if_unused=False, if_empty=False)


async def main() -> int:
    """Read the command line and talk."""
    parser = argparse.ArgumentParser(description="Write one message over RabbitMQ and print the agent's turn.")
    parser.add_argument("tenant")
    parser.add_argument("frontend", help="the frontend's name, as its user has it: frontend.<tenant>.<name>")
    parser.add_argument("text")
    parser.add_argument("--conversation", default=uuid.uuid4().hex, help="letters, digits, _, - (default: a new one)")
    parser.add_argument("--visitor", help="who writes, by the name that your site knows (default: nobody known)")
    parser.add_argument("--seconds", type=float, default=300, help="how long the turn may take (default: %(default)s)")
    options = parser.parse_args()
    if (url := os.environ.get("FRONTEND_RABBITMQ_URL")) is None:
        parser.error("not set: FRONTEND_RABBITMQ_URL")
    chat = Chat(options.tenant, options.conversation)
    body = chat.envelope(options.visitor or f"visitor:{chat.conversation}", options.text)
    try:
        async with asyncio.timeout(options.seconds):
            await talk(url, options.frontend, chat, body)
    except TimeoutError:
        sys.stderr.write("no turn has ended in time\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
