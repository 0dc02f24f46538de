"""Many chats at once over two gateways, with clients that drop out at random: nothing is lost, and how late it is.

Each client opens its conversation, writes, and follows the stream of one gateway or the other; after a few events it
drops its connection and comes back to either with `Last-Event-ID`. Every event and every word is checked. How late a
word is, is from the moment the stub model sent it until a client had it; what a client catches up on after a reconnect
was late by its own choice and is not counted.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from bench.measurement import WrongCountError, percentile
from bench.placet_system import Variant, a_placet
from bench.processor import ProcessorTime
from bench.soak_reader import Seen, faults_of
from tests.support.ports import free_port
from tests.support.system import System

#: Words a second that each model writes.
PACE = 20
#: Longest that one turn may take beyond what its model needs, in seconds.
PATIENCE_SECONDS = 120
#: A connection is dropped after 1 to this many events and pieces.
DROP_AFTER_MAX = 80
#: A word that is later than this waited for a processor, in milliseconds.
LATE_MS = 1000
TOO_MANY = "\nThis machine, with what else it does, is too slow for so many: see --conversations."
_SEED = 7


@dataclass(frozen=True)
class Plan:
    """How much is tried."""

    conversations: int
    #: Messages of each conversation, one after the other.
    turns: int
    #: Words of each answer.
    words: int
    #: Whether clients drop out.
    drops: bool = True


@dataclass(frozen=True)
class Soaked:
    """What was seen. A run in which anything was lost, repeated or reordered raises instead."""

    conversations: int
    words_per_second: float
    """Words that reached clients live, per second."""
    delta_p50_ms: float
    delta_p99_ms: float
    first_text_p50_ms: float
    """From the moment the model sent the first word of an answer until a client had it."""
    first_delta_p50_ms: float
    """From the moment somebody writes until the first word of the answer."""
    first_delta_p99_ms: float
    events: int
    words: int
    gaps: int
    """Pieces of text that were lost on the way until the whole text came: these are sent once at most."""
    reconnects: int
    seconds: float
    cpu_cores: float
    """Processors kept busy by everything together: clients, services, broker, database."""


class Client:
    """One visitor's browser on a bad line."""

    def __init__(
        self, http: aiohttp.ClientSession, gateways: tuple[str, ...], chance: random.Random, plan: Plan
    ) -> None:
        self.seen = Seen(plan.words)
        self.reconnects = -1
        self.first_delays: list[float] = []
        self._http = http
        self._gateways = gateways
        self._chance = chance
        self._drops = plan.drops
        self._path = ""

    async def talk(self, turns: int) -> None:
        """Open a conversation, and write as often as `turns` says, each time when the answer is whole."""
        opened = await self._post("/v1/conversations", {})
        self._path = f"/v1/conversations/{opened['id']}"
        for turn in range(turns):
            known = set(self.seen.began)
            wrote = time.monotonic()
            await self._post(f"{self._path}/messages", {"text": f"go on, {turn}"})
            while not await self._follow():
                pass
            self.first_delays += [at - wrote for name, at in self.seen.began.items() if name not in known]

    async def _follow(self) -> bool:
        """Follow the stream until a turn ends or the line drops; tell which."""
        self.reconnects += 1
        self.seen.connected()
        headers = {"last-event-id": str(self.seen.last)} if self.seen.last else {}
        left = self._chance.randint(1, DROP_AFTER_MAX)
        url = f"{self._chance.choice(self._gateways)}{self._path}/events"
        async with self._http.get(url, headers=headers) as response:
            response.raise_for_status()
            async for kind, number, data in _events(response.content):
                if self.seen.take(kind, number, data, time.monotonic()):
                    return True
                left -= 1
                if not left and self._drops:
                    return False
        return False

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        async with self._http.post(self._chance.choice(self._gateways) + path, json=body) as response:
            response.raise_for_status()
            answer: dict[str, Any] = await response.json()
            return answer


async def _events(content: aiohttp.StreamReader) -> AsyncIterator[tuple[str, int | None, dict[str, Any]]]:
    """Yield type, number if any, and data of each server-sent event."""
    kind, number = "", None
    async for line in content:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "event":
            kind = value
        elif name == "id":
            number = int(value)
        elif name == "data":
            yield kind, number, json.loads(value)
            kind, number = "", None


