"""Going on with a message that a client shows in part: only what it does not show yet is told."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from services.gateway.dialects.ai_sdk_posted import Seen
from services.gateway.dialects.moves import (
    CallAnswered,
    CallMade,
    CallProgressed,
    CardMoved,
    Move,
    OperatorSpoke,
    StepBegan,
    TurnEnded,
)


class Unseen:
    """Leaves out of a turn's moves what a client shows already; cards of `asked_again` are always told."""

    def __init__(self, seen: Seen, asked_again: Collection[str] = ()) -> None:
        self._seen = seen
        self._asked_again = asked_again
        self._steps = 0

    def of(self, moves: Iterable[Move]) -> Iterator[Move]:
        """Yield those of `moves` that the client must be told."""
        for move in moves:
            self._steps += isinstance(move, StepBegan)
            if self._steps > self._seen.steps or self._is_news(move):
                yield move

    def _is_news(self, move: Move) -> bool:
        match move:
            case CallMade(call_id, _, arguments):
                return bool(self._seen.shown(call_id) != arguments)
            case CallAnswered(call_id) | CallProgressed(call_id):
                return not self._seen.answered(call_id)
            case CardMoved(call_id):
                moved_on = move.state != "pending" or move.approval_id in self._asked_again
                return moved_on and not self._seen.answered(call_id)
            case OperatorSpoke() | TurnEnded():
                return True
            case _:
                return False
