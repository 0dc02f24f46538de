"""When a conversation rests: the feed must have told what the agent and approval know."""

from __future__ import annotations

from typing import Any

import pytest

from services.gateway.dialects.reader import Reader
from services.gateway.resting import is_told
from services.gateway.store.turns import Rest
from tests.unit.gateway.test_moves import END, Item, card, proposed, result

STARTED: Item = ("turn", {"turn_id": "t", "state": "started"})
WORDS: Item = ("message", {"turn_id": "t", "role": "assistant", "message_id": "m", "text": "Deploying.", "step": 1})
ASKED = [STARTED, WORDS, proposed(), card()]
WAITS = Rest("t", over=False, step=1)


def a_reader(items: list[Item]) -> Reader:
    """Return who has read these items."""
    reader = Reader()
    for item in items:
        reader.read(*item)
    return reader


def asked() -> list[Any]:
    """Return the row of the approval that waits."""
    return [{"call_id": "k", "approval_id": "a-k"}]


@pytest.mark.parametrize(
    ("items", "waiting", "rest", "told"),
    [
        ([], [], Rest(), True),
        (ASKED, asked(), WAITS, True),
        ([STARTED, proposed(), card()], asked(), WAITS, False),
        ([STARTED, WORDS, proposed()], asked(), WAITS, False),
        (ASKED, [], Rest("t", over=False, step=1), False),
        ([*ASKED, END], asked(), Rest("t", step=2), True),
        (ASKED, asked(), Rest("t", step=2), False),
        (ASKED, asked(), Rest("next", step=1), False),
        (ASKED, asked(), Rest("t", over=False, step=1, queued=True), True),
        ([STARTED, proposed(), result(), WORDS, END], [], Rest("t", step=1, ran=frozenset({"k"})), True),
        ([STARTED, WORDS, END], [], Rest("t", step=1, ran=frozenset({"k"})), False),
        ([WORDS, END], [], Rest("t", step=1, ran=frozenset({"k"})), True),
    ],
    ids=[
        "nothing happened",
        "people are asked",
        "the words beside the call are missing",
        "the card is missing",
        "it was decided",
        "it went on and is done",
        "the end is missing",
        "another turn began",
        "a message waits behind the call",
        "a call ran and was told",
        "a call ran and was not told yet",
        "only the end of the turn was read",
    ],
)
def test_a_conversation_rests_when_all_was_told(items: list[Item], waiting: list[Any], rest: Rest, told: bool) -> None:  # noqa: FBT001 - a table's column
    """Whatever is missing in the feed is waited for."""
    assert told == is_told(a_reader(items), waiting, rest, partial=False)
