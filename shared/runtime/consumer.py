"""The consumer shell: one envelope is one transaction and one acknowledgement.

Envelopes that wait while another is handled join the next transaction, up to 64 events in all; each is acknowledged by
itself. If a transaction fails, its events are handled one by one, so that one bad event neither stops nor spoils its
neighbours. What happens to the bad one follows from the error's type alone (see `errors`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any, Generic, TypeAlias, TypeVar

import structlog
from prometheus_client import Counter
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from placet.contracts.errors import NotYet, Poison, Refused, SecurityAlert, SentBeforeRestore, Transient
from placet.contracts.frontends import frontends_tenant, why_not
from placet.contracts.ids import derived_id
from placet.contracts.messages import ENVELOPE_EVENTS_MAX, Event, Message, event_from
from placet.contracts.topology import MESSAGES, RETRIES_MAX
from placet.contracts.transitions import ExpectedRace
from placet.runtime import points
from placet.runtime.batcher import Batcher
from placet.runtime.bus import Bus, ComesAgain, Delivery, PublishFailed, PublishRefused
from placet.runtime.database import Restored, is_outage
from placet.runtime.driver import Outage
from placet.runtime.letters import bury_cut, id_of, not_replayable, read_apart
from placet.runtime.outages import Outages
from placet.runtime.tracing import TRACING
from placet.runtime.work import Cause, UnitOfWork, Work, cause_of

log = structlog.get_logger(__name__)

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Arrival(Generic[M]):
    """One message, what its work goes back to, and when it was sent."""

    message: M
    cause: Cause
    time: datetime


#: Takes the messages of one type that arrived one after the other, in their order, whether one or fifty. It sets
#: `work.cause` before it hands anything over; where it raises, the events come again one by one, and only the bad one
#: has the error.
Handler: TypeAlias = Callable[[Sequence[Arrival[Any]], Work], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Once:
    """A handler whose whole effect is one statement: no BEGIN, no COMMIT, no inbox of its own.

    It hands over messages and changes first and then calls `work.execute_once`, which returns what was new; where it
    does not call it, what it handed over is written for it. It also sees events that were handled before, so up to
    that statement it may only read.
    """

    handle: Handler
    #: Whether a key of the service's own tables lets an event have its effect once. It gets no row of the inbox then,
    #: and its statement has no `fresh`.
    keyed: bool = False


def one_by_one(handle: Callable[[Any, Work], Awaitable[None]]) -> Handler:
    """Return the handler that gives messages to `handle` one by one."""

    async def handle_each(arrivals: Sequence[Arrival[Any]], work: Work) -> None:
        for arrival in arrivals:
            work.cause = arrival.cause
            await handle(arrival.message, work)

    return handle_each


#: Stores a delivery's envelope until what its event comes after has ended.
Keep: TypeAlias = Callable[[Delivery, bytes], Awaitable[None]]
#: How the reason of a dead letter begins that raised an alert.
_SECURITY = "security: "
#: Longest pause between two tries while the database is away, in seconds.
OUTAGE_PAUSE_MAX_SECONDS = 5.0
#: Tries of one event against an answering database that fails all the same, before it counts as Transient.
OUTAGE_TRIES_MAX = 20

EVENTS = Counter("placet_events_total", "Events handled, by queue and outcome.", ["queue", "outcome"])
SECURITY_ALERTS = Counter(
    "placet_security_alerts_total", "Forged or foreign signatures; what a frontend may not send.", ["queue"]
)


class Consumer:
    """Handles the deliveries of one queue."""

    def __init__(
        self,
        queue: str,
        handlers: Mapping[type[Message], Handler | Once],
        *,
        units: UnitOfWork,
        bus: Bus,
        wait_for_slot: Callable[[], Awaitable[None]] | None = None,
        keep: Keep | None = None,
    ) -> None:
        self._queue = queue
        self._handlers = handlers
        self._units = units
        self._bus = bus
        self._wait_for_slot = wait_for_slot
        self._keep = keep
        self._batcher = Batcher[tuple[Delivery, list[Event]], None](self._handle, size_max=ENVELOPE_EVENTS_MAX)

    async def __call__(self, delivery: Delivery) -> None:
        """Handle one envelope; returning acknowledges it."""
        events, unreadable = read_delivery(delivery)
        points.reached("consumer.received")
        for body, event_id, reason in unreadable:
            if reason.startswith(_SECURITY):
                self._alert(event_id, delivery.key, reason)
            await self._bury(delivery, body, event_id, reason)
        for event in events:
            if type(event.message) not in self._handlers:
                await self._bury(delivery, _letter(event), event.id, f"no handler for {event.message.type_name}")
        events = [event for event in events if type(event.message) in self._handlers]
        if events:
            await self._take(delivery, events)
        points.reached("consumer.handled")

    def _take(self, delivery: Delivery, events: list[Event]) -> Awaitable[None]:
        return self._batcher.submit((delivery, events), size=len(events))

    async def _handle(self, arrived: list[tuple[Delivery, list[Event]]]) -> None:
        """Handle what has arrived in one transaction; where that fails, each event in its own."""
        if self._wait_for_slot is not None:
            await self._wait_for_slot()
        events = [event for _, each in arrived for event in each]
        if len(events) == 1:
            await self._alone(arrived[0][0], events[0])
            return
        try:
            for _, run in groupby(events, key=self._form):
                await self._commit(list(run))
        except Exception as error:  # noqa: BLE001 - each event is judged alone, by its own error
            tell = log.debug if isinstance(error, NotYet) or is_outage(error) else log.warning
            tell("envelope.falls_back", queue=self._queue, events=len(events), error=type(error).__name__)
            for delivery, several in arrived:
                for event in several:
                    await self._alone(delivery, event)

    def _form(self, event: Event) -> Once | None:
        """Return None for events that share a transaction, else the handler of those that share a statement."""
        handler = self._handlers[type(event.message)]
        return handler if isinstance(handler, Once) else None

    async def _commit(self, events: Sequence[Event]) -> None:
        """Handle events of one form, those handled before left out, and pass on what they led to."""
        handler = self._handlers[type(events[0].message)]
        await self._refuse_void(events)
        if isinstance(handler, Once):
            found = list(_first_of_each(events, {event.id for event in events}))
            with ExitStack() as spans:
                arrivals = [Arrival(event.message, self._cause(event, spans), event.time) for event in found]
                arrived = None if handler.keyed else (self._queue, [event.id for event in found])
                async with self._units.once(arrived=arrived) as work:
                    await handler.handle(arrivals, work)
            EVENTS.labels(self._queue, "handled").inc(len(events))
            return
        database = self._units.database
        async with database.transaction() as connection:
            ids = {event.id for event in events}
            taken = await connection.run(database.queries.take_new, queue=self._queue, ids=list(ids))
            fresh = {row["message_id"] for row in taken}
            EVENTS.labels(self._queue, "duplicate").inc(len(events) - len(fresh))
            if not fresh:
                return
            now = taken[0]["now"]
            database.tell(now)
            work = Work(connection, database, now=now, cause=Cause())
            for handle, run in groupby(_first_of_each(events, fresh), lambda each: self._handlers[type(each.message)]):
                assert not isinstance(handle, Once)  # noqa: S101 - these have a form of their own
                with ExitStack() as spans:
                    await handle([Arrival(event.message, self._cause(event, spans), event.time) for event in run], work)
            await work.flush()
            points.reached("work.written")
        points.reached("work.committed")
        EVENTS.labels(self._queue, "handled").inc(len(fresh))
        await self._units.finish(work)

    async def _refuse_void(self, events: Sequence[Event]) -> None:
        """Raise SentBeforeRestore where one of these events is void, unless it was handled before the backup."""
        database = self._units.database
        if database.restored is None or not (void := [each.id for each in events if is_void(each, database.restored)]):
            return
        async with database.single() as connection:
            known = await connection.run(database.queries.known, queue=self._queue, ids=void)
        if len(known) < len(set(void)):
            raise SentBeforeRestore(database.restored.at)

    def _cause(self, event: Event, spans: ExitStack) -> Cause:
        """Return an event as a cause; where traces are exported, what it leads to goes on from a span of its own."""
        if not TRACING.on:
            return cause_of(event)
        name, ids = f"{self._queue} {event.message.type_name}", _ids(event.message)
        traceparent = spans.enter_context(TRACING.span(name, event.traceparent, "consumer", **ids))
        return Cause(event.id, event.correlation_id, traceparent)

    async def _alone(self, delivery: Delivery, event: Event) -> None:
        """Handle one event and do with it what its error says."""
        try:
            await self._through_outages(event)
        except (Refused, ExpectedRace) as refusal:
            EVENTS.labels(self._queue, "refused").inc()
            log.debug("event.refused", queue=self._queue, message_id=event.id, reason=str(refusal))
        except Transient as error:
            await self._later(delivery, event, error)
        except SecurityAlert as alert:
            self._alert(event.id, event.source, str(alert))
            await self._bury(delivery, _letter(event), event.id, f"{_SECURITY}{alert}")
        except Poison as error:
            await self._bury(delivery, _letter(event), event.id, f"poison: {error}")
        except Exception as error:
            log.exception("event.bug", queue=self._queue, message_id=event.id)
            await self._bury(delivery, _letter(event), event.id, f"bug: {type(error).__name__}")

    async def _through_outages(self, event: Event) -> None:
        """Handle one event, waiting for the database as long as it is away: an outage is not the event's fault."""
        database = self._units.database
        attempt = 0
        while attempt < OUTAGE_TRIES_MAX:
            try:
                await self._commit([event])
            except Outage as error:
                database.tell_lost(queue=self._queue, error=type(error).__name__)
                # A full disk is no event's fault, however long it lasts.
                attempt += not error.is_full_disk
            else:
                return
            await asyncio.sleep(min(0.05 * 2**attempt, OUTAGE_PAUSE_MAX_SECONDS))
            await database.wait_ready()
        raise Transient("the database answers but this event's transaction keeps failing")

    async def _later(self, delivery: Delivery, event: Event, error: Transient) -> None:
        if delivery.kept:
            raise ComesAgain(str(error))
        reason, waits = str(error), isinstance(error, NotYet)
        if waits and self._keep is not None:
            await self._keep(delivery, _envelope(event))
            return
        attempt = max(1, delivery.attempt) if waits else delivery.attempt + 1
        if attempt > RETRIES_MAX:
            await self._bury(delivery, _letter(event), event.id, f"{RETRIES_MAX} retries: {reason}")
            return
        EVENTS.labels(self._queue, "retried").inc()
        (log.debug if waits else log.warning)(
            "event.retried", queue=self._queue, message_id=event.id, attempt=attempt, reason=reason
        )
        try:
            await _until_published(lambda: self._bus.retry(delivery, _envelope(event), attempt=attempt))
        except PublishRefused as refused:
            await self._bury(delivery, _letter(event), event.id, f"no retry, {refused}: {reason}")

    def _alert(self, event_id: str, source: str, reason: str) -> None:
        SECURITY_ALERTS.labels(self._queue).inc()
        log.warning("security.alert", queue=self._queue, message_id=event_id, source=source, reason=reason)

    async def _bury(self, delivery: Delivery, body: bytes, event_id: str, reason: str) -> None:
        EVENTS.labels(self._queue, "dead").inc()
        log.error("event.dead", queue=self._queue, message_id=event_id, reason=reason)
        try:
            await _until_published(
                lambda: self._bus.dead_letter(delivery, body, reason=reason[:1000], message_id=event_id)
            )
        except PublishRefused:
            bury = partial(bury_cut, self._bus, self._queue, _only_event(body), body, reader=self._queue)
            await _until_published(lambda: bury(reason=f"too large: {reason}"[:1000], message_id=event_id))


