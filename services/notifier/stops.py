"""Lets cards that change in place say that an administrator has stopped such calls, and when that is over.

A stop is a row that is read, no message: so this looks for cards that say something else than is so, and whatever
opened, or was sent, meanwhile is found like the rest. Channels are not used faster for it: cards become due.
"""

from __future__ import annotations

from dataclasses import replace

from placet.notifier import rules, store
from placet.notifier.changes import change_of
from placet.notifier.store.stops import shown_otherwise
from placet.runtime.work import UnitOfWork

#: Cards that one transaction sees to.
BATCH = 100


async def tell_stops(units: UnitOfWork) -> int:
    """Make cards due that do not say what is stopped; return how many if more may wait."""
    async with units.begin() as work:
        found = await shown_otherwise(work, BATCH)
        moved = [rules.revised(each, replace(each.card, stopped=reason), work.now) for each, reason in found]
        work.record(*map(change_of, moved))
        await store.change(work, [each.after for each in moved])
    return len(found) if len(found) == BATCH else 0
