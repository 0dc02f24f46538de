"""How fast one caller, and one tenant, may post: buckets of messages that fill up again by the minute.

Kept by each instance for itself, so that the check costs nothing: with n instances a caller may post at most n times
as fast. Time comes from the given clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil

from placet.contracts.errors import Refused
from placet.gateway.identity.auth import Caller

#: Callers remembered; whoever posted longest ago is forgotten first, and has a full bucket again.
CALLERS_MAX = 100_000
_MINUTE = 60.0


@dataclass
class Rates:
    """Admits messages: so many a minute for a key, for a conversation token or a signed-in person, for a tenant."""

    #: 0: any number.
    by_key: int
    by_person: int
    by_tenant: int = 0
    clock: Callable[[], float] = time.monotonic
    #: What is left in a caller's bucket, and when that was so.
    _left: dict[tuple[str, ...], tuple[float, float]] = field(default_factory=dict)

    def admit(self, caller: Caller) -> None:
        """Count one message of a caller; raise Refused (429), with the seconds to wait, where it is one too many.

        What the caller's own bucket refuses takes nothing from its tenant's.
        """
        self._take(caller.account, self.by_key if caller.proof == "api_key" else self.by_person)
        self._take(("tenant", caller.tenant), self.by_tenant)

    def _take(self, who: tuple[str, ...], most: int) -> None:
        if not most:
            return
        now = self.clock()
        left, at = self._left.pop(who, (float(most), now))
        left = min(float(most), left + (now - at) * most / _MINUTE)
        admitted = left >= 1
        if len(self._left) >= CALLERS_MAX:
            self._left.pop(next(iter(self._left)))
        self._left[who] = (left - admitted, now)
        if not admitted:
            wait = ceil((1 - left) * _MINUTE / most)
            of_all = " of all callers of this tenant" if who[0] == "tenant" else ""
            detail = f"At most {most} messages a minute{of_all}."
            title = "Too many messages or decisions."
            raise Refused(title, status=429, kind="rate-limited", detail=detail, retry_after_seconds=wait)
