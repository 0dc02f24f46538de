"""SQL of limits: room is taken and given back in rows, and summed under the lock of their counter.

Two statements, because PostgreSQL fixes what a statement sees before it waits for a lock: the first one locks, the
second one sees everything that was committed by whoever held the lock before.

Counters are never locked in a circle: one call locks its counters in the order of the rules and of their ids, and an
envelope's later calls wait neither for one, nor for the verdict of another transaction, while its earlier ones hold
others. They fail instead, and the envelope's events are handled one by one. A new counter or verdict that somebody else
is making is no row that could be asked for a lock, so it is waited for no longer than the shortest time that PostgreSQL
knows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from decimal import Decimal

from placet.policy.rules.limits import Demand
from placet.runtime.queries import load_queries
from placet.runtime.work import Work

QUERIES = load_queries(__file__, "limits.sql")
_NAMES = ("counter_id", "tenant", "rule", "measure", "per", "subject")
#: The shortest wait for a lock, in milliseconds; 0 would be for ever.
_HARDLY_MS = "1"


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters that one transaction has locked; they stay so until it ends, whatever else is handled in it."""

    #: Its `held` has each counter, with the call that it was first locked for.
    work: Work

    async def take(self, call_id: str, demands: Sequence[Demand]) -> bool:
        """Reserve what a call asks of every limit of a rule; False, and nothing is reserved, where one has no room.

        The counters are locked first, so that nobody else finds the same room. Raises what the database raises for a
        lock that is not free where calls of the same envelope hold counters already.
        """
        await self._lock(call_id, demands)
        taken = await self.work.run(
            QUERIES.take,
            counter_ids=[demand.counter_id for demand in demands],
            amounts=[demand.amount for demand in demands],
            most=[demand.at_most for demand in demands],
            windows=[demand.within_seconds for demand in demands],
            call_id=call_id,
            tenant=demands[0].tenant,
        )
        return bool(taken)

    @asynccontextmanager
    async def hardly_waiting(self) -> AsyncIterator[None]:
        """Have statements of the block wait for no lock while a counter is held: who has it may wait for that one.

        They raise what the database raises for a lock that is not free.
        """
        if not self.work.held:
            yield
            return
        async with _hardly_waiting(self.work):
            yield

    async def _lock(self, call_id: str, demands: Sequence[Demand]) -> None:
        counters = {each.counter_id: each for each in demands if each.counter_id not in self.work.held}
        if not counters:
            return
        new = 0
        if any(holder != call_id for holder in self.work.held.values()):
            new = len(counters) - len(await self.work.run(QUERIES.lock_free, counter_ids=list(counters)))
        columns = {name: [getattr(each, name) for each in counters.values()] for name in _NAMES}
        async with _hardly_waiting(self.work) if new else nullcontext():
            await self.work.run(QUERIES.lock, **columns)
        self.work.held |= dict.fromkeys(counters, call_id)


@asynccontextmanager
async def _hardly_waiting(work: Work) -> AsyncIterator[None]:
    # After an error there is nothing to set back: the transaction is over.
    before = (await work.run(QUERIES.wait_now))[0][0]
    await work.run(QUERIES.wait_at_most, wait=_HARDLY_MS)
    yield
    await work.run(QUERIES.wait_at_most, wait=before)


async def reserved(work: Work, tenant: str, call_id: str) -> dict[str, Decimal]:
    """Return what a call has of each counter, by its id; nothing of what it gave back."""
    rows = await work.run(QUERIES.reserved, call_id=call_id, tenant=tenant)
    return {row["counter_id"]: row["amount"] for row in rows}


async def give_back(work: Work, tenant: str, call_id: str, kind: str) -> None:
    """Free what a call that did not run had reserved."""
    await work.run(QUERIES.give_back, call_id=call_id, tenant=tenant, kind=kind)
