"""Drafts: who comes in the middle of a text sees how it began, and nobody sees it twice."""

from __future__ import annotations

from typing import Any

import pytest

from services.gateway.drafts import TEXT_MAX, Drafts
from services.gateway.live import Topic

HERE = Topic("acme", "c")


def piece(offset: int, text: str, **changes: Any) -> dict[str, Any]:
    """Return a piece of the text of message a-1."""
    return {"turn_id": "t", "message_id": "a-1", "offset": offset, "text": text, "reset": False} | changes


def texts(drafts: Drafts, topic: Topic = HERE) -> list[tuple[int, str]]:
    """Return offset and text of a conversation's drafts."""
    return [(draft.data["offset"], draft.data["text"]) for draft in drafts.of(topic)]


def written(*pieces: dict[str, Any]) -> Drafts:
    """Return drafts after some pieces."""
    drafts = Drafts()
    for each in pieces:
        drafts.write(HERE, each)
    return drafts


def test_pieces_join_to_one_from_the_beginning() -> None:
    """Whoever comes late gets one piece with everything so far; other conversations get nothing."""
    drafts = written(piece(0, "Hel"), piece(3, "lo"))
    assert ([(0, "Hello")], []) == (texts(drafts), texts(drafts, Topic("rival", "c")))


@pytest.mark.parametrize("late", [piece(2, "x"), piece(7, "x")])
def test_a_piece_that_does_not_join_on_ends_the_draft(late: dict[str, Any]) -> None:
    """Half a text is worse than none: the whole one follows anyway."""
    assert [] == texts(written(piece(0, "Hello"), late))


@pytest.mark.parametrize("again", [piece(0, "Bye", reset=True), piece(0, "Bye")])
def test_an_attempt_that_begins_again_replaces_the_draft(again: dict[str, Any]) -> None:
    """What was thrown away is not shown to who comes late."""
    assert [(0, "Bye")] == texts(written(piece(0, "Hello"), again))


def test_the_late_word_of_an_older_turn_s_end_ends_no_newer_draft() -> None:
    """Who hears of the end elsewhere writes again before this instance does."""
    drafts = written(piece(0, "old"), piece(0, "new", turn_id="t-2", message_id="a-2"))
    drafts.kept(HERE, [{"type": "turn", "data": {"turn_id": "t", "state": "finished"}}])
    assert [(0, "new")] == texts(drafts)


@pytest.mark.parametrize(
    "item",
    [{"type": "message", "data": {"message_id": "a-1"}}, {"type": "turn", "data": {"turn_id": "t", "state": "failed"}}],
)
def test_what_is_over_is_forgotten(item: dict[str, Any]) -> None:
    """A draft ends as a message, or with its turn."""
    drafts = written(piece(0, "Hello"))
    drafts.kept(HERE, [item])
    assert [] == texts(drafts)


@pytest.mark.parametrize(
    "item",
    [{"type": "message", "data": {"message_id": "a-0"}}, {"type": "turn", "data": {"state": "started"}}],
)
def test_what_goes_on_is_kept(item: dict[str, Any]) -> None:
    """Other messages and the turn's own beginning change nothing."""
    drafts = written(piece(0, "Hello"))
    drafts.kept(HERE, [item])
    assert [(0, "Hello")] == texts(drafts)


def test_drafts_are_bounded() -> None:
    """The quietest conversation goes when there are too many, and a text that is too long is no draft."""
    drafts = Drafts(conversations_max=2)
    for name in ("c", "d", "e"):
        drafts.write(Topic("acme", name), piece(0, name))
    long = written(piece(0, "x" * TEXT_MAX), piece(TEXT_MAX, "x"))
    assert ([], [(0, "d")], []) == (texts(drafts), texts(drafts, Topic("acme", "d")), texts(long))
