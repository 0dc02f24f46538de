"""Permits of a tenant that has its share of an executor wait here, in the database, and the queue goes on for others.

The queue of a pool is first come, first served: a thousand permits of one tenant would stand before the next one's. So
where several tenants work, a permit that finds no slot, of a tenant that has one, is parked: a row, and the delivery is
acknowledged. So is, whoever works, what comes after calls of its answer that have not ended (see ADR 0079). Executors
of the pool take such rows when slots come free, of the tenant that has fewest of theirs first, and handle them as if
they had come from the queue; of the calls of an answer the first, once none of them runs. A row goes once its event is
handled; until then it is only lent, so that a crash has it handled again, and the call's own row knows that (see ADR
0065).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import structlog

from placet.contracts.topology import executor_queue
from placet.executor import parked_store as store
from placet.executor.metrics import PARKED_TOTAL
from placet.executor.parked_store import Parked
from placet.executor.slot_gate import SlotGate, parked_from, waits_to_be_staged
from placet.runtime.bus import ComesAgain, Delivery, OnDelivery
from placet.runtime.database import Database, is_outage
from placet.runtime.slots import Slots

log = structlog.get_logger(__name__)

#: How long a row is lent to an executor that may have died, and how long it stays where it could not be handled yet.
#: To handle one is to claim a call, not to run it; one that is lent twice is known by the call's own row.
LENT, AGAIN = timedelta(seconds=15), timedelta(seconds=1)
#: How long one look waits for a slot before it looks again, in seconds.
SLOT_SECONDS = 0.5
#: How long a look that found nothing parked waits for the next permit that this process parks, in seconds.
IDLE_SECONDS = 1.0


class Parking:
    """What is parked of the pools of one executor."""

    def __init__(self, database: Database, gate: SlotGate, slots: Slots) -> None:
        self._database = database
        self._gate = gate
        self._slots = slots
        self._came = asyncio.Event()
        #: What waits until calls that it comes after are staged, and whose it is: no round waits for it.
        self._turns: dict[asyncio.Task[None], str] = {}

    async def look_for_tenants(self) -> None:
        """See whether several tenants work here, so that slots are shared among them."""
        async with self._database.single() as connection:
            self._gate.tenants |= await store.some_tenants(connection)

    async def park(self, several: Sequence[Parked]) -> None:
        """Keep permits until it is their turn; the same one twice is one."""
        async with self._database.single() as connection:
            await store.park(connection, several)
        self._came.set()
        for each in several:
            PARKED_TOTAL.labels(each.pool).inc()

    async def keep(self, delivery: Delivery, envelope: bytes) -> None:
        """Keep a permit that came with a delivery until the calls have ended that it comes after."""
        parked = parked_from(replace(delivery, body=envelope))
        if parked is None:
            raise ValueError("only permits come after calls")
        await self.park([parked])

    def _busy(self) -> Counter[str]:
        return Counter(self._slots.by_tenant) + Counter(self._turns.values())

    async def unpark(self, consumers: Mapping[str, OnDelivery]) -> int:
        """Handle what slots are free for, in a fair order, by the consumers of the pools; return how much was tried."""
        if self._slots.draining:
            return 0
        if not (room := self._gate.room()):
            await self._slots.wait_freed(SLOT_SECONDS)
            return int(bool(self._gate.parked))
        self._came.clear()
        busy = self._busy()
        async with self._database.single() as connection:
            taken, waiting = await store.take_parked(
                connection, list(consumers), most=self._gate.most, limit=room, busy=busy, lent=LENT
            )
        self._gate.parked = {tenant for tenant, may_begin in waiting.items() if may_begin}
        handled = []
        for each in taken:
            delivery = Delivery(executor_queue(each.pool).name, each.body.encode(), kept=True)
            task = asyncio.create_task(self._handle(each, delivery, consumers[each.pool]))
            if waits_to_be_staged(delivery):
                self._turns[task] = each.tenant
                task.add_done_callback(self._turns.pop)
            else:
                handled.append(task)
        if handled:
            # A claim that is made goes on to its act, also where this duty is told to end.
            await asyncio.shield(asyncio.gather(*handled))
        elif not waiting:
            # What it comes after may end any moment.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._came.wait(), IDLE_SECONDS)
        elif not taken and busy == self._busy():
            freed = asyncio.create_task(self._slots.wait_freed(SLOT_SECONDS))
            came = asyncio.create_task(self._came.wait())
            try:
                await asyncio.wait({freed, came, *self._turns}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                freed.cancel()
                came.cancel()
        return len(waiting)

    async def _handle(self, parked: Parked, delivery: Delivery, consumer: OnDelivery) -> None:
        try:
            try:
                await consumer(delivery)
            except ComesAgain as error:
                log.debug("parked.stays", message_id=parked.event_id, reason=str(error))
                async with self._database.single() as connection:
                    await store.keep_parked(connection, parked.event_id, AGAIN)
            else:
                async with self._database.single() as connection:
                    await store.forget_parked(connection, parked.event_id)
        except Exception as error:
            # It is lent for a while, and comes again.
            if is_outage(error):
                log.warning("parked.waiting", message_id=parked.event_id, error=type(error).__name__)
            else:
                log.exception("parked.bug", message_id=parked.event_id)
