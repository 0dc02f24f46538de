"""The outbox: what a transaction wants to send, stored with its state, sent with confirms, forgotten when confirmed.

A row has all that one commit sends one way: few rows, and texts that are alike compress well together. Its events go
out right after the commit. While a confirm to a destination is outstanding, further events for it gather and leave
together in one envelope, so an idle system waits for nothing and a busy one pays few broker hops. The relay sends what
a crash, a lost confirm or a broker outage left behind; a second copy has the same id and meets an inbox.

What is sent beside no change has a row only where it is not confirmed soon (`publish_unstored`).
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog
from pydantic_core import to_json

from placet.contracts.ids import new_id
from placet.contracts.messages import ENVELOPE_EVENTS_MAX, Event, event_from
from placet.contracts.topology import DEAD_LETTERS, MESSAGES, QUEUES, ROUTES, Destination, destination_of, reader_of
from placet.runtime import points
from placet.runtime.bus import (
    Bus,
    BusStopped,
    PublishBlocked,
    PublishFailed,
    PublishPutOff,
    PublishRefused,
    PublishReturned,
)
from placet.runtime.letters import bury_cut
from placet.runtime.outages import Outages

if TYPE_CHECKING:
    from placet.runtime.database import Database

log = structlog.get_logger(__name__)

#: Events waiting in memory to be confirmed; beyond it rows are left to the relay.
BACKLOG_MAX = 20_000
#: Envelopes of a one-event route that may await their confirm at the same time.
SINGLES_OUTSTANDING_MAX = 32
#: Pause after an envelope of transient events, in seconds: two hundred chats that are written to at once cost a hundred
#: envelopes a second, and nobody sees the difference.
TRANSIENT_PAUSE_SECONDS = 0.01
#: Bytes that the events of one envelope have at most, unless it is one event: far below what brokers allow, and what
#: a reader parses at once.
ENVELOPE_BYTES_MAX = 512 * 1024
#: How long what is stored nowhere waits for its confirm, in seconds.
CONFIRM_SECONDS = 1.0
#: Rows that one sweep of the relay takes.
SWEEP_ROWS = 200
#: What is told when nothing more gets out, and when it does again.
_OUTAGE = ("outbox.publish_failed", "outbox.publishes_again")


class Way(NamedTuple):
    """Where events go, and how: those with the same way may share a row and an envelope."""

    destination: Destination
    #: Events per envelope at most, unless the outbox was told another number for the destination.
    batch: int
    mandatory: bool
    transient: bool = False


class Outgoing(NamedTuple):
    """One event to send, as JSON."""

    way: Way
    event: str


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """What one commit sends one way."""

    id: str
    way: Way
    events: list[str]


@dataclass(slots=True)
class _Sending:
    """A row on its way."""

    id: str
    #: Events that no confirm has come for.
    left: int
    #: Whether some of them could not be sent, so that the relay has it.
    failed: bool = False
    #: Of a row that is stored nowhere: whether it was confirmed, once that is known.
    confirmed: asyncio.Future[bool] | None = None


@dataclass(slots=True)
class _Lane:
    """Events that go one way, and how many of their envelopes await their confirm."""

    way: Way
    #: Events per envelope at most, and envelopes that may await their confirm at the same time.
    batch: int
    outstanding_max: int
    events: deque[tuple[_Sending, bytes]] = field(default_factory=deque)
    outstanding: int = 0


def outgoing(event: Event) -> Outgoing:
    """Return `event` as it is sent, addressed by the topology."""
    route = ROUTES[type(event.message)]
    way = Way(destination_of(event.message), route.batch, route.mandatory, route.transient)
    return Outgoing(way, event.to_json())


def placed(events: Iterable[Outgoing]) -> list[str]:
    """Return for each event the id of the row that it is stored in; no row has more than an envelope can carry."""
    ids: list[str] = []
    rows: dict[Way, tuple[str, int, int]] = {}
    for way, event in events:
        row, number, size = rows.get(way, ("", ENVELOPE_EVENTS_MAX, 0))
        if number == ENVELOPE_EVENTS_MAX or size + len(event) > ENVELOPE_BYTES_MAX:
            row, number, size = new_id(), 0, 0
        rows[way] = row, number + 1, size + len(event)
        ids.append(row)
    return ids


class Outbox:
    """Sends one service's committed events.

    `batches` are events per envelope of destinations that have another number than their route.
    """

    def __init__(self, database: Database, bus: Bus, batches: Mapping[Destination, int] = MappingProxyType({})) -> None:
        self._database = database
        self._bus = bus
        self._batches = batches
        self._lanes: dict[Way, _Lane] = {}
        #: Rows that are on their way or confirmed and not yet deleted, and how many events of them are in memory.
        self._in_flight: set[str] = set()
        self._backlog = 0
        self._confirmed: list[str] = []
        self._forgetting = asyncio.Event()
        # Who waits until all is forgotten waits for what somebody else is deleting too.
        self._one_forgets = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        #: Of everything, and of what alone does not get through: an exchange, or one of its keys.
        self._outages = Outages(*_OUTAGE)
        self._blocked: dict[str | Destination, Outages] = {}

    def send(self, rows: Iterable[OutboxRow]) -> None:
        """Publish committed rows soon; returns at once."""
        for row in rows:
            if row.id not in self._in_flight and self._backlog < BACKLOG_MAX:
                self._send(row, _Sending(row.id, len(row.events)))

    async def publish_unstored(self, rows: Iterable[OutboxRow]) -> bool:
        """Publish rows that are stored nowhere; tell whether all of them were confirmed in CONFIRM_SECONDS.

        Where they were not they may still arrive, so who stores and sends them then leaves their events' ids.
        """
        if not self._bus.keeps or self._backlog >= BACKLOG_MAX:
            return False
        loop, confirmed = asyncio.get_running_loop(), []
        for row in rows:
            confirmed.append(loop.create_future())
            self._send(row, _Sending(row.id, len(row.events), confirmed=confirmed[-1]))
        done, late = await asyncio.wait(confirmed, timeout=CONFIRM_SECONDS)
        return not late and all(each.result() for each in done)

    def _send(self, row: OutboxRow, sending: _Sending) -> None:
        self._in_flight.add(row.id)
        self._backlog += len(row.events)
        lane = self._lanes.get(row.way)
        if lane is None:
            lane = self._lanes[row.way] = self._lane_of(row.way)
        lane.events += [(sending, event.encode()) for event in row.events]
        wanted = min(lane.outstanding_max, lane.outstanding + -(-len(row.events) // lane.batch))
        while lane.outstanding < wanted:
            lane.outstanding += 1
            self._spawn(lane)

    def _lane_of(self, way: Way) -> _Lane:
        batch = self._batches.get(way.destination, way.batch)
        if way.transient:
            return _Lane(way, batch, outstanding_max=1)
        several = self._bus.outstanding_max if batch > 1 else SINGLES_OUTSTANDING_MAX
        return _Lane(way, batch, outstanding_max=several)

    def announce(self, event: Event) -> None:
        """Send a transient event: never stored, at most once."""
        way, text = outgoing(event)
        self.send([OutboxRow(event.id, way, [text])])

    def _spawn(self, lane: _Lane) -> None:
        task = asyncio.create_task(self._drain(lane))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drain(self, lane: _Lane) -> None:
        # One pass of the event loop lets the events of the same commit, or of others that just finished, come along.
        await asyncio.sleep(0)
        try:
            while lane.events:
                events: list[tuple[_Sending, bytes]] = []
                size = 0
                while lane.events and len(events) < lane.batch:
                    body = lane.events[0][1]
                    if events and size + len(body) > ENVELOPE_BYTES_MAX:
                        break
                    size += len(body) + 1
                    events.append(lane.events.popleft())
                await self._publish(lane.way, events)
                if lane.way.transient:
                    await asyncio.sleep(TRANSIENT_PAUSE_SECONDS)
        finally:
            lane.outstanding -= 1

    async def _publish(self, way: Way, events: list[tuple[_Sending, bytes]]) -> None:
        """Publish events in one envelope, or each alone where the broker will never take it; bury the one at fault."""
        points.reached("outbox.publishing")
        try:
            await self._bus.publish(
                way.destination,
                b"[%b]" % b",".join([body for _, body in events]),
                message_id=events[0][0].id,
                mandatory=way.mandatory,
                persistent=not way.transient,
            )
        except PublishRefused as error:
            if len(events) > 1:
                for each in events:
                    await self._publish(way, [each])
                return
            await self._bury(way, *events[0], str(error))
        except (BusStopped, PublishPutOff):
            self._failed(events)
        except (PublishBlocked, PublishReturned) as error:
            place, blocked = way.destination, isinstance(error, PublishBlocked)
            about = {"exchange": place.exchange} | ({} if blocked else {"key": place.key})
            outages = self._blocked.setdefault(place.exchange if blocked else place, Outages(*_OUTAGE, about))
            outages.miss(error=str(error))
            self._failed(events)
        except Exception as error:  # noqa: BLE001 - whatever kept it, the relay sends what has a row
            self._outages.miss(exchange=way.destination.exchange, error=str(error))
            self._failed(events)
        else:
            self._outages.meet()
            if self._blocked:
                self._taken(way.destination)
            points.reached("outbox.confirmed")
            self._done(way, events)

    def _taken(self, place: Destination) -> None:
        """Tell what is over, now that something was taken there."""
        for alone in (place.exchange, place):
            if outages := self._blocked.pop(alone, None):
                outages.meet()

    def _done(self, way: Way, events: list[tuple[_Sending, bytes]]) -> None:
        self._backlog -= len(events)
        for sending, _ in events:
            sending.left -= 1
            if sending.left or sending.failed:
                continue
            if way.transient or sending.confirmed is not None:
                self._in_flight.discard(sending.id)
                _tell(sending, confirmed=True)
            else:
                self._confirmed.append(sending.id)
                self._forgetting.set()

    def _failed(self, events: list[tuple[_Sending, bytes]]) -> None:
        """Leave the rows of these events, whole ones, to the relay; tell who waits that they are not confirmed."""
        self._backlog -= len(events)
        for sending, _ in events:
            sending.failed = True
            self._in_flight.discard(sending.id)
            _tell(sending, confirmed=False)

    async def _bury(self, way: Way, sending: _Sending, body: bytes, reason: str) -> None:
        """Make what the broker never takes a dead letter that tells how it began; in its place goes what is in brief.

        That has the event's own id: whichever of them comes first is heard, also after the broker takes more.
        """
        event = json.loads(body)
        log.error("outbox.refused", message_id=event["id"], bytes=len(body), reason=reason)
        try:
            if not way.transient:
                told = "sent in brief, " if await self._send_in_brief(way, event) else ""
                own = next((spec.name for spec in QUEUES if spec.service == self._database.service), "executor.default")
                reader, why = reader_of(way.destination), f"too large: {told}{reason}"[:1000]
                await bury_cut(self._bus, own, event, body, reader=reader, reason=why, message_id=event["id"])
        except PublishFailed as error:
            self._outages.miss(exchange=DEAD_LETTERS, error=str(error))
            self._failed([(sending, body)])
            return
        self._done(way, [(sending, body)])

    async def _send_in_brief(self, way: Way, event: dict[str, Any]) -> bool:
        """Send what matters most of an event that was refused; tell whether there is such and the broker took it."""
        try:
            brief = event_from(event, MESSAGES).message.in_brief()
        except ValueError:
            # A dead letter's, sent back as it was.
            return False
        if brief is None:
            return False
        try:
            body = to_json([event | {"data": brief}])
            await self._bus.publish(way.destination, body, message_id=event["id"], mandatory=way.mandatory)
        except PublishRefused:
            return False
        return True

    async def forget_confirmed(self) -> int:
        """Wait for confirmed rows and delete them, as many at a time as have gathered; return 0: more may gather."""
        await self._forgetting.wait()
        self._forgetting.clear()
        await self._forget_once()
        return 0

    async def _forget_once(self) -> None:
        """Delete confirmed rows; where that fails the relay sends them again and their receivers know the ids."""
        async with self._one_forgets:
            ids, self._confirmed = self._confirmed, []
            if not ids:
                return
            try:
                async with self._database.single() as connection:
                    await connection.run(self._database.queries.forget_sent, ids=ids)
            finally:
                self._in_flight.difference_update(ids)

    async def sweep(self) -> int:
        """Send rows whose time with their writer is over; return how many. Any number of replicas may sweep."""
        if not await self._bus.connected():
            return 0
        async with self._database.single() as connection:
            found = await connection.run(self._database.queries.take_due, most=SWEEP_ROWS)
        if found:
            points.reached("relay.read")
        self.send(
            OutboxRow(
                row["id"],
                Way(Destination(row["exchange"], row["key"]), row["batch"], row["mandatory"]),
                row["events"],
            )
            for row in found
        )
        return len(found)

    async def drain(self) -> None:
        """Wait for what is on its way, then delete what was confirmed."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        try:
            await self._forget_once()
        except Exception as error:  # noqa: BLE001 - a stop goes on without the database; the relay has the rows
            log.warning("outbox.forget_failed", error=type(error).__name__)


def _tell(sending: _Sending, *, confirmed: bool) -> None:
    if sending.confirmed is not None and not sending.confirmed.done():
        sending.confirmed.set_result(confirmed)
