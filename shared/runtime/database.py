"""PostgreSQL, the keeper of truth: one schema per service, and the three tables every service has.

`inbox` holds what was handled, `outbox` what must still be sent, `history` every change of a state, so that all three
commit together with the state itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from math import inf
from time import monotonic
from typing import Any

import asyncpg
import sqlalchemy as sa
import structlog
from sqlalchemy.dialects import postgresql as pg

from placet.runtime.driver import (
    ANSWER_SECONDS,
    RAISED,
    DatabaseClosed,
    DatabaseError,
    Outage,
    Silence,
    pool_options,
    translated,
)
from placet.runtime.outages import Outages
from placet.runtime.queries import load_queries
from placet.runtime.sql import Connection
from placet.runtime.urls import redacted_url
from placet.runtime.watchdog import TooLong

log = structlog.get_logger(__name__)

#: How long a committed row of an outbox belongs to the process that wrote it, in seconds; then any replica's relay may
#: send it. The tables and `take_due` have it too.
OWN_SECONDS = 5
#: How long the database counts as full after it said so, in seconds: what only reads is answered all the same.
FULL_SECONDS = 10.0

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: A time with its zone.
MOMENT = sa.TIMESTAMP(timezone=True)


def column(name: str, kind: Any, *parts: sa.ForeignKey, **options: Any) -> sa.Column[Any]:
    """Return a column that every row fills, unless `nullable=True` is said; `options` are SQLAlchemy's for a Column."""
    return sa.Column(name, kind, *parts, **{"nullable": False, **options})


@dataclass(frozen=True)
class ServiceTables:
    """The three tables that the unit of work of one service writes."""

    inbox: sa.Table
    outbox: sa.Table
    history: sa.Table


@cache
def service_tables(schema: str) -> ServiceTables:
    """Return the inbox, outbox and history of the service that owns `schema`."""
    return ServiceTables(_inbox(schema), _outbox(schema), _history(schema))


def _inbox(schema: str) -> sa.Table:
    return sa.Table(
        "inbox",
        metadata,
        sa.Column("message_id", sa.Text, primary_key=True),
        sa.Column("queue", sa.Text, primary_key=True),
        sa.Column("handled_at", MOMENT, nullable=False, server_default=sa.func.now()),
        # Rows come in the order of time: the hourly deletion finds its pages, and an insert pays next to nothing.
        sa.Index(None, "handled_at", postgresql_using="brin"),
        schema=schema,
        comment="Ids of the events this service has handled; a second delivery finds its id here.",
    )


