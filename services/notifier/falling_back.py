"""Sees to approvals that nobody could be told of: the next place of their rule is told, or operators are alarmed.

Nobody is ever taken to have said yes or no because telling failed: the approval waits, and runs out of time, as any
other does.
"""

from __future__ import annotations

from dataclasses import replace

import structlog
from prometheus_client import Counter

from services.notifier import rules, store
from services.notifier.changes import change_of
from services.notifier.rules import Delivery, Moved
from services.notifier.states import Event
from shared.work import UnitOfWork, Work

log = structlog.get_logger(__name__)

#: Approvals that one round sees to.
BATCH = 100

UNTOLD = Counter("placet_approvals_untold_total", "Approvals that wait and that nobody could be told of.")


async def see_to_untold(units: UnitOfWork) -> int:
    """Tell the next place, or alarm; return how many approvals were looked at if more may wait, else 0."""
    alarmed: list[Delivery] = []
    async with units.begin() as work:
        asked = await store.untold(work, BATCH)
        for deliveries in (await store.lock_approvals(work, asked)).values():
            if rules.nobody_told(deliveries):
                alarmed += await _see_to(work, deliveries)
    for each in alarmed:
        UNTOLD.inc()
        log.error("approval.untold", approval_id=each.approval_id, tenant=each.tenant, reason=each.error)
    return len(asked) if len(asked) == BATCH else 0


async def _see_to(work: Work, deliveries: list[Delivery]) -> list[Delivery]:
    """Tell the next place of one approval; return the delivery to alarm about where there is none."""
    asleep = rules.fallback(deliveries)
    if asleep is not None:
        await _move(work, [rules.woken(asleep, Event.FELL_BACK, work.now)])
        return []
    hushed = rules.hushed(deliveries)
    if hushed:
        # Better to wake somebody than to let the approval run out unseen.
        await _move(work, [Moved(each, replace(each, due_at=work.now, urgent=True), Event.REVISED) for each in hushed])
        return []
    await store.change(work, [replace(each, alerted=True) for each in deliveries])
    return deliveries[:1]


async def _move(work: Work, moved: list[Moved]) -> None:
    await store.change(work, [each.after for each in moved])
    work.record(*(change_of(each) for each in moved if each.after.state is not each.before.state))
