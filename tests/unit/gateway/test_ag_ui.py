"""AG-UI's events are made of moves, and its messages are made of the very events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.dialects.ag_ui import AgUi, Event, finished, interrupt_of
from services.gateway.dialects.ag_ui_posted import RunIn
from services.gateway.dialects.posted import Answer
from services.gateway.dialects.reader import Reader, Said
from shared.errors import Refused
from tests.unit.gateway.test_moves import END, Item, card, closed, delta, proposed, result, said

START: Item = ("turn", {"turn_id": "t", "state": "started"})
ASKED: Item = ("message", {"role": "user", "message_id": "u", "text": "deploy it"})
DIGEST = "d" * 64


def events_of(items: list[Item], writer: AgUi | None = None, reader: Reader | None = None) -> list[Event]:
    """Return the events of a thread's items, with everything closed at the end."""
    writer, reader = writer or AgUi(), reader or Reader()
    made = [event for item in items for told in reader.read(*item) for event in writer.events(told.move)]
    return [*made, *writer.end()]


def types(events: list[Event]) -> list[str]:
    """Return the types of events, but for the state's."""
    return [event["type"] for event in events if event["type"] != "STATE_DELTA"]


def follows_the_rules(events: list[Event]) -> bool:
    """Whether nothing is told of what is not open, nothing opens twice, and everything is closed."""
    opened: set[tuple[str, str]] = set()
    names = {"TEXT_MESSAGE": "messageId", "TOOL_CALL": "toolCallId", "STEP": "stepName"}
    for event in events:
        subject = next((name for name in names if event["type"].startswith(name)), "")
        what = (subject, event.get(names.get(subject, ""), ""))
        match event["type"].removeprefix(subject):
            case "_START" | "_STARTED":
                assert what not in opened
                opened.add(what)
            case "_CONTENT" | "_ARGS" if subject:
                assert what in opened
            case "_END" | "_FINISHED" if subject:
                opened.remove(what)
    return not opened


def test_a_turn_is_a_step_with_a_text_a_call_and_its_result() -> None:
    """Calls belong to the message beside them, and a result is told once."""
    items = [START, said("Deploying."), proposed(), result(), said("Done.", "m2"), END]
    events = events_of(items)
    text = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
    call = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"]
    step = ["STEP_STARTED", "STEP_FINISHED"]
    assert [step[0], *text, *call, step[1], step[0], *text, step[1]] == types(events)
    assert ["m"] == [event["parentMessageId"] for event in events if event["type"] == "TOOL_CALL_START"]


@given(st.permutations([delta("Deploy"), delta("ing.", 6), said("Deploying."), proposed(), card(), closed(), result()]))
def test_whatever_order_items_come_in_the_events_follow_the_rules(items: list[Item]) -> None:
    """Queues may swap items; AG-UI's order holds all the same."""
    assert follows_the_rules(events_of([START, *items, END]))


@given(st.integers(0, 8))
def test_a_run_that_joins_later_tells_the_rest_and_nothing_twice(joined: int) -> None:
    """Snapshots and what comes after them make the same messages, wherever a run joins."""
    items = [ASKED, START, said("Deploying."), proposed(), card(), closed(), result(), said("Done.", "m2"), END]
    writer, reader = AgUi(), Reader()
    events_of(items[:joined], writer, reader)
    first = list(writer.snapshots([]))
    rest = events_of(items[joined:], writer, reader)
    whole = AgUi()
    events_of(items, whole)
    assert follows_the_rules(rest)
    assert ["STATE_SNAPSHOT"] == [event["type"] for event in first if event["type"].startswith("STATE")]
    assert next(whole.snapshots([]))["messages"] == next(writer.snapshots([]))["messages"]


def test_edited_arguments_replace_the_calls_message() -> None:
    """A call cannot be streamed twice, so the messages are told again with what would run now."""
    events = events_of([START, proposed(), card(), card(revision=2, arguments={"v": 2})])
    (snapshot,) = [event for event in events if event["type"] == "MESSAGES_SNAPSHOT"]
    assert '{"v":2}' == snapshot["messages"][0]["toolCalls"][0]["function"]["arguments"]
    assert 1 == types(events).count("TOOL_CALL_START")


def test_a_late_result_is_told_by_its_own_turn() -> None:
    """A call that its turn went on without has its result in a later one, beside the words about it."""
    later = ("turn", {"turn_id": "t2", "state": "started"})
    word = ("message", {"role": "assistant", "turn_id": "t2", "message_id": "m2", "text": "It is there."})
    writer, reader = AgUi(), Reader()
    events_of([START, proposed(), card(), END], writer, reader)
    waiting, quiet = list(reader.waiting), reader.quiet
    events = events_of([closed(), result(), later, word], writer, reader)
    assert (["k"], True, False) == (waiting, quiet, reader.quiet)
    assert ["TOOL_CALL_RESULT", "STEP_STARTED"] == [kind for kind in types(events) if kind[:4] in {"TOOL", "STEP"}][:2]


