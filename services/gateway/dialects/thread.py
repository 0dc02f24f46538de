"""A whole conversation as moves: every turn's, in the order that dialects accept, and what people said between.

Pure. Calls outlive their turn where the model goes on without them, so what became of one is told by its own turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from services.gateway.dialects.moves import CallMade, Data, Move, TurnReader


@dataclass(frozen=True, slots=True)
class Said:
    """Somebody wrote a message."""

    message_id: str
    text: str


Told = Move | Said


@dataclass
class Thread:
    """Reads the feed items and deltas of one conversation."""

    _turns: dict[str, TurnReader] = field(default_factory=dict)
    #: Call id -> its turn.
    _calls: dict[str, str] = field(default_factory=dict)
    #: What came before the call it is about, and does not say of which turn it is.
    _early: dict[str, list[tuple[str, Data]]] = field(default_factory=dict)

    def read(self, kind: str, data: Data) -> Iterator[Told]:
        """Yield the moves that an item of type `kind`, or a delta, makes."""
        if kind == "message" and data["role"] == "user":
            yield Said(data["message_id"], data["text"])
        elif kind in {"tool_call", "approval", "progress"}:
            yield from self._read_call(kind, data)
        elif turn_id := data.get("turn_id"):
            yield from self._turn(turn_id).read(kind, data)

    @property
    def waiting(self) -> dict[str, str]:
        """The calls that wait for people: call id -> approval id."""
        return {call_id: approval for turn in self._turns.values() for call_id, approval in turn.waiting.items()}

    @property
    def rests(self) -> bool:
        """Whether nothing goes on until people decide or write, as far as the feed told."""
        newest = next(reversed(self._turns.values()), None)
        settled = all(turn.open_calls == len(turn.waiting) for turn in self._turns.values())
        return settled and (newest is None or newest.ended or newest.waits)

    def knows(self, turn_id: str) -> bool:
        """Whether anything of a turn was told."""
        return turn_id in self._turns

    def over(self, turn_id: str) -> bool:
        """Whether a turn's end was told."""
        return turn_id in self._turns and self._turns[turn_id].ended

    def _turn(self, turn_id: str) -> TurnReader:
        return self._turns.setdefault(turn_id, TurnReader(turn_id))

    def _read_call(self, kind: str, data: Data) -> Iterator[Told]:
        call_id = data["call_id"]
        turn_id = self._calls.get(call_id) or data.get("turn_id")
        if not turn_id:
            self._early.setdefault(call_id, []).append((kind, data))
            return
        for move in self._turn(turn_id).read(kind, data):
            if isinstance(move, CallMade):
                self._calls[move.call_id] = turn_id
            yield move
        if call_id in self._calls:
            for early in self._early.pop(call_id, []):
                yield from self._turn(turn_id).read(*early)
