"""Asking an AI SDK's chat for another answer: which message that is about, whatever the page calls it."""

from __future__ import annotations

from collections.abc import Sequence

from placet.gateway.conversations.items import Item
from placet.gateway.dialects.ai_sdk import AiSdkState, Goal, begin
from placet.gateway.dialects.ai_sdk_again import edited_id, following_id, needs_somebody, newest_id
from placet.gateway.dialects.conversation_state import replay
from tests.support.conversation_logs import AT

CHAT, TEXT = "chat", "Pay it."
SECOND = following_id(CHAT, "u1")
THIRD = following_id(CHAT, SECOND)


def written(*messages: tuple[str, str]) -> list[Item]:
    """Return a log of messages of the user."""
    author = {"kind": "visitor", "id": "visitor:v"}
    return [
        Item(number, "message", AT, {"role": "user", "message_id": message_id, "text": text, "author": author})
        for number, (message_id, text) in enumerate(messages, start=1)
    ]


def test_the_newest_answer_is_found_from_each_message_that_asked() -> None:
    """A page has the id that it sent; one that was loaded since has the later ones."""
    items = written(("u1", TEXT), (SECOND, TEXT), (THIRD, TEXT))
    assert {(THIRD, True)} == {newest_id(CHAT, each, TEXT, items) for each in ("u1", SECOND, THIRD)}


def test_an_edited_message_is_one_of_its_own() -> None:
    """Its page keeps the id; its answers are those to its own text."""
    edited = edited_id(CHAT, "u1", "Pay less.")
    items = written(("u1", TEXT), (SECOND, TEXT), (edited, "Pay less."))
    assert (edited, True) == newest_id(CHAT, "u1", "Pay less.", items)
    assert (following_id(CHAT, edited), True) == newest_id(
        CHAT, "u1", "Pay less.", [*items, *written((following_id(CHAT, edited), "Pay less."))]
    )


def test_a_message_that_never_arrived_is_known_as_itself() -> None:
    """Asking again after a broken connection writes it, instead of a second one beside it."""
    assert [("u1", False), ("u1", False)] == [newest_id(CHAT, "u1", TEXT, items) for items in ([], written(("u0", "")))]


def stood(*told: dict[str, object]) -> AiSdkState:
    """Return how the stream of the message u1 stands after its log."""
    items = written(("u1", TEXT))
    for each in told:
        items.append(Item(len(items) + 1, "turn", AT, {"turn_id": "t1", **each}))
    return replay(begin(Goal(message_id="u1", newest=len(items))), items)[0]


def test_an_answer_that_is_over_needs_nobody() -> None:
    """One that has not begun, that is being made, or that waits behind a call is shown again."""
    started: dict[str, object] = {"state": "started", "message_id": "u1"}
    logs: Sequence[Sequence[dict[str, object]]] = [[], [started], [started, {"state": "finished", "idle": True}]]
    assert [True, True, False] == [needs_somebody(stood(*log)) for log in logs]


def test_a_message_that_was_taken_for_a_decision_is_waited_for_by_nobody() -> None:
    """No agent answers it, so nothing of it is shown again."""
    (item,) = written(("u1", TEXT))
    item.data["taken_as"] = {"approval_id": "a", "decision": "approve", "summary": ""}
    state, _ = replay(begin(Goal(message_id="u1", newest=1)), [item])
    assert not needs_somebody(state)
