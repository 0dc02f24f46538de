"""Forgets what was counted once no window can count it any more: a duty in any number of replicas."""

from __future__ import annotations

from datetime import timedelta

import structlog

from placet.policy.active import ActiveRulebook
from placet.policy.store.purge import purge
from placet.runtime.database import Database

log = structlog.get_logger(__name__)

#: Rows of each kind deleted in one transaction.
PURGE_ROWS = 1_000


async def purge_old(database: Database, active: ActiveRulebook, keep: timedelta) -> int:
    """Delete everything that is too old, in small transactions, so that nobody who judges waits; return how many rows.

    Too old is what is older than `keep` and no window of the active rulebook reaches back to.
    """
    total = 0
    while True:
        windows = (limit.within_seconds for rule in active.rulebook.rules for limit in rule.limits)
        age = max(keep, timedelta(seconds=max(windows, default=0)))
        async with database.transaction() as connection:
            gone = await purge(connection, age, PURGE_ROWS)
        total += sum(gone)
        if max(gone) < PURGE_ROWS:
            break
    if total:
        log.info("policy.purged", rows=total)
    return total
