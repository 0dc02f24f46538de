"""How many streams one caller, one conversation and one tenant may have open at a time on this instance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from placet.contracts.errors import Refused
from placet.gateway.conversations.live import Topic
from placet.gateway.identity.auth import Caller

#: Seconds after which a refused client may try again.
RETRY_AFTER_SECONDS = 5


@dataclass
class StreamLimits:
    """Counts open streams: of a key, of a token or a signed-in person, of a conversation, of a tenant."""

    by_key: int
    by_person: int
    by_conversation: int
    by_tenant: int
    _open: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def check(self, caller: Caller, conversation: Topic | None = None) -> None:
        """Raise Refused (429) where one more stream would be too many. Ask before anything is answered."""
        if not self._has_room(caller, conversation):
            raise Refused(
                "Too many streams are open.",
                status=429,
                kind="too-many-streams",
                detail="Close those that nobody reads.",
                retry_after_seconds=RETRY_AFTER_SECONDS,
            )

    @contextmanager
    def counted(self, caller: Caller, conversation: Topic | None) -> Iterator[bool]:
        """Count one stream while the block runs; tell whether it has room, and else count nothing."""
        if not self._has_room(caller, conversation):
            yield False
            return
        places = [place for place, _ in self._places(caller, conversation)]
        self._open.update(places)
        try:
            yield True
        finally:
            for place in places:
                self._open[place] -= 1
                if not self._open[place]:
                    del self._open[place]

    def _has_room(self, caller: Caller, conversation: Topic | None) -> bool:
        return all(self._open[place] < most for place, most in self._places(caller, conversation))

    def _places(self, caller: Caller, conversation: Topic | None) -> Iterator[tuple[tuple[str, ...], int]]:
        yield ("tenant", caller.tenant), self.by_tenant
        yield caller.account, self.by_key if caller.proof == "api_key" else self.by_person
        if conversation is not None:
            yield ("conversation", conversation.tenant, conversation.conversation_id), self.by_conversation
