"""Going on with a message: a client is told what it does not show, and how it ended, and nothing twice."""

from __future__ import annotations

from services.gateway.dialects.ai_sdk_posted import Seen
from services.gateway.dialects.moves import Move, StepBegan, TextWritten, TurnEnded
from services.gateway.dialects.unseen import Unseen


def test_an_end_is_told_where_no_new_step_began() -> None:
    """A turn may fail before its first word, or right after an approval."""
    moves: list[Move] = [StepBegan(), TextWritten("m", "Deploying."), TurnEnded({"state": "failed"})]
    assert moves[-1:] == list(Unseen(Seen(steps=1)).of(moves))
    assert moves[-1:] == list(Unseen(Seen()).of(moves[-1:]))
