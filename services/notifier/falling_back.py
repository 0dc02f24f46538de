"""Sees to approvals that nobody was told of: somebody is told after all, and operators are alarmed.

Nobody is ever taken to have said yes or no because telling failed: the approval waits, and runs out of time, as any
other does.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog
from prometheus_client import Counter

from placet.notifier import store, undelivered
from placet.notifier.changes import change_of
from placet.notifier.rules import Moved
from placet.notifier.store.calls import take
from placet.runtime.work import UnitOfWork, Work

log = structlog.get_logger(__name__)

#: Approvals that one round sees to.
BATCH = 100

UNTOLD = Counter(
    "placet_approvals_untold_total", "Approvals that waited while nobody could be told of them, or nobody was in time."
)


async def see_to_untold(units: UnitOfWork) -> int:
    """Tell the next place, or every place, or alarm; return how many approvals were looked at if more may wait."""
    alarms: list[dict[str, str]] = []
    async with units.begin() as work:
        asked = await store.untold(work, BATCH)
        await take(work, approval_ids=asked)
        for approval_id, deliveries in (await store.lock_approvals(work, asked)).items():
            step = undelivered.next_step(deliveries, work.now)
            await _move(work, step.moved)
            if step.alarm:
                alarms += [{"approval_id": approval_id, "tenant": deliveries[0].tenant, "reason": step.alarm}]
    for each in alarms:
        UNTOLD.inc()
        log.error("approval.untold", **each)
    return len(asked) if len(asked) == BATCH else 0


async def _move(work: Work, moved: Sequence[Moved]) -> None:
    await store.change(work, [each.after for each in moved])
    work.record(*(change_of(each) for each in moved if each.after.state is not each.before.state))
