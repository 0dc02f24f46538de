"""A chat frontend on RabbitMQ: writes one message for a visitor, and prints what the agent does until its turn ends.

Needs aio-pika and nothing of Placet. With a user made by `python -m placet.deploy.rabbitmq.frontends acme:widget`:

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
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import aio_pika
from aio_pika.abc import AbstractIncomingMessage, AbstractRobustChannel
from aio_pika.exceptions import AMQPError

PAUSE_SECONDS = 0.5


@dataclass(frozen=True)
class Screen:
    """What a visitor sees of one conversation."""

    #: Our message, and the turn that answers it, as soon as it has begun.
    message: str
    turn: str = ""
    #: The turn and step whose text comes next.
    step: tuple[str, int] = ("", 0)
    #: Number of the last item that was shown.
    seq: int = 0
    #: The text that is being written, as far as it is shown, and the lines that wait for its end.
    writing: str = ""
    text: str = ""
    later: tuple[str, ...] = ()
    #: Messages that are there whole.
    whole: frozenset[str] = frozenset()
    ended: bool = False


def fold(screen: Screen, kind: str, data: dict[str, Any]) -> tuple[Screen, str]:
    """Return the screen after an item or a piece of text, and what is new on it.

    Items have numbers and are in order; the same one may come again. Pieces of text have neither: one may come behind
    the whole message, and before the word that its turn began. Then it is passed over, because that message has it all.
    """
    if kind == "delta":
        return _piece(screen, data)
    return (screen, "") if data["id"] <= screen.seq else _item(replace(screen, seq=data["id"]), data)


def _item(screen: Screen, data: dict[str, Any]) -> tuple[Screen, str]:
    item = data["data"]
    match data["type"]:
        case "message" if item["role"] == "assistant":
            return _said(screen, item)
        case "turn":
            return _moved(screen, item)
        case "approval" | "tool_call":
            return _line(screen, f"{item.get('tool', 'approval')}: {item.get('state') or item.get('status')}")
    return screen, ""


def _moved(screen: Screen, item: dict[str, Any]) -> tuple[Screen, str]:
    match item["state"]:
        case "started":
            turn = item["turn_id"] if item["message_id"] == screen.message else screen.turn
            return _line(replace(screen, turn=turn, step=(item["turn_id"], 1)), "the agent thinks")
        case "continued":
            return replace(screen, step=(item["turn_id"], item["step"])), ""
        case "paused":
            return _line(screen, "people are asked")
    return _ended(screen, item)


def _piece(screen: Screen, delta: dict[str, Any]) -> tuple[Screen, str]:
    """Show a piece of text where it joins on; whatever is missing comes with the whole message."""
    message_id, text = delta["message_id"], delta["text"]
    passed = delta["while_waiting"] or message_id in screen.whole or (delta["turn_id"], delta["step"]) != screen.step
    if passed or not screen.turn:
        return screen, ""
    if delta["reset"] and screen.text and not (text and screen.text.startswith(text)):
        return replace(screen, text=text), f"\n(begins again) {text}"
    if delta["offset"] != len(screen.text):
        return screen, ""
    return replace(screen, writing=message_id, text=screen.text + text), text


def _said(screen: Screen, item: dict[str, Any]) -> tuple[Screen, str]:
    """Show the rest of a message, unless it is about a call that waits: that is in the history, and not shown."""
    text = "" if item.get("while_waiting") else item["text"]
    goes_on = screen.writing == item["message_id"] and text.startswith(screen.text)
    words = text[len(screen.text) :] + "\n" if goes_on else ("\n" if screen.writing else "") + (text and text + "\n")
    step = screen.step if item.get("while_waiting") else (item["turn_id"], item["step"] + 1)
    after = replace(screen, step=step, writing="", text="", later=(), whole=screen.whole | {item["message_id"]})
    return after, words + "".join(screen.later)


def _ended(screen: Screen, item: dict[str, Any]) -> tuple[Screen, str]:
    """Show that a turn is over, behind a text that the model gave up."""
    lines = ("\n" if screen.writing else "") + "".join((*screen.later, f"-- the turn has {item['state']}\n"))
    after = replace(screen, writing="", text="", later=())
    return replace(after, ended=after.ended or item["turn_id"] == after.turn), lines


def _line(screen: Screen, text: str) -> tuple[Screen, str]:
    """Show a line, behind the text that is being written."""
    line = f"-- {text}\n"
    return (replace(screen, later=(*screen.later, line)), "") if screen.writing else (screen, line)


@dataclass
class Chat:
    """One conversation over RabbitMQ."""

    tenant: str
    conversation: str
    screen: Screen
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def envelope(self, visitor: str, text: str) -> bytes:
        """Return our message as an envelope of one event."""
        data = {
            "tenant": self.tenant,
            "conversation_id": self.conversation,
            "message_id": self.screen.message,
            "text": text,
            "author": {"kind": "visitor", "id": visitor},
        }
        event = {
            "specversion": "1.0",
            "id": f"posted-{self.screen.message}",
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
                if event["data"]["conversation_id"] != self.conversation:
                    continue
                items = event["type"] == "placet.conversation.items.v1"
                for data in event["data"]["items"] if items else [event["data"]]:
                    self.screen, new = fold(self.screen, "item" if items else "delta", data)
                    sys.stdout.write(new)
            sys.stdout.flush()
            if self.screen.ended:
                self.ended.set()


async def publish(channel: AbstractRobustChannel, tenant: str, user: str, body: bytes) -> None:
    """Send an envelope until the broker says that it is safe."""
    while True:
        try:
            # Mandatory, so that a broker without Placet's queues says so. The exchange is our user's own, and our key
            # is the one that it passes on.
            own = await channel.get_exchange(user, ensure=False)
            message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await own.publish(message, routing_key=f"frontend.{tenant}", mandatory=True, timeout=10)
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
        user = f"frontend.{chat.tenant}.{frontend}"
        queue = await channel.declare_queue(f"{user}.{chat.conversation}", durable=True)
        for key in (f"items.{chat.tenant}", f"delta.{chat.tenant}"):
            await queue.bind("conversations", routing_key=key)
        await queue.consume(chat.hear)
        await publish(channel, chat.tenant, user, body)
        await chat.ended.wait()
        await queue.delete(if_unused=False, if_empty=False)


async def main() -> int:
    """Read the command line and talk."""
    parser = argparse.ArgumentParser(description="Write one message over RabbitMQ and print the agent's turn.")
    parser.add_argument("tenant")
    parser.add_argument("frontend", help="the frontend's name, as its user has it: frontend.<tenant>.<name>")
    parser.add_argument("text")
    parser.add_argument(
        "--conversation", default=uuid.uuid4().hex, help="letters, digits, _, -; <tenant>_ is put before it"
    )
    parser.add_argument("--visitor", help="who writes, by the name that your site knows (default: nobody known)")
    parser.add_argument("--seconds", type=float, default=300, help="how long the turn may take (default: %(default)s)")
    options = parser.parse_args()
    if (url := os.environ.get("FRONTEND_RABBITMQ_URL")) is None:
        parser.error("not set: FRONTEND_RABBITMQ_URL")
    # Ids of conversations begin with their tenant, so that no other tenant can take them.
    chat = Chat(options.tenant, f"{options.tenant}_{options.conversation}", Screen(uuid.uuid4().hex))
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
