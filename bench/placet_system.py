"""Placet, as it is measured: each of its services a process, messages and decisions over HTTP.

One call: the stub model proposes the tool, policy holds it, the decision is posted, the executor runs the tool, the
agent records the result and asks the stub model again. What the model says to the result, seen on RabbitMQ, is what
counts as "back with the agent": later than the floor's, never earlier.

`placet` are the services that a gated call goes through, with an agent that proposes one call after another in a turn,
as models do that are given a task. `placet_notified` has the notifier beside them, which hears of every call and keeps
its card. In `placet_single` a person also writes before every call, so that each is a turn of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from time import perf_counter
from typing import Any

import aio_pika
import aiohttp
import psycopg

from bench.floor import POSTGRES_URL, STALL_SECONDS
from bench.measurement import Measurement, percentile, verify
from bench.processor import ProcessorTime
from deploy.migrations import migrate
from tests.support import services
from tests.support.postgres import Databases
from tests.support.rabbitmq import VirtualHosts
from tests.support.system import Process, System, a_system

RULEBOOK = Path(__file__).parent / "rulebook.yaml"
REPLICAS = {"gateway": 1, "policy": 1, "approval": 1, "executor": 1, "audit": 1}
NOTIFIED = {**REPLICAS, "notifier": 1}
SETTINGS = {
    "PLACET_DATABASE_POOL_SIZE": "16",
    "PLACET_EXECUTOR_SLOTS": "64",
    "PLACET_EXECUTOR_PREFETCH": "32",
    "PLACET_POOL_BATCHES": '{"default": 32}',
}
#: Pause before a request that was answered with 503 is made again.
PAUSE_SECONDS = 0.05
#: Calls of one conversation, in one turn or in as many; its transcript grows with each.
CALLS = 8


async def measure(in_flight: int, count: int) -> Measurement:
    """Measure calls of an agent at work: a turn of several calls, one after the other; nobody is notified of them."""
    return await _measure(in_flight, count)


async def measure_notified(in_flight: int, count: int) -> Measurement:
    """Measure the same calls with a notifier that hears of them."""
    return await _measure(in_flight, count, replicas=NOTIFIED)


async def measure_single(in_flight: int, count: int) -> Measurement:
    """Measure calls each in a turn of its own, with a notifier too."""
    return await _measure(in_flight, count, calls_per_turn=1, replicas=NOTIFIED)


async def _measure(
    in_flight: int, count: int, *, calls_per_turn: int = CALLS, replicas: Mapping[str, int] = REPLICAS
) -> Measurement:
    """Start a fresh Placet, run gated calls with `in_flight` open at a time, and stop it.

    As many calls as whole conversations have: about `count`, and at least one conversation for each call in flight.
    """
    conversations = max(in_flight, count // CALLS)
    count = conversations * CALLS
    settings = {**SETTINGS, "PLACET_BENCH_CALLS_PER_TURN": str(calls_per_turn)}
    with tempfile.TemporaryDirectory(prefix="placet-bench-") as folder:
        async with (
            a_placet(Path(folder), "bench.stub_agent", settings, replicas) as system,
            _load(system, calls_per_turn) as load,
        ):
            await load.open(in_flight)
            await load.run(in_flight)
            _analyze(system.database_url)
            await load.open(conversations)
            load.ledger.unlink()
            with ProcessorTime() as spent:
                began = perf_counter()
                waits = await load.run(in_flight)
                elapsed = perf_counter() - began
            verify(count, len(waits), Counter(load.ledger.read_text().split()))
    return Measurement(
        in_flight=in_flight,
        calls_per_second=count / elapsed,
        decision_to_result_p50_ms=percentile(waits, 0.5) * 1000,
        p99_ms=percentile(waits, 0.99) * 1000,
        cpu_ms_per_call=spent.seconds * 1000 / count,
    )


@asynccontextmanager
async def a_placet(
    folder: Path, agent: str, settings: Mapping[str, str], replicas: Mapping[str, int] = NOTIFIED
) -> AsyncIterator[System]:
    """Run a Placet whose agent is the module `agent`; `settings` are those of every process."""
    databases = Databases(POSTGRES_URL)
    url = await asyncio.to_thread(services.find_rabbitmq, os.environ)
    administration = services.administration(os.environ, url or "")
    if url is None or administration is None:
        raise RuntimeError("no RabbitMQ: use `make bench`")
    hosts = VirtualHosts(url, administration)
    environment = {
        "PLACET_LOG_LEVEL": "warning",
        # One key posts for everybody here.
        "PLACET_GATEWAY_KEY_MESSAGES_PER_MINUTE": "0",
        "PLACET_BENCH_LEDGER": str(folder / "ledger"),
        **settings,
    }
    try:
        with databases.fresh(_migrate) as database_url:
            system = System(folder, database_url, hosts.fresh(), RULEBOOK, environment)
            _add_agent(system, agent)
            async with a_system(system, replicas):
                yield system
    finally:
        databases.close()
        hosts.close()


def _migrate(url: str) -> None:
    migrate(url)


def _add_agent(system: System, module: str) -> None:
    agent: Process = system.add("agent")
    agent.arguments = ("-m", module)


def _analyze(url: str) -> None:
    """Let PostgreSQL know its tables, as it does by itself within the first minute of their life."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


