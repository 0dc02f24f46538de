"""A whole Placet from outside: real processes, real broker, real database; what a person would start.

`System` starts services as processes of their own (the distributed footing) and can kill any of them;
`people.py` beside it is how a test talks to it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psycopg

from placet.cli import invariants
from placet.contracts.signing import create_keys
from placet.gateway.identity.bootstrap import create_key
from tests.support.http import http_client
from tests.support.orphans import end_with_parent
from tests.support.ports import lasting_port

ROOT = Path(__file__).parent.parent.parent
SHOP_RULEBOOK = ROOT / "deploy" / "rulebook.yaml"
#: How long anything may take to start or to come true before the test fails, in seconds.
PATIENCE_SECONDS = 180.0
#: How long a process may take to stop, in seconds: twice PLACET_DRAIN_SECONDS, as orchestrators are told to wait.
STOP_SECONDS = 40.0


async def until(condition: Callable[[], Awaitable[bool]], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Return when `condition` is true; fail with `what` when it takes too long."""
    async with asyncio.timeout(seconds) as limit:
        while not await condition():
            remaining = (limit.when() or 0) - asyncio.get_running_loop().time()
            if remaining < 1:
                raise AssertionError(f"waited {seconds} s for: {what}")
            await asyncio.sleep(0.05)


def assert_invariants(database_url: str) -> None:
    """Fail unless all invariants of docs/reliability.md hold that rows can break."""
    found = invariants.check(database_url)
    broken = {invariant.name: rows for invariant, rows in found.items() if rows != []}
    assert {} == broken, broken


@dataclass
class Process:
    """One service's process."""

    name: str
    arguments: tuple[str, ...]
    environment: dict[str, str]
    log: Path
    health_port: int = 0
    running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; its output goes to its log file."""
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(
                [sys.executable, *self.arguments],
                env=self.environment,
                cwd=ROOT,
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - it only asks the kernel for a signal
            )

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end; fail where it does not."""
        self._end(signal.SIGTERM)

    def dump(self) -> None:
        """Have it write to its log what each of its tasks waits for, where it runs delayed."""
        assert self.running is not None
        self.running.send_signal(signal.SIGUSR1)

    def _end(self, number: signal.Signals) -> None:
        assert self.running is not None
        self.running.send_signal(number)
        try:
            self.running.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.dump()
            with suppress(subprocess.TimeoutExpired):
                self.running.wait(1)
            self.running.kill()
            self.running.wait()
            told = self.log.read_text()[-6000:]
            raise AssertionError(f"{self.name} did not stop within {STOP_SECONDS:.0f} s:\n{told}") from None

    @property
    def worker(self) -> str:
        """The name that it has in histories as a worker, where it is an executor."""
        assert self.running is not None
        return f"{socket.gethostname()}:{self.running.pid}"

    async def until_ready(self) -> None:
        """Return when it says it is ready; fail with the reason it gives and the end of its log where it never does."""
        try:
            await until(self.ready, f"{self.name} is ready")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{await self._why_not()}") from error

    async def _why_not(self) -> str:
        async with http_client() as client:
            try:
                answer = await client.get(f"http://127.0.0.1:{self.health_port}/readyz", timeout=5)
                said = f"/readyz says {answer.status_code}: {answer.text[:1000]}"
            except httpx.HTTPError as error:
                said = f"/readyz does not answer: {error!r}"
        return f"{said}\n{self.log.read_text()[-3000:]}"

    async def ready(self) -> bool:
        """Tell whether it says it is ready; fail when it has ended."""
        assert self.running is not None
        if self.running.poll() is not None:
            raise AssertionError(f"{self.name} ended with {self.running.returncode}:\n{self.log.read_text()[-3000:]}")
        try:
            async with http_client() as client:
                answer = await client.get(f"http://127.0.0.1:{self.health_port}/readyz", timeout=5)
        except httpx.HTTPError:
            return False
        return answer.status_code == 200


