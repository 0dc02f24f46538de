"""How a browser becomes a person: signed sessions, and one-time links of the process that prints them.

A session names the API key it began with and nothing it may do: rights are read from the key at each request, so
revoking the key ends every session that came from it.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from shared.signing import BadSignature, Purpose, Signer, Verifier

#: Whose key `placet up` makes, and who the one-time link signs in.
ADMIN_TENANT = "default"
ADMIN_PERSON = "admin"
#: How long a one-time link is good, in seconds.
LINK_SECONDS = 3600.0
#: Links that wait at the same time; the oldest goes.
LINKS_MAX = 16


@dataclass(frozen=True)
class Sessions:
    """Makes and reads session cookies."""

    signer: Signer
    verifier: Verifier
    seconds: int
    clock: Callable[[], float] = time.time

    def begin(self, key_id: str) -> str:
        """Return the cookie value of a session that begins now with this API key."""
        now = int(self.clock())
        return self.signer.sign(Purpose.SESSION, {"sub": key_id, "iat": now, "exp": now + self.seconds})

    def key_of(self, cookie: str) -> str | None:
        """Return the API key's id of a cookie; None where it is forged, of another purpose, or over."""
        try:
            claims = self.verifier.verify(Purpose.SESSION, cookie)
        except BadSignature:
            return None
        key_id, ends = claims.get("sub"), claims.get("exp")
        return key_id if isinstance(key_id, str) and isinstance(ends, int) and self.clock() < ends else None


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
