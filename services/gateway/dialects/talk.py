"""A conversation as the moves of all its turns, for clients that know of no turns: what they were not told yet.

The items before that are read in silence, because what comes next is about calls that they tell of. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from services.gateway.dialects.follow import begins
from services.gateway.dialects.moves import CallAnswered, CallMade, CardMoved, Move, TurnReader

#: Feed items before the first untold one that are read in silence: the calls that wait are told of there.
LOOK_BACK = 200
#: Types of items that only a turn makes that is not over; others may be about one that ended long ago.
_LIVING = frozenset({"turn", "message", "delta", "tool_call"})


@dataclass
class Known:
    """What is known of one call."""

    tool: str
    #: As people may see them; None where the model wrote no JSON.
    arguments: Any = None
    #: Its approval's card, empty where it has none.
    card: Mapping[str, Any] = field(default_factory=dict)
    answered: bool = False
    #: Whether its turn was over when it was answered: the model went on without it, and hears of it in another turn.
    late: bool = False

    @property
    def waits(self) -> bool:
        """Whether people are asked and nobody has decided."""
        return not self.answered and self.card.get("state") == "pending"


@dataclass
class Talk:
    """Reads a conversation's feed items and deltas, and tells what is new."""

    #: Number of the last feed item that the client knows.
    told: int
    #: Number of the client's message that is answered now; 0 for none.
    posted: int = 0
    #: Number of the newest feed item when it began.
    newest: int = 0
    #: Approvals that were just decided: something follows, although the feed does not say so yet.
    decided: set[str] = field(default_factory=set)
    #: Number of the last item that was read.
    number: int = 0
    #: Call id -> what is known of it, told or not.
    calls: dict[str, Known] = field(default_factory=dict)
    _turns: dict[str, TurnReader] = field(default_factory=dict)
    #: Message id -> number of what users wrote.
    _written: dict[str, int] = field(default_factory=dict)
    #: Whether a turn began since the client's message, and whether one answers it.
    _moved: bool = False
    _answering: bool = False

    def read(self, kind: str, data: Mapping[str, Any], number: int = 0) -> list[Move]:
        """Return the news of an item, or of a delta, which has no number."""
        self.number = number or self.number
        if kind == "message" and data["role"] == "user":
            self._written[data["message_id"]] = self.number
        if self.posted and self.number > self.posted and begins(kind, data):
            self._hear(kind, data)
        turn_id = data.get("turn_id")
        if turn_id and kind in _LIVING and turn_id not in self._turns:
            self._turns[turn_id] = TurnReader(turn_id)
        moves = [move for turn in self._turns.values() for move in self._read(turn, kind, data)]
        untold = self.number > self.told or (not number and self.number >= self.told)
        return moves if untold else []

    @property
    def answering(self) -> bool:
        """Whether the client's message is heard, or there is none."""
        return self._answering or not self.posted

    @property
    def rests(self) -> bool:
        """Whether nothing goes on until somebody writes or decides, as far as the feed tells."""
        if self.number < max(self.newest, self.told) or not self.answering:
            return False
        return self._quiet()

    @property
    def is_held_up(self) -> bool:
        """Whether the client's message may wait until people have decided, or was answered with others' unseen."""
        return not self.answering and (self._moved or bool(self.waiting_turns)) and self._quiet()

    @property
    def may_go_on(self) -> bool:
        """Whether a turn of its own may follow what was decided, which is about a turn that is over."""
        known = {call.card.get("approval_id"): call for call in self.calls.values()}
        return any(decided not in known or known[decided].late for decided in self.decided)

    @property
    def waiting_turns(self) -> Mapping[str, tuple[str, ...]]:
        """The turns that wait for people: turn id -> call ids."""
        return {turn.turn_id: tuple(turn.waiting) for turn in self._turns.values() if not turn.ended and turn.waits}

    @property
    def waiting(self) -> list[Mapping[str, Any]]:
        """The cards that people are asked to decide."""
        return [call.card for call in self.calls.values() if call.waits]

    def _hear(self, kind: str, data: Mapping[str, Any]) -> None:
        # A turn that begins now may be about what was written before; it names the newest message that it answers.
        self._moved = True
        named = self._written.get(data.get("message_id", ""), 0) if kind == "turn" else self.posted
        self._answering = self._answering or named >= self.posted

    def _quiet(self) -> bool:
        open_calls = (call for call in self.calls.values() if not call.answered)
        decided = any(call.card.get("approval_id") in self.decided for call in open_calls)
        return not decided and all(turn.ended or turn.waits for turn in self._turns.values())

    def _read(self, turn: TurnReader, kind: str, data: Mapping[str, Any]) -> Iterator[Move]:
        ended = turn.ended
        for move in turn.read(kind, data):
            match move:
                case CallMade(call_id, tool, arguments):
                    self.calls.setdefault(call_id, Known(tool)).arguments = arguments
                case CardMoved(call_id):
                    self.calls[call_id].card = move.card
                case CallAnswered(call_id):
                    self.calls[call_id].answered, self.calls[call_id].late = True, ended
            yield move


def news_of(talk: Talk, items: Iterable[Mapping[str, Any]]) -> Iterator[Move]:
    """Yield the news of feed items, each {id, type, at, data}, up to the next message of a user."""
    for item in items:
        data = item["data"]
        if item["type"] == "message" and data["role"] == "user" and item["id"] > max(talk.told, talk.posted):
            return
        yield from talk.read(item["type"], data, item["id"])
