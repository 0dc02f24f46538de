"""A conversation's feed as moves: the one reader of every dialect that tells of more than one turn.

Pure, and linear in what it reads: an item goes to the turn that it is about and to no other. Calls outlive their turn
where the model goes on without them, so what became of one is told by its own turn, however many there were since.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from services.gateway.dialects.moves import Call, Data, Early, Move, TurnReader, spoken

#: Types of items that are about a call; those of executors and approvers do not say of which turn it is.
_OF_CALLS = frozenset({"tool_call", "approval", "progress"})


@dataclass(frozen=True, slots=True)
class Said:
    """A user wrote a message."""

    message_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that happened."""

    #: The turn in which it did; the message's id where a person wrote it.
    turn_id: str
    move: Move | Said


@dataclass
class Reader:
    """Reads the feed items and deltas of one conversation."""

    #: Number of the last item that was read.
    number: int = 0
    #: Call id -> what is known of it; the readers of the turns write it.
    calls: dict[str, Call] = field(default_factory=dict)
    _turns: dict[str, TurnReader] = field(default_factory=dict)
    #: Turns of which everything was read.
    _began: set[str] = field(default_factory=set)
    #: What came before the call it is about, and does not say of which turn that is.
    _early: Early = field(default_factory=dict)

    def read(self, kind: str, data: Data, number: int = 0) -> list[Told]:
        """Return what an item of type `kind` tells, or a delta, which has no number."""
        self.number = number or self.number
        return list(self._read(kind, data))

    @property
    def waiting(self) -> dict[str, Data]:
        """The cards that people are asked to decide: call id -> card."""
        return {call_id: call.card for call_id, call in self.calls.items() if call.waits}

    @property
    def overdue(self) -> list[str]:
        """The calls that are open although their turn is over, and that nobody is asked about: they run."""
        return [
            call_id
            for call_id, call in self.calls.items()
            if not call.answered and not call.waits and self.over(call.turn_id)
        ]

    @property
    def quiet(self) -> bool:
        """Whether no turn goes on until people decide or write, as far as the feed told."""
        newest = next(reversed(self._turns.values()), None)
        return newest is None or newest.ended or newest.waits

    @property
    def settled(self) -> bool:
        """Whether every call was answered, or waits for people."""
        return all(call.answered or call.waits for call in self.calls.values())

    @property
    def answered(self) -> set[str]:
        """The calls whose results were told."""
        return {call_id for call_id, call in self.calls.items() if call.answered}

    def began(self, turn_id: str) -> bool:
        """Whether a turn's beginning was told, and so everything of it."""
        return turn_id in self._began

    def knows(self, turn_id: str) -> bool:
        """Whether anything of a turn was told."""
        return turn_id in self._turns

    def over(self, turn_id: str) -> bool:
        """Whether a turn's end was told."""
        return turn_id in self._turns and self._turns[turn_id].ended

    def step(self, turn_id: str) -> int:
        """Return the newest step of a turn whose message was told; 0 for none."""
        return self._turns[turn_id].step if turn_id in self._turns else 0

    def pause(self, turn_id: str) -> list[Move]:
        """Return what closes a turn's current step: people are asked, and the stream ends for now."""
        return list(self._turns[turn_id].pause()) if turn_id in self._turns else []

    def _read(self, kind: str, data: Data) -> Iterator[Told]:
        if kind == "turn" and data["state"] == "started":
            self._began.add(data["turn_id"])
        if kind in _OF_CALLS:
            yield from self._read_call(kind, data)
        elif kind == "message" and data["role"] == "user":
            yield Told(data["message_id"], Said(data["message_id"], data["text"]))
        elif kind == "message" and data["role"] == "operator":
            yield Told(data["message_id"], spoken(data))
        elif turn_id := data.get("turn_id"):
            yield from self._read_turn(turn_id, kind, data)

    def _read_call(self, kind: str, data: Data) -> Iterator[Told]:
        call_id = data["call_id"]
        known = self.calls.get(call_id)
        # A card names its turn too, but only the call itself begins anything there.
        turn_id = known.turn_id if known else data.get("turn_id") if kind == "tool_call" else None
        if not turn_id:
            self._early.setdefault(call_id, []).append((kind, data))
            return
        yield from self._read_turn(turn_id, kind, data)

    def _read_turn(self, turn_id: str, kind: str, data: Data) -> Iterator[Told]:
        turn = self._turns.setdefault(turn_id, TurnReader(turn_id, self.calls, self._early))
        for move in turn.read(kind, data):
            yield Told(turn_id, move)
