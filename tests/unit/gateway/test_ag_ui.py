"""What of an AG-UI run is pure beside its events: what asks, and what is read of a request."""

from __future__ import annotations

from typing import Any

import pytest

from placet.contracts.errors import Refused
from placet.gateway.approvals.answers import Answer
from placet.gateway.conversations.items import Delta, Item
from placet.gateway.dialects.ag_ui import AgUiState, Goal, interrupt_of
from placet.gateway.dialects.ag_ui_routes import RunIn
from placet.gateway.dialects.changes import Call
from placet.gateway.dialects.conversation_state import Entry, fold
from tests.support.ag_ui_client import Client

DIGEST = "d" * 64


def test_an_interrupt_names_what_is_shown_and_until_when() -> None:
    """Its id has the digest; beside stand its end, which must lock no client, and why an answer did not count."""
    card = {"approval_id": "a", "digest": DIGEST, "summary": "Deploy?", "state": "pending", "expires_at": "2030-01-01"}
    asked = interrupt_of(Call("k", "t", "t", "deploy", {}, card), {"interruptId": "i", "kind": "stale-card"})
    assert (f"a.{DIGEST}", False) == (asked["id"], "expiresAt" in asked)
    told = asked["metadata"]["placet"]
    assert ("2030-01-01", {"kind": "stale-card"}) == (told["expires_at"], told["problem"])


def test_a_run_says_which_limit_ended_it() -> None:
    """By its name beside the words, as the feed does."""
    end = {"state": "finished", "reason": "All used.", "limit": "steps"}
    state, events = AgUiState(Goal("thread", "run", message_id="u")), list[dict[str, Any]]()
    turn: list[dict[str, Any]] = [{"state": "started", "message_id": "u"}, {**end, "idle": True, "open": []}]
    for number, data in enumerate(turn, 1):
        state, made = fold(state, Item(number, "turn", "2026-01-01T00:00:00+00:00", {"turn_id": "t", **data}))
        events += made
    assert ("RUN_FINISHED", end) == (events[-1]["type"], events[-1]["result"])


def test_a_run_that_begins_amid_another_ones_text_goes_on_with_it() -> None:
    """The client takes no piece of a text that the run has not begun; what it was shown before stays."""
    at, page = "2026-01-01T00:00:00+00:00", Client()
    entries: list[Entry] = [
        Item(1, "message", at, {"role": "user", "message_id": "u1", "text": "Hi"}),
        Item(2, "turn", at, {"state": "started", "turn_id": "t", "message_id": "u1"}),
        Delta("t", 1, "a1", 0, "Hel"),
        Item(3, "message", at, {"role": "user", "message_id": "u2", "text": "And?"}),
        Delta("t", 1, "a1", 3, "lo"),
        Item(4, "message", at, {"role": "assistant", "message_id": "a1", "turn_id": "t", "step": 1, "text": "Hello"}),
    ]
    state = AgUiState(Goal("thread", "run", message_id="u2"))
    for entry in entries:
        state, events = fold(state, entry)
        page.read(events)
    assert ("Hello", False) == ({each["id"]: each["content"] for each in page.messages}["a1"], page.writing)


def run_in(**more: Any) -> RunIn:
    """Return the input of a run."""
    return RunIn.model_validate({"threadId": "t", "runId": "r", "messages": [], **more})


def test_answers_are_bound_to_what_was_shown() -> None:
    """Without a yes or no nothing is decided; abandoning is a no; what is none of ours names no approval."""
    ours = f"a.{DIGEST}"
    entries = [
        {"interruptId": ours, "status": "resolved", "payload": {"approved": True, "reason": "ok"}},
        {"interruptId": f"b.{DIGEST}", "status": "resolved"},
        {"interruptId": f"c.{DIGEST}", "status": "cancelled"},
        {"interruptId": "x", "status": "resolved", "payload": {"approved": True}},
    ]
    resumed = run_in(resume=entries).resumed()
    assert [("a", True), ("b", None), ("c", False), ("", True)] == [
        (each.approval_id, each.answer and each.answer.approved) for each in resumed
    ]
    assert Answer("a", DIGEST, approved=True, reason="ok") == resumed[0].answer
    with pytest.raises(Refused):
        run_in(resume=[entries[0], entries[0]]).resumed()


@pytest.mark.parametrize("content", ["", None, 7, [], [{"type": "image"}], [{"type": "text", "text": 7}], "a\x00b"])
def test_a_message_that_is_no_text_is_refused(content: Any) -> None:
    """Leaving a picture out would answer something that nobody asked."""
    with pytest.raises(Refused):
        run_in(messages=[{"id": "m", "role": "user", "content": content}]).written()


def test_the_newest_message_of_the_user_is_read() -> None:
    """Whatever the client claims was said after it; a foreign id becomes one of ours, the same each time."""
    texts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    history = [{"id": "msg:1", "role": "user", "content": texts}, {"id": "x", "role": "assistant", "content": "sure"}]
    written = run_in(messages=history).written()
    assert written
    assert ("a\nb", True) == (written.text, written.message_id not in {"", "msg:1"})
    assert written == run_in(messages=history).written()