async def measure(plan: Plan) -> Soaked:
    """Start a fresh Placet with two gateways, run `plan`, and stop it; raises WrongCountError for any fault."""
    settings = {
        "PLACET_DATABASE_POOL_SIZE": "4",
        "PLACET_AGENT_SLOTS": str(plan.conversations),
        "PLACET_BENCH_WORDS": str(plan.words),
        "PLACET_BENCH_PACE": str(PACE),
    }
    chats = Variant("chats", agent="bench.soak_agent", settings=settings)
    async with a_placet(chats) as system, _clients(system, plan) as clients:
        with ProcessorTime() as spent:
            began = time.monotonic()
            async with asyncio.timeout(plan.turns * (plan.words / PACE + PATIENCE_SECONDS)):
                await asyncio.gather(*(client.talk(plan.turns) for client in clients))
            seconds = time.monotonic() - began
    return _soaked(plan, clients, seconds, spent.seconds / seconds)


@asynccontextmanager
async def _clients(system: System, plan: Plan) -> AsyncIterator[list[Client]]:
    port = free_port()
    other = system.add("gateway", number=2)
    other.environment["PLACET_GATEWAY_PORT"] = str(port)
    other.health_port = port
    await system.start()
    gateways = (system.url, f"http://127.0.0.1:{port}")
    headers = {"authorization": f"Bearer {system.key('chat')}"}
    # No limit: each client has its own line.
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(headers=headers, connector=connector, timeout=timeout) as http:
        yield [
            Client(http, gateways, random.Random(_SEED + number), plan)  # noqa: S311 - chance to be repeated
            for number in range(plan.conversations)
        ]


def _soaked(plan: Plan, clients: list[Client], seconds: float, cores: float) -> Soaked:
    seen = [client.seen for client in clients]
    faults = faults_of(seen)
    answers = sum(len(each.whole) for each in seen)
    if any(faults.values()) or answers != plan.conversations * plan.turns:
        wrong = ", ".join(f"{number} {name}" for name, number in faults.items())
        why = sorted({reason for each in seen for reason in each.failures})
        raise WrongCountError(f"{wrong}; {answers} of {plan.conversations * plan.turns} answers were whole {why}")
    delays = [delay for each in seen for delay in each.delays]
    first = [delay for client in clients for delay in client.first_delays]
    return Soaked(
        conversations=plan.conversations,
        words_per_second=len(delays) / seconds,
        delta_p50_ms=percentile(delays, 0.5) * 1000,
        delta_p99_ms=percentile(delays, 0.99) * 1000,
        first_text_p50_ms=percentile([delay for each in seen for delay in each.first_delays], 0.5) * 1000,
        first_delta_p50_ms=percentile(first, 0.5) * 1000,
        first_delta_p99_ms=percentile(first, 0.99) * 1000,
        events=sum(each.last for each in seen),
        words=answers * plan.words,
        gaps=sum(each.gaps for each in seen),
        reconnects=sum(client.reconnects for client in clients),
        seconds=seconds,
        cpu_cores=cores,
    )


def text_of(found: Soaked) -> str:
    """Return what a person reads of a run."""
    return (
        f"{found.conversations} conversations at {PACE} words/s over two gateways, {found.reconnects} reconnects: "
        f"of {found.events} events and {found.words} words 0 lost, 0 repeated, 0 reordered\n"
        f"{found.gaps} gaps in texts while they were written\n"
        f"a word, from model to client: p50 {found.delta_p50_ms:.0f} ms, p99 {found.delta_p99_ms:.0f} ms\n"
        f"the first word of an answer, from model to client: p50 {found.first_text_p50_ms:.1f} ms\n"
        f"the first word, from writing to client: p50 {found.first_delta_p50_ms:.0f} ms, "
        f"p99 {found.first_delta_p99_ms:.0f} ms\n"
        f"{found.cpu_cores:.1f} processors busy{TOO_MANY if found.delta_p99_ms > LATE_MS else ''}"
    )
