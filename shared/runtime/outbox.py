"""The outbox: what a transaction wants to send, stored with its state, sent with confirms, forgotten when confirmed.

Rows go out right after their commit. While a confirm to a destination is outstanding, further events for it gather
and leave together in one envelope, so an idle system waits for nothing and a busy one pays few broker hops. The relay
sends what a crash, a lost confirm or a broker outage left behind; a second copy has the same id and meets an inbox.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

import structlog
from pydantic_core import to_json

from placet.contracts.messages import Event
from placet.contracts.topology import DEAD_LETTERS, QUEUES, ROUTES, Destination, destination_of
from placet.runtime.bus import Bus, Delivery, PublishFailed, PublishRefused

if TYPE_CHECKING:
    from placet.runtime.database import Database

log = structlog.get_logger(__name__)

#: Events waiting in memory to be published; beyond it rows are left to the relay.
BACKLOG_MAX = 20_000
#: Envelopes of a one-event route that may await their confirm at the same time.
SINGLES_OUTSTANDING_MAX = 32
#: Pause after an envelope of transient events, in seconds: two hundred chats that are written to at once cost a hundred
#: envelopes a second, and nobody sees the difference.
TRANSIENT_PAUSE_SECONDS = 0.01
#: Bytes that the events of one envelope have at most, unless it is one event: far below what brokers allow, and what
#: a reader parses at once.
ENVELOPE_BYTES_MAX = 512 * 1024
#: Type of what a dead letter holds of an event that the broker refused. No message is called so.
REFUSED_TYPE = "placet.outbox.refused.v1"
REFUSED_BYTES_SHOWN = 64 * 1024
#: Rows that one sweep of the relay takes.
SWEEP_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """One event to send."""

    id: str
    destination: Destination
    batch: int
    mandatory: bool
    event: str
    transient: bool = False


@dataclass(slots=True)
class _Lane:
    """Events for one destination, and how many of its envelopes await their confirm."""

    #: Events per envelope at most, and envelopes that may await their confirm at the same time.
    batch: int
    outstanding_max: int
    rows: deque[OutboxRow] = field(default_factory=deque)
    outstanding: int = 0


def row_of(event: Event) -> OutboxRow:
    """Return the outbox row of `event`, addressed by the topology."""
    route = ROUTES[type(event.message)]
    return OutboxRow(
        event.id,
        destination_of(event.message),
        route.batch,
        route.mandatory,
        event.to_json(),
        route.transient,
    )


class Outbox:
    """Sends one service's committed events.

    `batches` are events per envelope of destinations that have another number than their route.
    """

    def __init__(self, database: Database, bus: Bus, batches: Mapping[Destination, int] = MappingProxyType({})) -> None:
        self._database = database
        self._bus = bus
        self._batches = batches
        self._lanes: dict[tuple[Destination, int, bool, bool], _Lane] = {}
        self._in_flight: set[str] = set()
        self._confirmed: list[str] = []
        self._forgetting = asyncio.Event()
        # Who waits until all is forgotten waits for what somebody else is deleting too.
        self._one_forgets = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, rows: Iterable[OutboxRow]) -> None:
        """Publish committed rows soon; returns at once."""
        for row in rows:
            if row.id in self._in_flight or len(self._in_flight) >= BACKLOG_MAX:
                continue
            self._in_flight.add(row.id)
            key = (row.destination, row.batch, row.mandatory, row.transient)
            lane = self._lanes.get(key)
            if lane is None:
                lane = self._lanes[key] = self._lane_of(row)
            lane.rows.append(row)
            if lane.outstanding < lane.outstanding_max:
                lane.outstanding += 1
                self._spawn(lane)

    def _lane_of(self, row: OutboxRow) -> _Lane:
        batch = self._batches.get(row.destination, row.batch)
        if row.transient:
            return _Lane(batch, outstanding_max=1)
        return _Lane(batch, outstanding_max=self._bus.outstanding_max if batch > 1 else SINGLES_OUTSTANDING_MAX)

    def announce(self, event: Event) -> None:
        """Send a transient event: never stored, at most once."""
        self.send([row_of(event)])

    def _spawn(self, lane: _Lane) -> None:
        task = asyncio.create_task(self._drain(lane))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drain(self, lane: _Lane) -> None:
        # One pass of the event loop lets the events of the same commit, or of others that just finished, come along.
        await asyncio.sleep(0)
        try:
            while lane.rows:
                rows: list[OutboxRow] = []
                bodies: list[bytes] = []
                size = 0
                while lane.rows and len(rows) < lane.batch:
                    body = lane.rows[0].event.encode()
                    if rows and size + len(body) > ENVELOPE_BYTES_MAX:
                        break
                    size += len(body) + 1
                    rows.append(lane.rows.popleft())
                    bodies.append(body)
                await self._publish(rows, bodies)
                if rows[0].transient:
                    await asyncio.sleep(TRANSIENT_PAUSE_SECONDS)
        finally:
            lane.outstanding -= 1

    async def _publish(self, rows: list[OutboxRow], bodies: list[bytes]) -> None:
        """Publish rows in one envelope, or each alone where the broker will never take it; bury the one at fault."""
        first = rows[0]
        try:
            await self._bus.publish(
                first.destination,
                b"[%b]" % b",".join(bodies),
                message_id=first.id,
                mandatory=first.mandatory,
                persistent=not first.transient,
            )
        except PublishRefused as error:
            if len(rows) > 1:
                for row, body in zip(rows, bodies, strict=True):
                    await self._publish([row], [body])
                return
            await self._bury(first, bodies[0], str(error))
        except Exception as error:  # noqa: BLE001 - whatever kept it, the rows are stored and the relay sends them
            log.warning(
                "outbox.publish_failed",
                exchange=first.destination.exchange,
                events=len(rows),
                error=str(error),
            )
            self._in_flight.difference_update(row.id for row in rows)
        else:
            self._done(rows)

    def _done(self, rows: list[OutboxRow]) -> None:
        if rows[0].transient:
            self._in_flight.difference_update(row.id for row in rows)
            return
        self._confirmed += [row.id for row in rows]
        self._forgetting.set()

    async def _bury(self, row: OutboxRow, body: bytes, reason: str) -> None:
        """Make what the broker never takes a dead letter that tells how it began; it is no event any more."""
        log.error("outbox.refused", message_id=row.id, bytes=len(body), reason=reason)
        if not row.transient:
            shown = {
                "tenant": json.loads(body)["data"].get("tenant"),
                "body": body[:REFUSED_BYTES_SHOWN].decode("utf-8", "ignore"),
            }
            letter = to_json([{"type": REFUSED_TYPE, "id": row.id, "data": shown}])
            own = next((spec.name for spec in QUEUES if spec.service == self._database.service), "executor.default")
            try:
                await self._bus.dead_letter(
                    Delivery(own, letter), letter, reason=f"too large: {reason}"[:1000], message_id=row.id
                )
            except PublishFailed as error:
                log.warning("outbox.publish_failed", exchange=DEAD_LETTERS, events=1, error=str(error))
                self._in_flight.discard(row.id)
                return
        self._done([row])

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
        self.send(
            OutboxRow(row["id"], Destination(row["exchange"], row["key"]), row["batch"], row["mandatory"], row["event"])
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
