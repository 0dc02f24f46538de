"""The unit of work: state, history, inbox and outgoing messages commit together or not at all.

A handler gets arrivals and a `Work`; it loads, asks its rules, saves, and hands over what to send. It never commits and
never publishes. Two forms:

- a transaction (`UnitOfWork.begin`, and handlers as they are): the inbox first, then the handler's statements, then
  history and outbox in one statement, then COMMIT;
- one statement (`UnitOfWork.once`, and handlers wrapped in `Once`): inbox, the handler's effect, history and outbox are
  one autocommitted data-modifying statement, see `Work.execute_once`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, partial
from typing import Any

import structlog

from placet.contracts.ids import new_id, new_traceparent
from placet.contracts.messages import Event, Message
from placet.contracts.topology import Destination
from placet.runtime import points
from placet.runtime.database import Database
from placet.runtime.outbox import Outbox, OutboxRow, Outgoing, Way, outgoing, placed
from placet.runtime.queries import Query, query
from placet.runtime.sql import Connection
from placet.runtime.tracing import TRACING

log = structlog.get_logger(__name__)

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

    def event(self, message: Message, *, source: str, time: datetime) -> Event:
        """Return the event of a message that follows from this."""
        event_id = new_id()
        return Event(
            id=event_id,
            source=source,
            time=time,
            correlation_id=self.correlation_id or event_id,
            causation_id=self.id,
            traceparent=self.traceparent or new_traceparent(),
            message=message,
        )


def cause_of(event: Event) -> Cause:
    """Return `event` as the cause of what follows."""
    return Cause(event.id, event.correlation_id, event.traceparent)


def cause_of_request() -> Cause:
    """Return the cause of what a request or a timer begins: the span that is open here, where traces are exported."""
    return Cause(traceparent=TRACING.current()) if TRACING.on else Cause()


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
    #: What its line in the log tells beside, such as the conversation, and what metrics count by; the history does not.
    about: Mapping[str, Any] = field(default_factory=dict)
    #: Whether its line is a warning, for somebody has to look.
    needs_somebody: bool = False

    def line(self, traceparent: str) -> dict[str, Any]:
        """Return what its line in the log tells."""
        told = {"tenant": self.tenant, "actor": self.actor, "from_state": self.from_state, "to_state": self.to_state}
        if self.call_id is not None:
            told["call_id"] = self.call_id
        if self.subject_id != self.call_id:
            told[f"{_word(self.machine)}_id"] = self.subject_id
        return {**told, **self.about, "trace_id": traceparent[3:35]}


@cache
def _word(machine: str) -> str:
    return machine.replace("-", "_")


_COLUMNS = tuple(name for name in Change.__slots__ if name not in {"about", "needs_somebody"})


@cache
def _frame(database: Database, effect: Query | None, *, arrived: bool, changes: bool, rows: bool) -> Query:
    """Return the statement that writes an effect with its inbox, history and outbox, as far as there are any."""
    parts = database.queries
    chosen = effect.source if effect else "effect AS (SELECT message_id AS key FROM fresh)" if arrived else ""
    where = "WHERE given.key IN (SELECT effect.key FROM effect)" if chosen else ""
    given = [
        parts.fresh.source if arrived else "",
        chosen,
        parts.noted.source.replace("{where}", where) if changes else "",
        parts.sent.source.replace("{where}", where) if rows else "",
    ]
    text = f"WITH {', '.join(filter(None, given))} SELECT {'* FROM effect' if chosen else '1'}"  # noqa: S608
    return query(effect.name if effect else "frame", text)


class Work:
    """One transaction in progress, or one statement to come."""

    def __init__(
        self,
        connection: Connection,
        database: Database,
        *,
        now: datetime,
        cause: Cause,
        arrived: tuple[str, Sequence[str]] | None = None,
    ) -> None:
        #: The work's connection; only `store` modules use it.
        self.connection = connection
        #: When the work began, by the database clock as this process knows it. Expiry needs `clock()` instead, after
        #: the row is locked.
        self.now = now
        #: What this work goes back to; a handler sets it for each arrival before it hands anything over.
        self.cause = cause
        #: Rows that this transaction has locked and waits for nobody with, each with what it was first locked for;
        #: only `store` modules use it.
        self.held: dict[str, str] = {}
        self._database = database
        self._arrived = arrived
        #: What was handed over, each with its key, and the id of the row that it is stored in.
        self._sent: list[tuple[Outgoing, str]] = []
        self._places: list[str] = []
        self._changes: list[dict[str, Any]] = []
        self._acts: list[Act] = []
        #: Changes with the trace that each belongs to, and its key.
        self._told: list[tuple[Change, str, str]] = []
        #: Whether what was handed over is written; a store that writes it in a statement of its own says so.
        self.written = False

    @property
    def has_inbox(self) -> bool:
        """Whether its one statement notes arrivals in the inbox."""
        return self._arrived is not None

    def emit(self, *messages: Message, key: str | None = None) -> None:
        """Hand over messages: stored with the state, published after the commit. `key` is for `execute_once`."""
        key = self.cause.id if key is None else key
        self._sent += [(outgoing(self._event(message)), key) for message in messages]

    def record(self, *changes: Change, key: str | None = None) -> None:
        """Hand over history rows. `key` is for `execute_once`."""
        key = self.cause.id if key is None else key
        added = {"message_id": self.cause.id or None, "key": key}
        self._changes += [{name: getattr(change, name) for name in _COLUMNS} | added for change in changes]
        self.tell(*changes, key=key)

    def tell(self, *changes: Change, key: str | None = None) -> None:
        """Hand over changes that have a row of their own, for the log and metrics only. `key` is as for `record`."""
        key = self.cause.id if key is None else key
        self._told += [(change, self.cause.traceparent, key) for change in changes]

    def act(self, *acts: Act) -> None:
        """Hand over what to do with the slow outside world once the commit is safe."""
        self._acts += acts

    async def run(self, named: Query, /, **given: Any) -> list[Any]:
        """Run a statement by name; return its records."""
        return await self.connection.run(named, **given)

    async def execute_once(self, effect: Query | None = None, /, **given: Any) -> list[Any]:
        """Write an effect with inbox, history and outbox in one statement; return the rows of `effect`.

        `effect` is a list of CTEs, the last called `effect` and with a column `key`; it may read `fresh (message_id)`,
        the arrivals that were not handled before. Without it, `effect` is `fresh`. Messages and changes are stored and
        sent only where their key is among the keys of `effect`; their key is the id of the arrival (`work.cause.id`)
        unless another one was given. So all of them are handed over before; on a `UnitOfWork.once` without effect,
        which has neither arrivals nor keys, all are stored.
        """
        if self.written:
            raise RuntimeError("what was handed over is written already")
        self.written = True
        values = self._framed()
        framed = _frame(
            self._database,
            effect,
            arrived=self._arrived is not None,
            changes=bool(self._changes),
            rows=bool(self._sent),
        )
        if self._arrived is not None:
            values |= {"_queue": self._arrived[0], "_arrived": self._arrived[1]}
        found = await self.connection.run(framed, **values, **given)
        if effect is not None or self._arrived is not None:
            keys = {row["key"] for row in found}
            kept = [number for number, (_, key) in enumerate(self._sent) if key in keys]
            self._sent = [self._sent[number] for number in kept]
            self._places = [self._places[number] for number in kept]
            self._told = [each for each in self._told if each[2] in keys]
        return found

    @property
    def restored_at(self) -> datetime | None:
        """When the database was last restored from a backup; None: never."""
        restored = self._database.restored
        return restored.at if restored else None

    async def clock(self) -> datetime:
        """Return the database clock now: what expiry is judged by, after the row is locked."""
        moment: datetime = (await self.connection.run(self._database.queries.clock))[0][0]
        return moment

    def _event(self, message: Message) -> Event:
        if not self.cause.traceparent:
            self.cause = replace(self.cause, traceparent=new_traceparent())
        return self.cause.event(message, source=self._database.service, time=self.now)

    def _framed(self) -> dict[str, Any]:
        values: dict[str, Any] = {"_changes": self._changes} if self._changes else {}
        if self._sent:
            self._places = placed(event for event, _ in self._sent)
            ways = [event.way for event, _ in self._sent]
            values |= {
                "_ids": self._places,
                "_exchanges": [way.destination.exchange for way in ways],
                "_routes": [way.destination.key for way in ways],
                "_batches": [way.batch for way in ways],
                "_mandatory": [way.mandatory for way in ways],
                "_events": [event.event for event, _ in self._sent],
                "_keys": [key for _, key in self._sent],
            }
        return values

    async def flush(self) -> None:
        """Write history and outbox rows of a transaction; the last statement before the commit."""
        if not self.written and (self._changes or self._sent):
            frame = _frame(self._database, None, arrived=False, changes=bool(self._changes), rows=bool(self._sent))
            await self.connection.run(frame, **self._framed())
        self.written = True

    async def publish_unstored(self, outbox: Outbox) -> None:
        """Publish what was handed over without storing it; what is not confirmed soon is left to be stored."""
        self._places = placed(event for event, _ in self._sent)
        if self._sent and not self._changes and await outbox.publish_unstored(self.rows):
            self._sent, self._places, self.written = [], [], True

    def send_again(self, destination: Destination, event: str) -> None:
        """Hand over an event's JSON as it once was, ids included, for `destination`; only dead letters need this."""
        self._sent.append((Outgoing(Way(destination, 1, mandatory=True), event), self.cause.id))

    @property
    def rows(self) -> list[OutboxRow]:
        """What was written to be sent."""
        rows: dict[str, OutboxRow] = {}
        for place, (event, _) in zip(self._places, self._sent, strict=True):
            row = rows.get(place)
            if row is None:
                rows[place] = OutboxRow(place, event.way, [event.event])
            else:
                row.events.append(event.event)
        return list(rows.values())

    @property
    def changes(self) -> list[dict[str, Any]]:
        """The rows of the history, by column, with their key."""
        return self._changes

    @property
    def acts(self) -> Sequence[Act]:
        """What was handed over to be done after the commit."""
        return self._acts

    @property
    def told(self) -> Sequence[tuple[Change, str, str]]:
        """Changes that were committed, each with its trace and its key."""
        return self._told


