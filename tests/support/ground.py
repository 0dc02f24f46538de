"""A distributed system with a broker, a database and lines of its own: everything in it may be broken."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from placet.deploy.migrations import migrate
from placet.embedded.local_postgres import LocalPostgres
from tests.support.line import Line, to_postgres
from tests.support.rabbitmq_node import PrivateNode, private_node
from tests.support.system import Process, System, until

#: Leases of executors and agents, in seconds.
LEASE_SECONDS = 3.0
#: Connections that the database takes, those that it keeps for its owner among them.
CONNECTIONS_MAX = 220
#: How long everything may take to be ready again after a fault, in seconds.
HEAL_SECONDS = 120.0
#: How long rabbitmqctl may take, in seconds.
CONTROL_SECONDS = 60.0
#: How much is told of each log, in characters, and how long a process has to tell what it waits for, in seconds.
TOLD_MAX, TELL_SECONDS = 6_000, 2.0
SETTINGS: Mapping[str, str] = {
    "PLACET_EXECUTOR_POOLS": "*",
    "PLACET_EXECUTOR_LEASE_SECONDS": f"{LEASE_SECONDS:g}",
    "PLACET_AGENT_LEASE_SECONDS": f"{LEASE_SECONDS:g}",
    "PLACET_EXECUTOR_SWEEP_SECONDS": "0.5",
    "PLACET_GATEWAY_KEY_MESSAGES_PER_MINUTE": "0",
    "PLACET_LOG_LEVEL": "warning",
    "DELAYS": "0.05",
    "TWICE": "0.05",
}


@dataclass
class Ground:
    """The system, and what it stands on."""

    system: System
    node: PrivateNode
    postgres: LocalPostgres
    #: Where the database lies.
    disk: Path
    #: By process, to the broker and to the database.
    lines: dict[str, dict[str, Line]] = field(default_factory=dict)
    #: Processes that a fault has to itself.
    taken: set[str] = field(default_factory=set)

    @contextmanager
    def victim(self, dice: random.Random, *services: str) -> Iterator[Process]:
        """Lend a process that no other fault has, of these services or of any."""
        wanted = [each for each in self.processes if not services or each.name.startswith(services)]
        chosen = dice.choice([each for each in wanted if each.name not in self.taken])
        self.taken.add(chosen.name)
        try:
            yield chosen
        finally:
            self.taken.discard(chosen.name)

    @property
    def processes(self) -> list[Process]:
        """The services' processes."""
        return list(self.system.processes.values())

    async def control(self, *arguments: str) -> str:
        """Run rabbitmqctl, and return what it says."""
        command = [self.node.control, "--quiet", *arguments]
        run = partial(subprocess.run, command, capture_output=True, check=True, timeout=CONTROL_SECONDS, text=True)
        done: subprocess.CompletedProcess[str] = await asyncio.to_thread(run)
        return done.stdout

    def postmaster(self) -> int:
        """Return the database's process."""
        return int((self.disk / "postmaster.pid").read_text().split()[0])

    async def end_postgres(self, number: signal.Signals) -> None:
        """End the database by a signal, and start it again."""
        os.kill(self.postmaster(), number)
        if number is not signal.SIGKILL:

            async def ended() -> bool:
                return not await asyncio.to_thread(lambda: self.postgres.runs)

            await until(ended, "the database has ended")
        await asyncio.to_thread(self.postgres.start)

    def execute(self, *statements: str) -> None:
        """Run statements of an administrator, each by itself."""
        with psycopg.connect(self.system.database_url, autocommit=True) as connection:
            # A fault may have made the database read-only.
            connection.execute("SET default_transaction_read_only = off")
            for statement in statements:
                connection.execute(statement.encode())

    async def healed(self) -> float:
        """Return after how many seconds every service is ready; raise AssertionError where one is not in time."""
        began, late = time.monotonic(), [each.name for each in self.processes]

        async def ready() -> bool:
            answers = await asyncio.gather(*(each.ready() for each in self.processes))
            late[:] = [each.name for each, is_ready in zip(self.processes, answers, strict=True) if not is_ready]
            return not late

        try:
            await until(ready, "every service is ready again", HEAL_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}; not ready: {late}\n{await self.unrest(late)}") from None
        return time.monotonic() - began

    async def unrest(self, names: Collection[str]) -> str:
        """Return what keeps it from rest: queues that are not empty, and what these processes say and wait for."""
        columns = ("name", "messages_ready", "messages_unacknowledged", "consumers")
        try:
            rows = [row.split("\t") for row in (await self.control("list_queues", *columns)).splitlines()[1:]]
            queues = ["  ".join(row) for row in rows if row[1:3] != ["0", "0"]]
        except subprocess.SubprocessError as error:
            queues = [f"the broker says nothing: {error}"]
        for name in names:
            with suppress(ProcessLookupError):
                self.system.processes[name].dump()
        await asyncio.sleep(TELL_SECONDS)
        told = [f"{name}:\n{self.system.processes[name].log.read_text()[-TOLD_MAX:]}" for name in names]
        return "\n".join([f"queues, with what is ready, held and consumers: {queues}", *told])


@asynccontextmanager
async def a_ground(
    folder: Path,
    rulebook: Path,
    replicas: Mapping[str, int],
    environment: Mapping[str, str],
    *,
    disk: Path | None = None,
) -> AsyncIterator[Ground]:
    """Run a system on a broker and a database of its own, each process with lines of its own to both.

    `disk` is where the database lies, if that is elsewhere than all the rest.
    """
    async with AsyncExitStack() as stack:
        node = stack.enter_context(private_node())
        lies = (disk or folder) / "postgres"
        postgres = LocalPostgres(lies)
        stack.callback(postgres.stop)
        url = await asyncio.to_thread(postgres.start)
        with psycopg.connect(url, autocommit=True) as connection:
            for name, value in (("max_connections", CONNECTIONS_MAX), ("deadlock_timeout", "'200ms'")):
                connection.execute(f"ALTER SYSTEM SET {name} = {value}".encode())
        await asyncio.to_thread(migrate, url)
        system = System(folder, url, node.url, rulebook, {**SETTINGS, **environment})
        ground = Ground(system, node, postgres, lies)
        await ground.end_postgres(signal.SIGINT)
        system.prepare()
        for name, count in replicas.items():
            for number in range(1, count + 1):
                await _add(ground, stack, name, number)
        stack.callback(_stop_all, ground)
        await system.start()
        yield ground


async def _add(ground: Ground, stack: AsyncExitStack, name: str, number: int) -> None:
    """Prepare one process, whose lines are its own."""
    broker = urlsplit(ground.node.url)

    async def to_broker() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(broker.hostname, broker.port)

    lines = {"broker": Line(to_broker), "database": Line(to_postgres(lambda: ground.system.database_url))}
    for line in lines.values():
        await line.open()
        stack.push_async_callback(line.close)
    database = f"postgresql://postgres@127.0.0.1:{lines['database'].port}/placet?sslmode=disable"
    rabbitmq = broker._replace(netloc=f"guest:guest@127.0.0.1:{lines['broker'].port}").geturl()
    process = ground.system.add(name, number=number, PLACET_DATABASE_URL=database, PLACET_RABBITMQ_URL=rabbitmq)
    ground.lines[process.name] = lines


def _stop_all(ground: Ground) -> None:
    for process in ground.processes:
        if process.running is not None and process.running.poll() is None:
            process.running.send_signal(signal.SIGCONT)
            process.kill()
