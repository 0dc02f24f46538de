"""What is new in a conversation, for clients that know of no turns: everything that they were not told yet.

The items before that are read in silence, because what comes next is about calls that they tell of. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from services.gateway.dialects.moves import Call, Move
from services.gateway.dialects.reader import Reader, Said

#: Feed items before the first untold one that are read in silence: the calls that wait are told of there.
LOOK_BACK = 200


@dataclass
class Talk:
    """Reads a conversation's feed items and deltas, and tells what is new."""

    #: Number of the last feed item that the client knows.
    told: int
    #: Number of the client's message that is answered now; 0 for none.
    posted: int = 0
    #: Number of the newest feed item when it began.
    newest: int = 0
    #: Id of the client's message; empty for none, and until it was read.
    message_id: str = ""
    #: Approvals that were just decided: something follows, although the feed does not say so yet.
    decided: set[str] = field(default_factory=set)
    reader: Reader = field(default_factory=Reader)

    def read(self, kind: str, data: Mapping[str, Any], number: int = 0) -> list[Move]:
        """Return the news of an item, or of a delta, which has no number; what users wrote is none."""
        if number and number == self.posted and kind == "message":
            self.message_id = data["message_id"]
        told = self.reader.read(kind, data, number)
        untold = self.number > self.told or (not number and self.number >= self.told)
        return [each.move for each in told if not isinstance(each.move, Said)] if untold else []

    def is_next(self, kind: str, data: Mapping[str, Any], number: int) -> bool:
        """Whether an item is the user's next message: what follows answers that one."""
        return kind == "message" and data["role"] == "user" and number > max(self.told, self.posted)

    @property
    def number(self) -> int:
        """Number of the last item that was read."""
        return self.reader.number

    @property
    def calls(self) -> Mapping[str, Call]:
        """The calls that are known, told or not: call id -> what is known."""
        return self.reader.calls

    @property
    def waiting(self) -> list[Mapping[str, Any]]:
        """The cards that people are asked to decide."""
        return list(self.reader.waiting.values())

    @property
    def rests(self) -> bool:
        """Whether nothing goes on until somebody writes or decides, as far as the feed tells.

        The agent may not have heard of the client's message yet; it is who knows.
        """
        if self.number < max(self.newest, self.told, self.posted):
            return False
        open_calls = (call for call in self.calls.values() if not call.answered)
        return self.reader.quiet and not any(call.card.get("approval_id") in self.decided for call in open_calls)