class UnitOfWork:
    """Begins pieces of work for one service."""

    def __init__(self, database: Database, outbox: Outbox) -> None:
        self.database = database
        self.outbox = outbox
        #: Each hears of every change that was committed here; for metrics.
        self.counts: list[Callable[[Change], None]] = []

    @asynccontextmanager
    async def begin(self, cause: Cause | None = None) -> AsyncIterator[Work]:
        """Yield a transaction; at the end commit, pass its messages on and run its acts. Any error rolls all back."""
        async with self.database.transaction() as connection:
            now = await self.database.clock(connection)
            work = Work(connection, self.database, now=now, cause=cause or cause_of_request())
            yield work
            await work.flush()
            points.reached("work.written")
        points.reached("work.committed")
        await self.finish(work)

    @asynccontextmanager
    async def once(
        self,
        cause: Cause | None = None,
        arrived: tuple[str, Sequence[str]] | None = None,
        *,
        unstored: bool = False,
    ) -> AsyncIterator[Work]:
        """Yield a Work without transaction, for one `execute_once`; then pass its messages on and run its acts.

        What was handed over and not written is written at the end. `unstored`: what changes nothing here is stored by
        whoever carries it, and here only where that does not confirm it. Then this waits for the confirm.
        """
        async with self.database.single() as connection:
            now = await self.database.clock(connection)
            work = Work(connection, self.database, now=now, cause=cause or cause_of_request(), arrived=arrived)
            yield work
            if unstored and arrived is None and not work.written:
                await work.publish_unstored(self.outbox)
            if not work.written and (arrived is not None or work._sent or work._changes):  # noqa: SLF001
                await work.execute_once()
        points.reached("work.committed")
        await self.finish(work)

    async def finish(self, work: Work) -> None:
        """Pass on what a committed Work handed over."""
        self.outbox.send(work.rows)
        telling: list[Act] = [partial(self._tell, work.told)] if work.told else []
        for act in (*work.acts, *telling):
            try:
                await act()
            except Exception:
                # The commit stands; what was claimed for the act comes again when its lease runs out.
                log.exception("act.bug")

    async def _tell(self, changes: Sequence[tuple[Change, str, str]]) -> None:
        """Count committed changes, and write one line for each where the log has room for them."""
        bound = log.bind()
        shown = bound.is_enabled_for(logging.INFO)
        for change, traceparent, _ in changes:
            if shown or change.needs_somebody:
                tell = bound.warning if change.needs_somebody else bound.info
                tell(f"{_word(change.machine)}.{change.event}", **change.line(traceparent))
            for count in self.counts:
                count(change)