def test_the_state_does_not_grow_with_the_conversation() -> None:
    """What an earlier turn is done with is forgotten when the next one says something."""
    writer, reader = AgUi({"cart": [1]}), Reader()
    events_of([START, proposed("a"), result("a"), proposed("b"), card("b"), END], writer, reader)
    word = ("message", {"role": "assistant", "turn_id": "t2", "message_id": "m2", "text": "Hm."})
    events_of([("turn", {"turn_id": "t2", "state": "started"}), word], writer, reader)
    state = list(writer.snapshots([]))[-1]["snapshot"]
    assert ([1], ["b"], {}) == (state["cart"], list(state["placet"]["calls"]), state["placet"]["turn"])


def test_how_far_a_call_is_stands_in_the_state_until_it_ends() -> None:
    """What a tool says meanwhile is told; said too late, or of a call that nobody knows, it is passed over."""
    half: Item = ("progress", {"call_id": "k", "tool": "deploy", "text": "Half.", "fraction": 0.5, "attempt": 1})
    assert {"text": "Half.", "fraction": 0.5} == stands([START, half, proposed(), half])["progress"]
    assert ["tool", "status", "result"] == list(stands([START, proposed(), result(), half]))


def stands(items: list[Item]) -> dict[str, Any]:
    """Return how the one call stands that items are about."""
    deltas = [event["delta"][0] for event in events_of(items) if event["type"] == "STATE_DELTA"]
    found: dict[str, Any] = deltas[-1]["value"]
    return found


def test_an_operators_words_are_a_message_with_their_name() -> None:
    """Also while the model speaks; who answers stands in the state."""
    author = {"kind": "operator", "id": "person:ada"}
    spoke: Item = ("message", {"role": "operator", "message_id": "o", "text": "Hi.", "author": author})
    writer = AgUi()
    events = events_of([START, delta("One"), spoke, said("One two"), END], writer)
    (changed,) = writer.hold({"state": "operator", "operator": "person:ada", "text": "You talk to ada.", "by": "ada"})
    messages, state = writer.snapshots([])
    assert follows_the_rules(events)
    assert [("One two", None), ("Hi.", "ada")] == [(m["content"], m.get("name")) for m in messages["messages"]]
    holder = {"state": "operator", "operator": "person:ada", "text": "You talk to ada."}
    assert [holder, holder] == [changed["delta"][0]["value"], state["snapshot"]["placet"]["holder"]]


def test_messages_are_told_only_where_the_client_lacks_some() -> None:
    """Who has them gets none; a card is never posted, so who may have an old one gets them."""
    writer = AgUi()
    events_of([ASKED, START, said("Hello.")], writer)
    have = [{"id": "u", "role": "user", "content": "deploy it"}, {"id": "m", "role": "assistant", "content": "Hello."}]
    assert ["STATE_SNAPSHOT"] == [event["type"] for event in writer.snapshots(have)]
    assert ["MESSAGES_SNAPSHOT", "STATE_SNAPSHOT"] == [event["type"] for event in writer.snapshots(have[:1])]
    events_of([proposed(), card()], writer)
    assert "MESSAGES_SNAPSHOT" == next(writer.snapshots(have))["type"]


def test_a_message_of_somebody_else_is_the_users() -> None:
    """What another page writes is told like any other text, with its role."""
    events = list(AgUi().events(Said("u", "hello")))
    assert ["user", "hello"] == [events[0]["role"], events[1]["delta"]]


def approval(**more: Any) -> dict[str, Any]:
    """Return a row of an approval that waits."""
    row = {"approval_id": "a", "digest": DIGEST, "summary": "Deploy?", "call_id": "k", "reason": "by rule", "rule": "r"}
    return {**row, "expires_at": datetime(2030, 1, 1, tzinfo=UTC), "paused_at": None, **more}


def test_an_interrupt_names_what_is_shown_and_until_when() -> None:
    """Its id has the digest; a clock that stands still names no end."""
    asked, paused = interrupt_of(approval()), interrupt_of(approval(paused_at=datetime(2029, 1, 1, tzinfo=UTC)))
    assert (f"a.{DIGEST}", "2030-01-01T00:00:00+00:00") == (asked["id"], asked["expiresAt"])
    assert "expiresAt" not in paused


@pytest.mark.parametrize(
    ("turn", "waits", "modern", "expected"),
    [
        ({}, False, True, ["RUN_FINISHED success"]),
        ({"state": "finished"}, True, True, ["RUN_FINISHED interrupt"]),
        ({"state": "failed", "reason": "no"}, False, True, ["RUN_ERROR None"]),
        ({"state": "failed", "reason": "no"}, True, True, ["RUN_FINISHED interrupt"]),
        ({}, True, False, ["CUSTOM None", "RUN_FINISHED None"]),
        ({}, False, False, ["RUN_FINISHED None"]),
    ],
)
def test_how_a_run_ends(turn: dict[str, str], waits: bool, modern: bool, expected: list[str]) -> None:  # noqa: FBT001 - a table's columns
    """Asking goes before failing; old clients get no outcome."""
    events = finished("t", "r", turn, [interrupt_of(approval())] if waits else [], modern=modern)
    assert expected == [f"{event['type']} {event.get('outcome', {}).get('type')}" for event in events]


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
    message_id, text = run_in(messages=history).written() or ("", "")
    assert ("a\nb", True) == (text, message_id not in {"", "msg:1"})
    assert (message_id, text) == run_in(messages=history).written()
