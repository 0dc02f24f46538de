"""The unit of work: state, history, inbox and outgoing messages commit together or not at all.

A handler gets a message and a `Work`; it loads, asks its rules, saves, and hands over what to send. It never commits
and never publishes: that happens here, once, at the end, in this order: commit, publish, then whatever acts on the
slow outside world.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from shared.database import Database, ServiceTables
from shared.ids import child_traceparent, new_id
from shared.messages import Event, Message
from shared.outbox import Outbox, OutboxRow, row_of, save_rows
from shared.sql import Connection, records
from shared.topology import Destination

Act = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Cause:
    """What a piece of work goes back to. Rows whose work continues later keep it as JSON."""

    #: Id of the causing event; empty where a person or a timer began it.
    id: str = ""
    correlation_id: str = ""
    traceparent: str = ""

    def as_json(self) -> dict[str, str]:
        """Return the form that `Cause(**value)` reads back."""
        return {"id": self.id, "correlation_id": self.correlation_id, "traceparent": self.traceparent}


def cause_of(event: Event) -> Cause:
    """Return `event` as the cause of what follows."""
    return Cause(event.id, event.correlation_id, event.traceparent)


@dataclass(frozen=True, slots=True)
class Change:
    """One row of the history: which machine went where, why, and who moved it."""

    tenant: str
    machine: str
    subject_id: str
    event: str
    from_state: str | None
    to_state: str
    actor: str
    call_id: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)


#: Columns of the history that a change brings, with their types, for statements that write history of their own.
CHANGE_COLUMNS: dict[str, Any] = {
    **dict.fromkeys((name for name in Change.__slots__ if name != "detail"), sa.Text),
    "detail": pg.JSONB,
    "message_id": sa.Text,
}


def change_row(change: Change, message_id: str) -> dict[str, Any]:
    """Return a change as a row of `CHANGE_COLUMNS`; `message_id` is that of the event that caused it, or empty."""
    return {name: getattr(change, name) for name in Change.__slots__} | {"message_id": message_id or None}


@cache
def _record(history: sa.Table) -> sa.Insert:
    return sa.insert(history).from_select(list(CHANGE_COLUMNS), sa.select(records("changes", CHANGE_COLUMNS)))


class Work:
    """One transaction in progress."""

    def __init__(self, connection: Connection, database: Database, *, now: datetime, cause: Cause) -> None:
        #: The transaction's connection; only `store` modules use it.
        self.connection = connection
        #: When the transaction began, by the database clock; where that is told by an earlier statement, its clock as
        #: far as it has gone on since. Expiry needs `clock()` after the row lock instead.
        self.now = now
        #: What this work goes back to; the consumer shell sets it for each event of an envelope.
        self.cause = cause
        #: Rows that this transaction has locked and waits for nobody with, each with what it was first locked for;
        #: only `store` modules use it.
        self.held: dict[str, str] = {}
        self.tables: ServiceTables = database.tables
        self._service = database.service
        self._rows: list[OutboxRow] = []
        self._changes: list[dict[str, Any]] = []
        self._acts: list[Act] = []

    def emit(self, *messages: Message) -> None:
        """Hand over messages: stored with the state, published after the commit."""
        self._rows += [row_of(self._event(message)) for message in messages]

    def record(self, *changes: Change) -> None:
        """Hand over history rows."""
        self._changes += [change_row(change, self.cause.id) for change in changes]

    def act(self, *acts: Act) -> None:
        """Hand over what to do with the slow outside world once the commit is safe."""
        self._acts += acts

    async def clock(self) -> datetime:
        """Return the database clock now: what expiry is judged by, after the row is locked."""
        moment: datetime = (await self.connection.execute(sa.text("SELECT clock_timestamp()"))).scalar_one()
        return moment

    def _event(self, message: Message) -> Event:
        event_id = new_id()
        return Event(
            id=event_id,
            source=self._service,
            time=self.now,
            correlation_id=self.cause.correlation_id or event_id,
            causation_id=self.cause.id,
            traceparent=child_traceparent(self.cause.traceparent),
            message=message,
        )

    async def flush(self) -> None:
        """Write history and outbox rows; the last statements before the commit."""
        if self._changes:
            await self.connection.execute(_record(self.tables.history), {"changes": self._changes})
        if self._rows:
            await save_rows(self.connection, self.tables.outbox, self._rows)

    def send_again(self, destination: Destination, event: str) -> None:
        """Hand over an event's JSON as it once was, ids included, for `destination`; only dead letters need this."""
        self._rows.append(OutboxRow(new_id(), destination, 1, mandatory=True, event=event))

    @property
    def rows(self) -> list[OutboxRow]:
        """What was handed over to be sent."""
        return self._rows

    @property
    def acts(self) -> Iterable[Act]:
        """What was handed over to be done after the commit."""
        return self._acts


class UnitOfWork:
    """Begins pieces of work for one service."""

    def __init__(self, database: Database, outbox: Outbox) -> None:
        self.database = database
        self.outbox = outbox

    @asynccontextmanager
    async def begin(self, cause: Cause | None = None) -> AsyncIterator[Work]:
        """Yield a Work; at the end commit it, pass its messages on and run its acts. Any error rolls all back."""
        async with self.database.transaction() as connection:
            now = (await connection.execute(sa.text("SELECT now()"))).scalar_one()
            work = Work(connection, self.database, now=now, cause=cause or Cause())
            yield work
            await work.flush()
        await self.finish(work)

    async def finish(self, work: Work) -> None:
        """Pass on what a committed Work handed over."""
        self.outbox.send(work.rows)
        for act in work.acts:
            await act()
