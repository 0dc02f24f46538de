"""One-time links: how whoever starts Placet on their own machine signs in. Made by the process that prints them."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from placet.contracts.dead_letters import HOUSE_TENANT

#: Whose key `placet up` makes, and who the one-time link signs in.
ADMIN_TENANT = HOUSE_TENANT
ADMIN_PERSON = "admin"
#: How long a one-time link is good, in seconds.
LINK_SECONDS = 3600.0
#: Links that wait at the same time; the oldest goes.
LINKS_MAX = 16


@dataclass
class OneTimeLinks:
    """Links that sign the administrator in, each once. Kept in memory: they are worth nothing after a restart."""

    clock: Callable[[], float] = time.monotonic
    _ends: dict[str, float] = field(default_factory=dict)
    # The process that prints a link may do so from another thread than the one that serves it.
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self) -> str:
        """Return the token of a new link."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            while len(self._ends) >= LINKS_MAX:
                self._ends.pop(next(iter(self._ends)))
            self._ends[token] = self.clock() + LINK_SECONDS
        return token

    def take(self, token: str) -> bool:
        """Use a link up; tell whether it was good."""
        with self._lock:
            ends = self._ends.pop(token, None)
        return ends is not None and self.clock() < ends


#: The links of this process: made by whoever starts the gateway, taken by its pages.
LINKS = OneTimeLinks()


def one_time_link() -> str:
    """Return the path of a link that signs the installation's administrator in once, within an hour."""
    return f"/sign-in/{LINKS.add()}"
