"""Who signs in: whom a provider's claims mean, and one-time links for whoever starts Placet on their own machine."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from placet.contracts.dead_letters import HOUSE_TENANT
from placet.domain.addresses import without_case
from placet.domain.directory import Directory, Person

#: Whose key `placet up` makes, and who the one-time link signs in.
ADMIN_TENANT = HOUSE_TENANT
ADMIN_PERSON = "admin"
#: How long a browser may take at the provider, in seconds.
ATTEMPT_SECONDS = 600
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


def person_of(directory: Directory, claims: Mapping[str, Any]) -> Person | None:
    """Return whom the directory means by a provider's claims; None for somebody it does not list, or not any more.

    A subject says who somebody is. An address does so only where the provider has verified it, and never for two.
    """
    subject, email = str(claims.get("sub") or ""), without_case(str(claims.get("email") or ""))
    found = [person for person in directory.people.values() if subject and subject in person.subjects]
    if not found and email and claims.get("email_verified") is True:
        found = [person for person in directory.people.values() if email in person.emails]
    return found[0] if len(found) == 1 and found[0].active else None