@dataclass
class System:
    """A running Placet on the distributed footing."""

    folder: Path
    database_url: str
    rabbitmq_url: str
    rulebook: Path = SHOP_RULEBOOK
    environment: dict[str, str] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)
    gateway_port: int = field(default_factory=lasting_port)

    @property
    def url(self) -> str:
        """The gateway's address."""
        return f"http://127.0.0.1:{self.gateway_port}"

    def prepare(self) -> None:
        """Create the signing keys."""
        create_keys(self.folder / "keys")

    def key(self, *scopes: str, tenant: str = "acme", person: str = "ada") -> str:
        """Return a new API key."""
        with psycopg.connect(self.database_url) as connection:
            return create_key(connection, tenant=tenant, person=person, scopes=list(scopes))

    def add(self, name: str, *, number: int = 1, **settings: str) -> Process:
        """Prepare one more process of a service; `start` starts it."""
        port = lasting_port()
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PLACET_")},
            "PYTHONPATH": str(ROOT),
            "PLACET_DATABASE_URL": self.database_url,
            "PLACET_DATABASE_POOL_SIZE": "5",
            "PLACET_RABBITMQ_URL": self.rabbitmq_url,
            "PLACET_KEYS": str(self.folder / "keys"),
            "PLACET_RULEBOOK": str(self.rulebook),
            "PLACET_TOOLS": str(ROOT / "examples"),
            "PLACET_HEALTH_PORT": str(port),
            **self.environment,
            **settings,
        }
        if name == "gateway":
            environment |= {"PLACET_GATEWAY_PORT": str(self.gateway_port), "PLACET_HEALTH_PORT": "0"}
            environment["PLACET_GATEWAY_METRICS"] = "true"
            port = self.gateway_port
        label = f"{name}-{number}"
        program = ("tests.support.delayed", name) if "DELAYS" in environment else (f"placet.{name}",)
        process = Process(label, ("-m", *program), environment, self.folder / f"{label}.log", port)
        self.processes[label] = process
        return process

    async def start(self) -> None:
        """Start every process and wait until each is ready."""
        for process in self.processes.values():
            if process.running is None:
                process.start()
        for process in self.processes.values():
            await process.until_ready()

    async def start_again(self, name: str) -> None:
        """Start one process again and wait until it is ready."""
        self.processes[name].start()
        await self.processes[name].until_ready()

    def assert_invariants(self) -> None:
        """Fail unless all invariants hold that rows can break."""
        assert_invariants(self.database_url)

    def stop(self) -> None:
        """End every process; fail where they left an invariant broken."""
        for process in self.processes.values():
            if process.running is not None and process.running.poll() is None:
                process.running.terminate()
        for process in self.processes.values():
            if process.running is not None:
                process.stop()
        self.assert_invariants()

    def halt(self) -> None:
        """Stop every process that is left, so that all can be started anew."""
        for process in self.processes.values():
            if process.running is not None:
                process.stop()
            process.running = None

    def logs(self) -> str:
        """Return what every process has written."""
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def count(self, query: str) -> int:
        """Return the number that a query gives."""
        # Without a transaction: where its end is cut off, psycopg leaves the connection open.
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            row = connection.execute(query).fetchone()
            assert row is not None
            return int(row[0])

    async def counts(self, query: str, number: int, what: str) -> None:
        """Return when a query gives this number; fail with `what` when it takes too long."""

        async def reached() -> bool:
            return self.count(query) == number

        await until(reached, what)


#: More than one of everything that may have replicas.
REPLICAS: Mapping[str, int] = {
    "gateway": 1,
    "agent": 2,
    "policy": 2,
    "approval": 2,
    "notifier": 1,
    "executor": 3,
    "jobs": 1,
    "dead_letters": 1,
}


@contextmanager
def running(system: System, replicas: Mapping[str, int]) -> Iterator[System]:
    """Run a system with so many replicas of each service, for fixtures that are shared."""
    with _prepared(system, replicas):
        asyncio.run(system.start())
        yield system


@contextmanager
def _prepared(system: System, replicas: Mapping[str, int]) -> Iterator[None]:
    """Prepare a system with so many replicas of each service; stop it in the end."""
    system.prepare()
    for name, count in replicas.items():
        for number in range(1, count + 1):
            system.add(name, number=number)
    try:
        yield
    finally:
        system.stop()


@asynccontextmanager
async def a_system(system: System, replicas: Mapping[str, int] = REPLICAS) -> AsyncIterator[System]:
    """Run a system with so many replicas of each service."""
    with _prepared(system, replicas):
        await system.start()
        yield system