class Load:
    """People and frontends, as fast as they can."""

    def __init__(self, http: aiohttp.ClientSession, ledger: Path, calls_per_turn: int) -> None:
        self.ledger = ledger
        self._http = http
        self._calls_per_turn = calls_per_turn
        self._conversations: list[str] = []
        self._opened: dict[str, asyncio.Queue[dict[str, Any]]] = {}
        self._answered: dict[str, asyncio.Future[None]] = {}
        self._ended: dict[str, asyncio.Future[None]] = {}

    async def open(self, number: int) -> None:
        """Open conversations for the next run; each serves some calls, one at a time."""
        self._conversations = [(await self._post("/v1/conversations", {}))["id"] for _ in range(number)]

    async def run(self, in_flight: int) -> list[float]:
        """Have all open conversations, `in_flight` at a time; return each call's seconds from decision to result."""
        waits: list[float] = []

        async def worker() -> None:
            for conversation in iter(self._next, ""):
                self._opened[conversation] = asyncio.Queue()
                for _ in range(CALLS // self._calls_per_turn):
                    waits.extend(await self._one_turn(conversation))

        await asyncio.gather(*(worker() for _ in range(in_flight)))
        return waits

    def _next(self) -> str:
        return self._conversations.pop() if self._conversations else ""

    async def _one_turn(self, conversation: str) -> list[float]:
        ended = self._ended[conversation] = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(STALL_SECONDS):
            await self._post(f"/v1/conversations/{conversation}/messages", {"text": "touch it"})
            waits = [await self._one_call(conversation) for _ in range(self._calls_per_turn)]
            await ended
        return waits

    async def _one_call(self, conversation: str) -> float:
        card = await self._opened[conversation].get()
        answered = self._answered[conversation] = asyncio.get_running_loop().create_future()
        decided = perf_counter()
        body = {"decision": "approve", "digest": card["call"]["digest"]}
        await self._post(f"/v1/approvals/{card['approval_id']}/decisions", body)
        await answered
        return perf_counter() - decided

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

    async def hear(self, message: aio_pika.abc.AbstractIncomingMessage) -> None:
        """Note what happened to the conversations."""
        for event in json.loads(message.body):
            data = event["data"]
            match event["type"]:
                case "placet.approval.opened.v1":
                    self._opened[data["call"]["conversation_id"]].put_nowait(data)
                case "placet.conversation.event.v1":
                    self._hear_of_turn(data["conversation_id"], data["kind"], data["payload"])

    def _hear_of_turn(self, conversation: str, kind: str, payload: dict[str, Any]) -> None:
        # What the model says first in a turn answers nothing.
        if kind == "assistant_message" and payload["step"] > 1:
            self._answered.pop(conversation).set_result(None)
        elif kind == "turn_ended":
            self._ended.pop(conversation).set_result(None)


@asynccontextmanager
async def _load(system: System, calls_per_turn: int) -> AsyncIterator[Load]:
    key = system.key("chat", "decide")
    headers = {"authorization": f"Bearer {key}"}
    connector = aiohttp.TCPConnector(limit=256)
    async with (
        await aio_pika.connect(system.rabbitmq_url) as connection,
        aiohttp.ClientSession(system.url, headers=headers, connector=connector) as http,
    ):
        load = Load(http, system.folder / "ledger", calls_per_turn)
        channel = await connection.channel(publisher_confirms=False)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind("approvals", "approval.opened")
        await queue.bind("conversations", "event.#")
        await queue.consume(load.hear, no_ack=True)
        yield load


def main() -> None:
    """Measure once, for a quick look: `python -m bench.placet_system IN_FLIGHT COUNT [CALLS_PER_TURN]`."""
    in_flight, count, calls_per_turn = (*map(int, sys.argv[1:]), CALLS)[:3]
    found = asyncio.run(_measure(in_flight, count, calls_per_turn=calls_per_turn))
    sys.stdout.write(f"{found}\n")


if __name__ == "__main__":
    main()
