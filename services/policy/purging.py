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


class Purging:
    """Deletes in small transactions, so that nobody who judges waits for it."""

    def __init__(self, database: Database, active: ActiveRulebook, *, keep_days: int) -> None:
        self._database = database
        self._active = active
        self._keep = timedelta(days=keep_days)

    @property
    def age(self) -> timedelta:
        """How old something must be to go: no window of the active rulebook reaches back so far."""
        windows = (limit.within_seconds for rule in self._active.rulebook.rules for limit in rule.limits)
        return max(self._keep, timedelta(seconds=max(windows, default=0)))

    async def purge_old(self) -> int:
        """Delete everything that is too old; return how many rows that were."""
        total = 0
        while True:
            async with self._database.transaction() as connection:
                gone = await purge(connection, self.age, PURGE_ROWS)
            total += sum(gone)
            if max(gone) < PURGE_ROWS:
                break
        if total:
            log.info("policy.purged", rows=total)
        return total
