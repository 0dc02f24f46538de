"""One replica of a real service on a private bus and a real database, and everything that it sends.

A message goes in through the service's own consumer shell; `send` returns when it was handled and all that followed
was sent. Two replicas on one database are two processes as far as PostgreSQL can tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from placet.contracts.messages import Event, Message
from placet.contracts.messages.message import SignedMessage
from placet.contracts.signed import PURPOSES, signed
from placet.contracts.signing import SIGNERS, Signer, load_signer
from placet.contracts.topology import DEAD_LETTERS, EXCHANGES, Destination, QueueSpec, destination_of, queue
from placet.runtime.bus import Delivery
from placet.runtime.consumer import read_envelope
from placet.runtime.database import Database, Restored, async_url, metadata, service_tables
from placet.runtime.in_process import InProcessBus
from placet.runtime.outbox import Outbox
from placet.runtime.service import Runtime, Service
from placet.runtime.work import Cause, UnitOfWork, Work
from tests.builders import an_envelope, an_event

M = TypeVar("M", bound=Message)

_EVERYTHING = QueueSpec("test.capture", "test", tuple(Destination(exchange, "#") for exchange in EXCHANGES))
_WAITING = sa.text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


def create_tables(service: str) -> Callable[[str], None]:
    """Return a function that makes the schema and tables of one service in the database at a URL."""
    service_tables(service)
    # Importing the tables has made them known.
    import_module(f"placet.{service}.tables")

    def create(url: str) -> None:
        engine = sa.create_engine(async_url(url))
        with engine.begin() as connection:
            connection.execute(sa.text(f"CREATE SCHEMA {service}"))
            metadata.create_all(connection, [each for each in metadata.sorted_tables if each.schema == service])
        engine.dispose()

    return create


class BreakingUnits(UnitOfWork):
    """A service's pieces of work, of which one cannot begin: the `at`-th, counted from 1."""

    def __init__(self, units: UnitOfWork, *, at: int) -> None:
        super().__init__(units.database, units.outbox)
        self._at = at
        self._begun = 0

    @asynccontextmanager
    async def begin(self, cause: Cause | None = None) -> AsyncIterator[Work]:
        """Begin a piece of work, or break."""
        self._begun += 1
        if self._begun == self._at:
            raise ZeroDivisionError
        async with super().begin(cause) as work:
            yield work


class Replica:
    """One process of a service."""

    def __init__(self, service: Service, keys: Path | None = None) -> None:
        self.service = service
        self._keys = keys
        self.units: UnitOfWork = service.runtime.units
        self.sent: list[Event] = []
        #: Why each was buried, and what.
        self.dead: list[str] = []
        self.buried: list[bytes] = []
        bus = service.runtime.bus
        service.subscribe()
        bus.subscribe(_EVERYTHING, self._keep)
        bus.subscribe(queue(DEAD_LETTERS), self._bury)

    async def _keep(self, delivery: Delivery) -> None:
        self.sent += read_envelope(delivery.body)[0]

    async def _bury(self, delivery: Delivery) -> None:
        self.dead.append(str(delivery.headers["x-placet-reason"]))
        self.buried.append(delivery.body)

    @property
    def signer(self) -> Signer:
        """The service's own key."""
        return self._signer_of(self.service.name)

    def _signer_of(self, issuer: str) -> Signer:
        assert self._keys is not None
        return load_signer(self._keys, issuer)

    def as_sent(self, message: Message) -> Message:
        """Sign what is not signed yet, as its one sender does."""
        if not isinstance(message, SignedMessage) or message.signature:
            return message
        issuer = next(name for name, purposes in SIGNERS.items() if PURPOSES[type(message)] in purposes)
        return signed(message, self._signer_of(issuer), datetime.now(UTC))

    async def send(self, *messages: Message) -> list[Message]:
        """Have messages of one destination handled as one envelope; return what was sent because of it."""
        return await self.send_events(*[an_event(self.as_sent(message)) for message in messages])

    async def send_events(self, *events: Event) -> list[Message]:
        """Have an envelope handled; return what was sent because of it."""
        before = len(self.sent)
        body, mine = an_envelope(*events), {event.id for event in events}
        destination = destination_of(events[0].message)
        await self.service.runtime.bus.publish(destination, body, message_id=events[0].id, mandatory=True)
        await self.settle()
        return [event.message for event in self.sent[before:] if event.id not in mine]

    async def send_anew(self, message: Message, *, restored_at: datetime) -> list[Message]:
        """Have a message handled after a restore, in an envelope of since then; return what was sent because of it."""
        self.units.database.restored = Restored(restored_at, restored_at - timedelta(hours=1))
        return await self.send_events(an_event(message, time=restored_at + timedelta(seconds=1)))

    async def settle(self) -> None:
        """Return when everything that was handed over has been sent."""
        await self.service.runtime.outbox.drain()

    def all_sent(self, kind: type[M]) -> list[M]:
        """Return every message of a type that this replica ever sent."""
        return [event.message for event in self.sent if isinstance(event.message, kind)]

    async def rows(self, statement: str, **values: Any) -> list[dict[str, Any]]:
        """Return what a query finds."""
        async with self.units.database.single() as connection:
            found = await connection.execute(sa.text(statement), values)
            return [dict(row) for row in found.mappings()]

    async def execute(self, statement: str, **values: Any) -> None:
        """Change the database behind the service's back."""
        async with self.units.database.transaction() as connection:
            await connection.execute(sa.text(statement), values)

    async def empty_tables(self) -> None:
        """Forget everything that earlier tests left in this service's tables.

        For a few rows a DELETE takes a hundredth of a TRUNCATE, which makes each table and index anew.
        """
        schema = self.units.database.service
        async with self.units.database.transaction() as connection:
            for table in reversed(metadata.sorted_tables):
                if table.schema == schema:
                    await connection.execute(sa.delete(table))

    async def until_waiting(self, sessions: int) -> None:
        """Return when that many sessions of this database wait for a lock."""
        async with asyncio.timeout(10), self.units.database.single() as connection:
            while (await connection.execute(_WAITING)).scalar_one() < sessions:
                pass


@asynccontextmanager
async def a_replica(
    name: str, url: str, build: Callable[[Runtime], Service], *, keys: Path | None = None
) -> AsyncIterator[Replica]:
    """Run one replica without its duties: a test calls those itself. `keys` are those of all who send to it."""
    database = Database(url, service=name, pool_size=5)
    bus = InProcessBus()
    outbox = Outbox(database, bus)
    replica = Replica(build(Runtime(database, bus, outbox, UnitOfWork(database, outbox))), keys)
    await bus.start()
    try:
        yield replica
        await outbox.drain()
    finally:
        await bus.stop()
        await database.close()
