"""How many calls of one tenant may wait for people: who floods the inboxes of its people is refused, and nobody else.

Counted now and then, and before a call is refused, but not with each call. What this process opens in between is added;
what other replicas open is not, so a quota may be passed by what these open between two counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from math import inf
from time import monotonic

from prometheus_client import Counter as Total

from placet.approval import store
from placet.runtime.database import Database

#: Shortest time between two counts that a tenant without room asks for, in seconds.
AGAIN_SECONDS = 1.0

REFUSED = Total("placet_approvals_refused_total", "Calls that were refused because too many of their tenant wait.")


class Quota:
    """How many wait of each tenant, as far as it was counted."""

    def __init__(self, most: int, clock: Callable[[], float] = monotonic) -> None:
        self.most, self._clock = most, clock
        self._waiting: Counter[str] = Counter()
        self._counted_at = -inf

    async def count(self, database: Database) -> None:
        """Count what waits of each tenant, no further than the quota."""
        self._counted_at = self._clock()
        async with database.single() as connection:
            self._waiting = Counter(await store.count_by_tenant(connection, self.most))

    async def count_again(self, database: Database) -> None:
        """Count before calls are refused, for some may have ended: once in AGAIN_SECONDS, whatever a tenant asks."""
        if self._clock() - self._counted_at >= AGAIN_SECONDS:
            await self.count(database)

    def has_room(self, wanted: Mapping[str, int]) -> bool:
        """Tell whether so many of each tenant may wait, as far as it was counted."""
        return all(self._waiting[tenant] + number <= self.most for tenant, number in wanted.items())

    def take(self, tenant: str) -> bool:
        """Add one that is to wait; tell whether it may."""
        may = self._waiting[tenant] < self.most
        self._waiting[tenant] += may
        return may


async def count_refused() -> None:
    """Count a call that was refused; to be handed to `Work.act`, so that only what was committed counts."""
    REFUSED.inc()