def is_void(event: Event, restored: Restored) -> bool:
    """Tell whether an event says nothing any more since a restore: nobody remembers what it led to.

    What only tells, and was sent before the backup, is part of what was restored.
    """
    told = event.message.tells and event.time <= restored.backup_at
    return event.time <= restored.at and not told


def read_delivery(delivery: Delivery) -> tuple[list[Event], list[tuple[bytes, str, str]]]:
    """Return the events of a delivery that its sender may send, and what is none: bytes, id if any, why.

    What a frontend may not send becomes no letter that could be replayed: a replay has no routing key to hold it to.
    A frontend's event gets an id that is its tenant's own: another's event of the same id is no duplicate of it.
    """
    events, unreadable = read_envelope(delivery.body)
    tenant = frontends_tenant(delivery.key)
    if tenant is None:
        return events, unreadable
    unreadable = [(not_replayable(body, tenant), event_id, reason) for body, event_id, reason in unreadable]
    allowed = []
    for event in events:
        if reason := why_not(event.message, tenant):
            unreadable.append((not_replayable(_envelope(event), tenant), event.id, f"{_SECURITY}{reason}"))
        else:
            allowed.append(replace(event, id=derived_id("frontend-event", tenant, event.id)))
    return allowed, unreadable


def read_envelope(body: bytes) -> tuple[list[Event], list[tuple[bytes, str, str]]]:
    """Return the events of an envelope, and what is no event: bytes, id if any, why."""
    try:
        items = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        return read_apart(body, f"not JSON: {error}", read_envelope)
    items = items if isinstance(items, list) else [items]
    if not 1 <= len(items) <= ENVELOPE_EVENTS_MAX:
        return [], [(body, "", f"an envelope carries 1 to {ENVELOPE_EVENTS_MAX} events, not {len(items)}")]
    events: list[Event] = []
    unreadable: list[tuple[bytes, str, str]] = []
    for item in items:
        try:
            events.append(event_from(item, MESSAGES))
        except (ValidationError, ValueError, TypeError, AttributeError) as error:
            unreadable.append((to_json([item]), id_of(item), f"not an event we know: {_one_line(error)}"))
    return events, unreadable


