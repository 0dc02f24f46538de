"""Placet, as it is measured: each of its services a process, messages and decisions over HTTP; or all in one process.

One call: the stub model proposes the tool, policy holds it, the decision is posted, the executor runs the tool, the
agent records the result and asks the stub model again, which says the next thing.

`PLACET` is what goals speak of: every service, an agent that proposes one call after another in a turn, as models do
that are given a task. In `SINGLE` a person also writes before every call, so that each is a turn of its own. `UNGATED`
runs what needs nobody's decision. `EMBEDDED` is one process without a broker, on the same PostgreSQL as the others.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from time import perf_counter

import psycopg

from bench.load import Waits, a_load
from bench.measurement import Measurement, percentile, verify
from bench.processor import POSTGRES_URL, ProcessorTime
from placet.deploy.migrations import migrate
from tests.support import services
from tests.support.postgres import Databases
from tests.support.rabbitmq import VirtualHosts
from tests.support.system import System, a_system

RULEBOOK = Path(__file__).parent / "rulebook.yaml"
SERVICES = ("gateway", "agent", "policy", "approval", "executor", "dead_letters", "notifier")
SETTINGS = {
    "PLACET_DATABASE_POOL_SIZE": "16",
    "PLACET_EXECUTOR_SLOTS": "64",
    "PLACET_EXECUTOR_PREFETCH": "32",
    "PLACET_POOL_BATCHES": '{"default": 32}',
    # One key posts for everybody here.
    "PLACET_GATEWAY_KEY_MESSAGES_PER_MINUTE": "0",
    "PLACET_LOG_LEVEL": "warning",
}

#: Wraps the part of a run that counts.
Watch = Callable[[System], AbstractContextManager[object]]
#: Changes processes before they start.
Prepare = Callable[[System], None]


@dataclass(frozen=True)
class Variant:
    """One way to run Placet."""

    name: str
    calls: int = 8
    """Of one conversation, whose transcript grows with each."""
    calls_per_turn: int = 8
    gated: bool = True
    embedded: bool = False
    agent: str = "bench.stub_agent"
    settings: Mapping[str, str] = field(default_factory=dict)
    rulebook: Path = RULEBOOK
    services: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(SERVICES, 1))
    """Processes of each."""

    async def measure(self, in_flight: int, count: int) -> Measurement:
        """Measure calls with nothing else watching."""
        spent = ProcessorTime()
        seen = await run_calls(self, in_flight, count, lambda _: spent)
        until = seen.waits.uttered or seen.waits.until_recorded
        return Measurement(
            in_flight=in_flight,
            calls_per_second=seen.calls / seen.seconds,
            decision_to_result_p50_ms=percentile(until, 0.5) * 1000,
            p99_ms=percentile(until, 0.99) * 1000,
            cpu_ms_per_call=spent.seconds * 1000 / seen.calls,
            recorded_p50_ms=percentile(seen.waits.until_recorded, 0.5) * 1000,
        )


PLACET = Variant("placet")
SINGLE = Variant("placet_single", calls_per_turn=1)
UNGATED = Variant("ungated", gated=False)
EMBEDDED = Variant("embedded", embedded=True)


@dataclass(frozen=True)
class Run:
    """What was seen of one run, each call checked to have run exactly once."""

    calls: int
    seconds: float
    waits: Waits


async def run_calls(
    variant: Variant, in_flight: int, count: int, watch: Watch, prepare: Prepare = lambda _: None
) -> Run:
    """Start a fresh Placet, run calls with `in_flight` open at a time, and stop it.

    As many calls as whole conversations have: about `count`, and at least one conversation for each call in flight.
    """
    conversations = max(in_flight, count // variant.calls)
    async with (
        a_placet(variant, prepare) as system,
        a_load(system, variant) as load,
    ):
        await load.open(in_flight)
        await load.run(in_flight)
        _analyze(system.database_url)
        await load.open(conversations)
        with watch(system):
            began = perf_counter()
            waits = await load.run(in_flight)
            seconds = perf_counter() - began
        verify(conversations * variant.calls, len(waits.began), Counter(load.ledger.read_text().split()))
    return Run(conversations * variant.calls, seconds, waits)


@asynccontextmanager
async def a_placet(variant: Variant, prepare: Prepare = lambda _: None) -> AsyncIterator[System]:
    """Run a Placet in a folder, a database and a virtual host of its own."""
    databases, hosts = await asyncio.to_thread(_servers)
    with tempfile.TemporaryDirectory(prefix="placet-bench-") as place:
        folder = Path(place)
        environment = {
            **SETTINGS,
            "PLACET_BENCH_FOLDER": str(folder),
            "PLACET_BENCH_CALLS_PER_TURN": str(variant.calls_per_turn),
            "PLACET_BENCH_TOOL": "touch" if variant.gated else "look",
            **variant.settings,
        }
        with databases.fresh(_migrate) as database_url:
            system = System(folder, database_url, hosts.fresh(), variant.rulebook, environment)
            _add_processes(system, variant)
            prepare(system)
            async with a_system(system, {}):
                yield system


@cache
def _servers() -> tuple[Databases, VirtualHosts]:
    """Return what gives each run its database and its virtual host, until this process ends."""
    url = services.find_rabbitmq(os.environ)
    administration = services.administration(os.environ, url or "")
    if url is None or administration is None:
        raise RuntimeError("no RabbitMQ: use `make bench`")
    databases, hosts = Databases(POSTGRES_URL), VirtualHosts(url, administration)
    atexit.register(databases.close)
    atexit.register(hosts.close)
    return databases, hosts


def _add_processes(system: System, variant: Variant) -> None:
    if variant.embedded:
        host = system.add("host")
        host.arguments = ("-m", "bench.embedded_host")
        host.environment |= {"PLACET_GATEWAY_PORT": str(system.gateway_port), "PLACET_HEALTH_PORT": "0"}
        host.health_port = system.gateway_port
        return
    for name, number in variant.services.items():
        for one in range(number):
            process = system.add(name, number=one + 1)
            if name == "agent":
                process.arguments = ("-m", variant.agent)


def pids_of(system: System) -> dict[str, list[int]]:
    """Return the numbers of the processes that run, by service."""
    pids: dict[str, list[int]] = {}
    for label, process in system.processes.items():
        if process.running is not None:
            pids.setdefault(label.rpartition("-")[0], []).append(process.running.pid)
    return pids


def _migrate(url: str) -> None:
    migrate(url)


def _analyze(url: str) -> None:
    """Let PostgreSQL know its tables, as it does by itself within the first minute of their life."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
