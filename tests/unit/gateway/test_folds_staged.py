"""A commit in every dialect: frontends are told what it would do, entry by entry, and not three ids."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from placet.gateway.conversations.items import Item
from placet.gateway.dialects.ag_ui import interrupt_of
from placet.gateway.dialects.ai_sdk import Goal, begin
from placet.gateway.dialects.changes import shown_card
from placet.gateway.dialects.conversation_state import ConversationState, replay
from placet.gateway.dialects.openai import shown_cards, waits_note

CALL: dict[str, Any] = {"turn_id": "t", "arguments": {"path": "a.md"}}
ENTRIES = {"workspace_id": "w", "tree_digest": "0" * 64, "entries": ["c1", "c2"]}


def items() -> list[Item]:
    """Return the log of a turn in which two calls were staged and their commit is proposed."""
    told: list[tuple[str, dict[str, Any]]] = [
        ("message", {"role": "user", "message_id": "m", "text": "Write it."}),
        ("turn", {"state": "started", "turn_id": "t", "message_id": "m"}),
        ("message", {"role": "assistant", "message_id": "a", "turn_id": "t", "step": 1, "text": ""}),
    ]
    for call_id, summary in (("c1", "Create a.md (+1 -0)"), ("c2", "Send a `mail`")):
        told.append(("tool_call", {**CALL, "call_id": call_id, "tool": "write", "status": "proposed"}))
        result = {"kind": "staged", "data": {"summary": summary, "note": "Nothing has happened yet."}}
        told.append(("tool_call", {**CALL, "call_id": call_id, "tool": "write", "status": "success", **result}))
    commit = {"turn_id": "t", "call_id": "c3", "tool": "commit_changes", "arguments": ENTRIES}
    card = {"approval_id": "p", "revision": 1, "summary": "Apply 2", "digest": "d" * 64, "state": "pending"}
    told += [("tool_call", {**commit, "status": "proposed"}), ("approval", {**commit, **card})]
    return [Item(number, kind, "", data) for number, (kind, data) in enumerate(told, 1)]  # type: ignore[arg-type]


def log() -> ConversationState:
    """Return what the log says."""
    state = ConversationState()
    for item in items():
        state.read(item)
    return state


def test_a_card_names_the_staged_entries() -> None:
    """Every dialect shows the same card; an entry that is left out stands on it no more."""
    state = log()
    (call,) = state.waiting
    lines = ["Create a.md (+1 -0)", "Send a `mail`"]
    assert lines == [each["summary"] for each in shown_card(call.card)["staged"]]
    assert lines == [each["summary"] for each in shown_cards([call])[0]["staged"]]
    edited = {"approval_id": "p", "call_id": "c3", "revision": 2, "state": "pending", "turn_id": "t"}
    state.read(Item(99, "approval", "", {**edited, "arguments": {**ENTRIES, "entries": ["c2"]}}))
    assert lines[1:] == [each["summary"] for each in shown_card(state.calls["c3"].card)["staged"]]


def test_a_card_of_a_job_names_what_was_staged_elsewhere() -> None:
    """The log of whoever called the job has the commit alone, which brings its lines along."""
    state = ConversationState()
    lines = [{"call_id": each, "tool": "write", "summary": f"Create {each}.md"} for each in ("c1", "c2")]
    commit = {"turn_id": "t", "call_id": "c3", "tool": "commit_changes", "arguments": ENTRIES, "caller": "job"}
    card = {"approval_id": "p", "revision": 1, "summary": "Apply 2", "digest": "d" * 64, "state": "pending"}
    begun, card_of = items()[:3], {**commit, **card}
    told = [("tool_call", {**commit, "status": "proposed", "entries": lines}), ("approval", card_of)]
    for item in [*begun, *(Item(4 + at, kind, "", data) for at, (kind, data) in enumerate(told))]:  # type: ignore[arg-type]
        state.read(item)
    assert lines == shown_card(state.calls["c3"].card)["staged"]
    assert ["c1", "c2"] == interrupt_of(state.calls["c3"])["responseSchema"]["properties"]["leave_out"]["items"]["enum"]


def test_a_page_of_the_ai_sdk_is_told_the_entries() -> None:
    """In the request and in the part that follows the approval."""
    _, chunks = replay(begin(Goal(message_id="m", newest=9)), items())
    told = [each for each in chunks if each["type"] in {"data-approval", "tool-approval-request"}]
    assert told
    assert all("Create a.md (+1 -0)" in json.dumps(each) for each in told)


def test_an_interrupt_of_ag_ui_offers_to_leave_entries_out() -> None:
    """Its schema names the entries of a commit; of another call nothing can be left out."""
    state = log()
    (call,) = state.waiting
    offered = interrupt_of(call)["responseSchema"]["properties"]
    assert ["c1", "c2"] == offered["leave_out"]["items"]["enum"]
    other = replace(call, card={name: each for name, each in call.card.items() if name != "staged"})
    assert {"approved", "reason"} == set(interrupt_of(other)["responseSchema"]["properties"])


def test_words_about_what_waits_have_a_line_for_each_entry() -> None:
    """As code, so that no entry is read as Markdown."""
    note = waits_note("en", log().waiting, "https://placet.example")
    assert [
        "This waits for approval:",
        "- `Apply 2` https://placet.example/inbox/p",
        "  - `Create a.md (+1 -0)`",
        "  - `Send a 'mail'`",
    ] == note.split("\n")