def _outbox(schema: str) -> sa.Table:
    return sa.Table(
        "outbox",
        metadata,
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("exchange", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("batch", sa.SmallInteger, nullable=False),
        sa.Column("mandatory", sa.Boolean, nullable=False),
        sa.Column("events", sa.ARRAY(sa.Text), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False, server_default=sa.func.now()),
        sa.Column(
            "due_at", MOMENT, nullable=False, server_default=sa.text(f"now() + interval '{OWN_SECONDS} seconds'")
        ),
        schema=schema,
        comment="What one commit sends one way; a row goes when all of it is confirmed, the relay takes what is due.",
    )


def _history(schema: str) -> sa.Table:
    return sa.Table(
        "history",
        metadata,
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("machine", sa.Text, nullable=False),
        sa.Column("subject_id", sa.Text, nullable=False),
        sa.Column("call_id", sa.Text),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("from_state", sa.Text),
        sa.Column("to_state", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("message_id", sa.Text),
        sa.Column("at", MOMENT, nullable=False, server_default=sa.func.clock_timestamp()),
        sa.Column("detail", pg.JSONB, nullable=False, server_default=sa.text("'{}'")),
        # Actor and detail are sealed as a digest with this salt: once both are erased, nobody can guess them from it.
        sa.Column("salt", pg.UUID, server_default=sa.func.gen_random_uuid()),
        # Whoever reads of one thing in it knows the call that it is about.
        sa.Index(None, "call_id", postgresql_where=sa.text("call_id IS NOT NULL")),
        schema=schema,
        comment="Append-only: every change of a state, written in the transaction that made it.",
    )


#: How long a caller waits for a connection, a stop for those in use, and a connection is waited for that was given up
#: in the middle of a statement, in seconds.
FREE_SECONDS = 30.0
CLOSE_SECONDS = 5.0
CANCEL_SECONDS = 1.0
#: How long the database clock is carried on by the process's own, in seconds.
CLOCK_SECONDS = 10.0
#: PostgreSQL's codes for a schema or a table that is not there.
_UNMIGRATED = frozenset({"3F000", "42P01"})


@dataclass(frozen=True, slots=True)
class Restored:
    """The newest restore of the database from a backup."""

    at: datetime
    #: The newest moment that the backup knows of; what happened between the two, nobody here remembers.
    backup_at: datetime


class Database:
    """One service's connection pool."""

    def __init__(
        self, url: str, *, service: str, pool_size: int = 10, answer_seconds: float | None = ANSWER_SECONDS
    ) -> None:
        """Raise BadDatabaseUrl where `url`, a libpq URL, has what cannot be followed.

        A statement that has no answer after `answer_seconds` is an outage; None: it may take its time.
        """
        self.service = service
        self.tables = service_tables(service)
        self.queries = load_queries(__file__).filled("schema", service)
        #: libpq URL, with its password.
        self.url = url
        # A statement of many parts is planned for longer than it runs. What people search by asks for a plan each time.
        self._options = pool_options(
            url, application=f"placet-{service}", plan_once=service != "gateway", answer_seconds=answer_seconds
        )
        self._options["init"] = partial(self._meet, begin=self._options["init"])
        #: The newest restore, as of the newest connection: who restores lets nobody stay connected.
        self.restored: Restored | None = None
        self._size = 2 * pool_size
        self._pool: Any = None
        #: The database clock when it was last told, and this process's then.
        self._told: tuple[datetime, float] | None = None
        self._outages = Outages("database.away", "database.back")
        #: When it last had no room, by the monotonic clock.
        self._full_at = -inf
        self._full = Outages("database.full", "database.has_room")

    async def _meet(self, raw: Any, *, begin: Callable[[Any], Awaitable[None]]) -> None:
        """Prepare a new connection, and learn whether the database was restored since the last one."""
        await begin(raw)
        # Where there is no such view, nothing was migrated yet.
        with suppress(asyncpg.UndefinedTableError):
            row = await raw.fetchrow(self.queries.restored.text)
            self.restored = Restored(*row) if row else None

    @asynccontextmanager
    async def single(self) -> AsyncIterator[Connection]:
        """Yield a connection whose every statement is a transaction: no BEGIN and no COMMIT to pay for."""
        async with self._acquired() as raw:
            yield Connection(raw)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Yield a connection inside one transaction; commit at the end, roll back on any error."""
        async with self._acquired() as raw:
            connection = Connection(raw)
            # Entered, not started: the driver takes one whose BEGIN is cancelled for an oversight else, and says so.
            transaction = await connection.told(_entered, raw)
            try:
                yield connection
            except BaseException as error:
                with suppress(*RAISED):
                    async with asyncio.timeout(CANCEL_SECONDS):
                        await transaction.__aexit__(type(error), error, error.__traceback__)
                raise
            await connection.told(transaction.__aexit__, None, None, None)
            self._full.meet()

    @asynccontextmanager
    async def _acquired(self) -> AsyncIterator[Any]:
        if self._pool is None:
            self._pool = asyncpg.create_pool(min_size=0, max_size=self._size, **self._options)
            await self._pool
        asked = monotonic()
        try:
            raw = await self._pool.acquire(timeout=FREE_SECONDS)
        except TimeoutError:
            # Sooner, it was not waited for one that others use: a new one was to be made.
            is_silent = monotonic() - asked < FREE_SECONDS
            answers = f"the server did not answer within {self._options['timeout']:g} seconds"
            reason = answers if is_silent else f"no connection was free within {FREE_SECONDS:g} seconds"
            self._outages.miss(asked, error=reason, address=redacted_url(self.url))
            raise Outage(reason) from None
        except RAISED as error:
            if self._pool.is_closing():
                raise DatabaseClosed("the service is stopping") from None
            self._outages.miss(asked, error=f"{type(error).__name__}: {error}", address=redacted_url(self.url))
            raise translated(error, lost=True) from None
        self._outages.meet()
        try:
            yield raw
        except TooLong:
            # It was raised anywhere, and the driver may not know where it stands.
            raw.terminate()
            raise
        except Silence as error:
            # What silences one line silences others: new ones are made, so that nobody else waits for those.
            await self._pool.expire_connections()
            self._outages.miss(asked, error=str(error), address=redacted_url(self.url))
            raise
        except Outage as error:
            if error.is_full_disk:
                self._full_at = monotonic()
                self._full.miss(address=redacted_url(self.url))
            raise
        finally:
            # Where it cannot be made ready for the next one, the pool hangs up; what it was used for is done or said.
            with suppress(*RAISED):
                await self._pool.release(raw, timeout=CANCEL_SECONDS)

    def tell(self, now: datetime) -> None:
        """Remember what the database clock says now."""
        self._told = now, monotonic()

    async def clock(self, connection: Connection) -> datetime:
        """Return the database clock, asked at most every 10 seconds and carried on by this process's meanwhile."""
        if self._told is None or monotonic() - self._told[1] > CLOCK_SECONDS:
            self.tell((await connection.run(self.queries.clock))[0][0])
        assert self._told is not None  # noqa: S101 - just told
        told, at = self._told
        return told + timedelta(seconds=monotonic() - at)

    def tell_lost(self, **told: object) -> None:
        """Say that work is tried again which an outage ended; not while the log has said that the database is away."""
        if not (self._outages.on or self._full.on):
            log.warning("database.outage", **told)

    async def ready(self) -> bool:
        """Tell whether the database answers now, has the service's tables, and had room lately."""
        return await self._why_not_ready() is None

    async def _why_not_ready(self) -> str | None:
        if monotonic() - self._full_at < FULL_SECONDS:
            return "its disk is full"
        try:
            async with asyncio.timeout(3), self.single() as connection:
                await connection.run(self.queries.probe)
        except TimeoutError:
            return "no answer"
        except DatabaseError as error:
            if error.sqlstate in _UNMIGRATED:
                return "it has no tables of this service: run `placet migrate`"
            return f"{type(error).__name__}: {error}"
        return None

    async def wait_ready(self) -> None:
        """Return when the database answers and was migrated, saying once in a while why that is not so."""
        tries = 0
        while reason := await self._why_not_ready():
            if tries % 10 == 0 and not (self._outages.on or self._full.on):
                log.warning("database.waiting", address=redacted_url(self.url), reason=reason)
            tries += 1
            await asyncio.sleep(min(0.2 * 2**tries, 2.0))

    async def close(self) -> None:
        """Close every connection; hang up those that are still in use after a while."""
        if self._pool is None:
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()


async def _entered(raw: Any) -> Any:
    transaction = raw.transaction()
    await transaction.__aenter__()
    return transaction


def one_of(column: str, words: Iterable[str]) -> str:
    """Return the condition that `column` has one of these words."""
    listed = ", ".join(f"'{word}'" for word in words)
    return f"{column} IN ({listed})"


def check_states(column: str, states: Iterable[str]) -> sa.CheckConstraint:
    """Return the CHECK that keeps `column` inside a machine's states: the database refuses what the code forgot."""
    return sa.CheckConstraint(one_of(column, states), name=f"{column}_known")


def async_url(url: str) -> str:
    """Return the form of a libpq URL for SQLAlchemy's engine, which psycopg serves: migrations, and stores of tools."""
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


def is_outage(error: BaseException) -> bool:
    """Tell whether an error says nothing about the event: connection lost, deadlock, server stopping, pool empty."""
    return isinstance(error, Outage)