def _ids(message: Message) -> dict[str, str]:
    call = getattr(message, "call", None)
    names = ("tenant", "conversation_id", "call_id", "approval_id")
    return {name: getattr(message, name, None) or getattr(call, name, None) or "" for name in names}


def _first_of_each(events: Sequence[Event], ids: set[str]) -> Iterator[Event]:
    """Yield the events with these ids in their order, an id that comes twice only once."""
    left = set(ids)
    for event in events:
        if event.id in left:
            left.discard(event.id)
            yield event


def _envelope(event: Event) -> bytes:
    return f"[{event.to_json()}]".encode()


def _letter(event: Event) -> bytes:
    """Return what is buried of an event: a dead letter is read by more people than whom its secrets are for."""
    return _envelope(event.without_secrets())


def _only_event(body: bytes) -> dict[str, Any]:
    """Return what a letter's body holds, where that is one event; else an empty one."""
    with suppress(ValueError):
        match from_json(body):
            case [dict(event)]:
                return event
    return {}


def _one_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    return str(error).splitlines()[0] if str(error) else type(error).__name__


async def _until_published(publish: Callable[[], Awaitable[None]]) -> None:
    """Publish, again and again while the broker is away: an event is never acknowledged before it is safe elsewhere.

    What the broker will never take is raised: it would be tried for ever, and hold up what comes behind it.
    """
    pause, outages = 0.1, Outages("broker.away", "broker.back")
    while True:
        try:
            await publish()
        except PublishRefused:
            raise
        except PublishFailed as error:
            outages.miss(error=str(error))
            await asyncio.sleep(pause)
            pause = min(pause * 2, OUTAGE_PAUSE_MAX_SECONDS)
        else:
            return outages.meet()
