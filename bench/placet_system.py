"""Placet whole, as it is measured: every service a process of its own, messages and decisions over HTTP.

One call: a message is posted, the stub model proposes the tool, policy holds it, the decision is posted, the executor
runs the tool, the agent records the result, asks the stub model again and ends the turn. The end of the turn, seen on
RabbitMQ, is what counts as "back with the agent": later than the floor's, never earlier.
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
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import aio_pika
import aiohttp

from bench.floor import POSTGRES_URL, STALL_SECONDS
from bench.measurement import Measurement, percentile, verify
from bench.processor import ProcessorTime
from deploy.migrations import migrate
from tests.support import services
from tests.support.postgres import Databases
from tests.support.rabbitmq import VirtualHosts
from tests.support.system import Process, System, a_system

RULEBOOK = Path(__file__).parent / "rulebook.yaml"
REPLICAS = {"gateway": 1, "policy": 1, "approval": 1, "notifier": 1, "executor": 1, "audit": 1}
SETTINGS = {
    "PLACET_DATABASE_POOL_SIZE": "16",
    "PLACET_EXECUTOR_SLOTS": "64",
    "PLACET_EXECUTOR_PREFETCH": "16",
}
#: Pause before a request that was answered with 503 is made again.
PAUSE_SECONDS = 0.05
#: Turns of one conversation; its transcript grows with each.
TURNS = 8
#: Calls made before the clock starts, for each call in flight.
WARM_UP = 2


async def measure(in_flight: int, count: int) -> Measurement:
    """Start a fresh Placet, run `count` gated calls with `in_flight` open at a time, and stop it."""
    with tempfile.TemporaryDirectory(prefix="placet-bench-") as folder:
        async with a_placet(Path(folder), "bench.stub_agent", SETTINGS) as system, _load(system) as load:
            await load.open(in_flight)
            await load.run(in_flight, WARM_UP * in_flight)
            await load.open(max(in_flight, -(-count // TURNS)))
            load.ledger.unlink()
            with ProcessorTime() as spent:
                began = perf_counter()
                waits = await load.run(in_flight, count)
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
async def a_placet(folder: Path, agent: str, settings: Mapping[str, str]) -> AsyncIterator[System]:
    """Run a whole Placet whose agent is the module `agent`; `settings` are those of every process."""
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
            async with a_system(system, REPLICAS):
                yield system
    finally:
        databases.close()
        hosts.close()


def _migrate(url: str) -> None:
    migrate(url)


def _add_agent(system: System, module: str) -> None:
    agent: Process = system.add("agent")
    agent.arguments = ("-m", module)


class Load:
    """People and frontends, as fast as they can."""

    def __init__(self, http: aiohttp.ClientSession, ledger: Path) -> None:
        self.ledger = ledger
        self._http = http
        self._conversations: list[str] = []
        self._opened: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._ended: dict[str, asyncio.Future[None]] = {}

    async def open(self, number: int) -> None:
        """Open conversations for the next run; each serves some turns, one at a time."""
        self._conversations = [(await self._post("/v1/conversations", {}))["id"] for _ in range(number)]

    async def run(self, in_flight: int, count: int) -> list[float]:
        """Return the seconds from decision to result of each call."""
        numbers = iter(range(count))
        waits: list[float] = []

        async def worker() -> None:
            for conversation in iter(self._next, ""):
                waits.extend([await self._one_call(conversation) for _ in islice(numbers, TURNS)])

        await asyncio.gather(*(worker() for _ in range(in_flight)))
        return waits

    def _next(self) -> str:
        return self._conversations.pop() if self._conversations else ""

    async def _one_call(self, conversation: str) -> float:
        loop = asyncio.get_running_loop()
        opened = self._opened[conversation] = loop.create_future()
        ended = self._ended[conversation] = loop.create_future()
        async with asyncio.timeout(STALL_SECONDS):
            await self._post(f"/v1/conversations/{conversation}/messages", {"text": "touch it"})
            card = await opened
            decided = perf_counter()
            body = {"decision": "approve", "digest": card["call"]["digest"]}
            await self._post(f"/v1/approvals/{card['approval_id']}/decisions", body)
            await ended
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
                    self._opened[data["call"]["conversation_id"]].set_result(data)
                case "placet.conversation.event.v1" if data["kind"] == "turn_ended":
                    self._ended[data["conversation_id"]].set_result(None)


@asynccontextmanager
async def _load(system: System) -> AsyncIterator[Load]:
    key = system.key("chat", "decide")
    headers = {"authorization": f"Bearer {key}"}
    connector = aiohttp.TCPConnector(limit=256)
    async with (
        await aio_pika.connect(system.rabbitmq_url) as connection,
        aiohttp.ClientSession(system.url, headers=headers, connector=connector) as http,
    ):
        load = Load(http, system.folder / "ledger")
        channel = await connection.channel(publisher_confirms=False)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind("approvals", "approval.opened")
        await queue.bind("conversations", "event.#")
        await queue.consume(load.hear, no_ack=True)
        yield load


def main() -> None:
    """Measure once, for a quick look: `python -m bench.placet_system IN_FLIGHT COUNT`."""
    sys.stdout.write(f"{asyncio.run(measure(int(sys.argv[1]), int(sys.argv[2])))}\n")


if __name__ == "__main__":
    main()
