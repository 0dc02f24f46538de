"""People and frontends as fast as they can: they write, decide, and note when what happened.

What the model says to a result, heard as a frontend hears it, is "the next utterance". When the model was asked with
the result in hand, the result was recorded and read again: "recorded" is that moment, and so never told too early. The
stub model writes it down by itself, which costs the system nothing and asks nobody.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import aio_pika
import aiohttp

from bench.floor import STALL_SECONDS
from tests.support.system import System

#: Pause before a request that was answered with 503 is made again.
PAUSE_SECONDS = 0.05
#: A call of a conversation: which, and its number in it from 1.
Call = tuple[str, int]


class Shape(Protocol):
    """What conversations are like."""

    @property
    def calls(self) -> int:
        """Calls of one conversation; its transcript grows with each."""

    @property
    def calls_per_turn(self) -> int:
        """As many of them in each turn."""

    @property
    def gated(self) -> bool:
        """Whether people decide about them."""


@dataclass
class Waits:
    """Seconds of each call of a run."""

    #: From a person's decision until the model's next utterance; nothing where nobody decides.
    uttered: list[float] = field(default_factory=list)
    #: When somebody decided, or the model proposed.
    began: dict[Call, float] = field(default_factory=dict)
    #: When the model was asked with the result in hand.
    recorded: dict[Call, float] = field(default_factory=dict)

    @property
    def until_recorded(self) -> list[float]:
        """From the decision, or from the proposal where nobody decides, until the result was recorded."""
        return [self.recorded[call] - began for call, began in self.began.items()]


class Load:
    """All of them."""

    def __init__(self, http: aiohttp.ClientSession, folder: Path, shape: Shape) -> None:
        self.ledger, self._asked = folder / "ledger", folder / "asked"
        self._http = http
        self._shape = shape
        self._conversations: list[str] = []
        self._opened: dict[str, asyncio.Queue[dict[str, Any]]] = {}
        self._answered: dict[str, asyncio.Future[None]] = {}
        self._ended: dict[str, asyncio.Future[None]] = {}
        self._waits = Waits()

    async def open(self, number: int) -> None:
        """Open conversations for the next run; each serves some calls, one at a time."""
        self._conversations = [(await self._post("/v1/conversations", {}))["id"] for _ in range(number)]
        for trace in (self.ledger, self._asked):
            trace.unlink(missing_ok=True)

    async def run(self, in_flight: int) -> Waits:
        """Have all open conversations, `in_flight` at a time."""
        self._waits = Waits()

        async def worker() -> None:
            for conversation in iter(self._next, ""):
                self._opened[conversation] = asyncio.Queue()
                for calls_before in range(0, self._shape.calls, self._shape.calls_per_turn):
                    await self._one_turn(conversation, calls_before)

        await asyncio.gather(*(worker() for _ in range(in_flight)))
        self._read_asked()
        return self._waits

    def _next(self) -> str:
        return self._conversations.pop() if self._conversations else ""

    async def _one_turn(self, conversation: str, calls_before: int) -> None:
        ended = self._ended[conversation] = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(STALL_SECONDS):
            await self._post(f"/v1/conversations/{conversation}/messages", {"text": f"touch it in {conversation}"})
            for number in range(self._shape.calls_per_turn * self._shape.gated):
                await self._one_call((conversation, calls_before + number + 1))
            await ended

    async def _one_call(self, call: Call) -> None:
        card = await self._opened[call[0]].get()
        answered = self._answered[call[0]] = asyncio.get_running_loop().create_future()
        decided = self._waits.began[call] = perf_counter()
        body = {"decision": "approve", "digest": card["call"]["digest"]}
        await self._post(f"/v1/approvals/{card['approval_id']}/decisions", body)
        await answered
        self._waits.uttered.append(perf_counter() - decided)

    def _read_asked(self) -> None:
        """Read what the stub model wrote down: conversation, results in hand, and when it was asked."""
        asked = self._waits.recorded
        for line in self._asked.read_text().splitlines():
            conversation, results, at = line.split()
            asked.setdefault((conversation, int(results)), float(at))
        if not self._shape.gated:
            # It proposes the next call at once, so being asked is proposing.
            self._waits.began = {call: asked[call[0], call[1] - 1] for call in asked if call[1]}

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        while True:
            async with self._http.post(path, json=body) as response:
                answer: dict[str, Any] = await response.json(content_type=None)
                # 503 says "come again", as any client would; a decision that was taken the first time is then a 409.
                if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                if response.status != HTTPStatus.CONFLICT:
                    response.raise_for_status()
                return answer

    def hear(self, events: Iterable[dict[str, Any]]) -> None:
        """Note what happened to the conversations."""
        for event in events:
            data = event["data"]
            match event["type"]:
                case "placet.approval.opened.v1":
                    self._opened[data["call"]["conversation_id"]].put_nowait(data)
                case "placet.conversation.items.v1":
                    for item in data["items"]:
                        self._hear_of_item(data["conversation_id"], item["type"], item["data"])

    def _hear_of_item(self, conversation: str, kind: str, data: dict[str, Any]) -> None:
        # What the model says first in a turn answers nothing.
        if kind == "message" and data["role"] == "assistant" and data["step"] > 1 and self._shape.gated:
            self._answered.pop(conversation).set_result(None)
        elif kind == "turn" and "idle" in data:
            self._ended.pop(conversation).set_result(None)


async def until(condition: Callable[[], bool]) -> None:
    """Return when a condition is true that nobody tells of."""
    while not condition():  # noqa: ASYNC110  # see above
        await asyncio.sleep(PAUSE_SECONDS)


@asynccontextmanager
async def a_load(system: System, shape: Shape) -> AsyncIterator[Load]:
    """Put people before a running system."""
    headers = {"authorization": f"Bearer {system.key('chat', 'decide')}"}
    async with aiohttp.ClientSession(system.url, headers=headers, connector=aiohttp.TCPConnector(limit=256)) as http:
        load = Load(http, system.folder, shape)
        async with _heard_of_host(load, system) if "host-1" in system.processes else _heard_of_broker(load, system):
            yield load


@asynccontextmanager
async def _heard_of_broker(load: Load, system: System) -> AsyncIterator[None]:
    async def hear(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        load.hear(json.loads(message.body))

    async with await aio_pika.connect(system.rabbitmq_url) as connection:
        channel = await connection.channel(publisher_confirms=False)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind("approvals", "approval.opened")
        await queue.bind("conversations", "items.#")
        await queue.consume(hear, no_ack=True)
        yield


@asynccontextmanager
async def _heard_of_host(load: Load, system: System) -> AsyncIterator[None]:
    reader, writer = await asyncio.open_unix_connection(system.folder / "heard", limit=1 << 24)

    async def hear() -> None:
        async for line in reader:
            load.hear(json.loads(line))

    hearing = asyncio.create_task(hear())
    try:
        yield
    finally:
        hearing.cancel()
        writer.close()
