"""The AI SDK's stream as a fold: whatever the agent's log tells, and however its pieces of text come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from time import thread_time
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.contracts.errors import Refused
from placet.gateway.conversations.items import Delta, Item
from placet.gateway.dialects.ai_sdk import AiSdkState, Goal, begin
from placet.gateway.dialects.ai_sdk_history import history
from placet.gateway.dialects.ai_sdk_posted import UiMessage
from placet.gateway.dialects.conversation_state import ConversationState, Entry, fold, replay
from tests.support.ai_sdk_page import Page
from tests.support.conversation_logs import AT, Conversation, conversations

Version = Literal["6", "7"]
VERSIONS = st.sampled_from(["6", "7"])
#: No item has this number: a stream that waits for it tells everything.
NEVER = 10**9


def told(state: AiSdkState, entries: list[Entry], page: Page) -> tuple[AiSdkState, list[Entry]]:
    """Show a stream to a page until its end; return its state, and the entries that came after."""
    for number, entry in enumerate(entries):
        if state.done:
            return state, entries[number:]
        state, chunks = fold(state, entry)
        page.read(chunks)
    return state, []


def asked(conversation: Conversation, goal: Goal, after: int) -> tuple[AiSdkState, list[Any], list[Entry]]:
    """Return a stream that is asked for after so many entries: its state, its first chunks, and what comes then."""
    before, coming = conversation.entries[:after], conversation.entries[after:]
    items = [entry for entry in before if isinstance(entry, Item)]
    state, chunks = replay(begin(replace(goal, newest=items[-1].id if items else 0)), items)
    return state, chunks, coming


def place_of(conversation: Conversation, message_id: str) -> int:
    """Return the place of a user's message among the entries."""
    found = (
        at
        for at, entry in enumerate(conversation.entries)
        if isinstance(entry, Item) and entry.type == "message" and entry.data["message_id"] == message_id
    )
    return next(found)


def log_of(conversation: Conversation) -> ConversationState:
    """Return what the whole log says."""
    log = ConversationState()
    for item in conversation.items:
        log.read(item)
    return log


def texts(items: list[Item], reply_id: str) -> list[str]:
    """Return what the model says in a reply, as the log has it."""
    log, found = ConversationState(), []
    for item in items:
        turn = log.turns.get(item.data.get("turn_id", ""))
        words = item.data if item.type == "message" and item.data["role"] == "assistant" else {}
        if turn and turn.reply_id == reply_id and words.get("text") and not words.get("while_waiting"):
            found.append(words["text"])
        log.read(item)
    return found


def whole(page: Page, expected: list[str]) -> list[Any]:
    """Return what a page shows but for attempts that the model gave up, and steps in which nothing else was said."""
    kept = [part for part in page.shown if part["type"] != "text" or part["text"] in expected]
    steps = [part["type"] == "step-start" for part in kept] + [True]
    return [part for at, part in enumerate(kept) if not (steps[at] and steps[at + 1])]


def spoken(page: Page, expected: list[str]) -> list[str]:
    """Return the texts of a page but for attempts that were given up."""
    return [part["text"] for part in page.shown if part["type"] == "text" and part["text"] in expected]


@given(conversations(), VERSIONS, st.data())
def test_a_stream_is_what_the_sdk_reads_and_ends_in_time(
    conversation: Conversation, version: Version, data: st.DataObject
) -> None:
    """Every chunk fits the one before, no text is lost, and it ends as soon as its answer waits or is over."""
    message_id = data.draw(st.sampled_from(conversation.messages))
    page = Page(version)
    state, chunks, coming = asked(
        conversation, Goal(version, message_id=message_id), place_of(conversation, message_id)
    )
    page.read(chunks)
    state, _ = told(state, coming, page)
    reply_id = log_of(conversation).replies.get(message_id, "")
    mine = {each for each, reply in log_of(conversation).replies.items() if reply == reply_id}
    if state.done and state.reply_id:
        expected = texts(conversation.items[: state.log.seq], state.reply_id)
        live = next(each for seq, each in conversation.live.items() if seq >= state.log.seq and each is not None)
        page.validate()
        assert (set(), True, expected) == (mine & live, page.ended, spoken(page, expected))
    elif not state.done:
        assert not (conversation.rests and reply_id)


@given(conversations(), VERSIONS, st.data())
def test_a_page_that_resumes_anywhere_shows_what_the_other_one_shows(
    conversation: Conversation, version: Version, data: st.DataObject
) -> None:
    """Cut off at any entry, the replay and what comes then make the same message, up to the pieces of its texts."""
    message_id = data.draw(st.sampled_from(conversation.messages))
    at = place_of(conversation, message_id)
    uncut, resumed = Page(version), Page(version)
    state, chunks, coming = asked(conversation, Goal(version, message_id=message_id), at)
    end, rest = told(state, coming, uncut.read(chunks))
    cut = data.draw(st.integers(at, len(conversation.entries) - len(rest)))
    again, chunks, coming = asked(conversation, Goal(version, message_id=message_id), cut)
    again, _ = told(again, coming, resumed.read(chunks))
    if end.done and end.reply_id:
        expected = texts(conversation.items[: end.log.seq], end.reply_id)
        assert (True, end.log.seq) == (again.done, again.log.seq)
        assert (uncut.message_id, whole(uncut, expected)) == (resumed.message_id, whole(resumed, expected))


@given(conversations(), st.data())
def test_what_was_streamed_is_what_is_loaded(conversation: Conversation, data: st.DataObject) -> None:
    """The history is made of items alone, and shows what the stream showed, with every decision valid."""
    replies = list(dict.fromkeys(log_of(conversation).replies.values()))
    reply_id = data.draw(st.sampled_from(replies))
    live = Page("7")
    told(begin(Goal("7", reply_id, newest=NEVER)), conversation.entries, live)
    (message,) = [each for each in history(conversation.items) if each["id"] == reply_id]
    loaded = Page("7", message)
    loaded.validate()
    expected = texts(conversation.items, reply_id)
    assert (whole(live, expected), expected) == (whole(loaded, expected), spoken(loaded, expected))


@given(conversations(), VERSIONS, st.data())
def test_a_page_that_answers_is_left_with_no_answer_open(
    conversation: Conversation, version: Version, data: st.DataObject
) -> None:
    """Each answered request ends with an output, or is asked again: what stays answered is posted for ever."""
    message_id = data.draw(st.sampled_from(conversation.messages))
    page = Page(version)
    at = place_of(conversation, message_id)
    state, chunks, coming = asked(conversation, Goal(version, message_id=message_id), at)
    state, rest = told(state, coming, page.read(chunks))
    requested = [part for part in page.calls.values() if part["state"] == "approval-requested"]
    if not (state.done and requested):
        return
    ends = {item.data.get("approval_id"): item.data["state"] for item in conversation.items if item.type == "approval"}
    for part in requested:
        approved = ends[part["approval"]["id"]] == "approved" or data.draw(st.booleans())
        part |= {"state": "approval-responded", "approval": {**part["approval"], "approved": approved}}
    posted = UiMessage.model_validate(page.message())
    decided = frozenset(each.approval_id for each in posted.answers() if ends[each.approval_id] != "pending")
    goal = Goal(version, state.reply_id, seen=posted.seen(), decided=decided)
    more = Page(version, page.message())
    state, chunks, coming = asked(conversation, goal, len(conversation.entries) - len(rest))
    state, _ = told(state, coming, more.read(chunks))
    if state.done:
        expected = texts(conversation.items[: state.log.seq], state.reply_id)
        more.validate(decided_elsewhere=version == "6")
        assert "approval-responded" not in {part["state"] for part in more.calls.values()}
        assert (True, expected) == (more.ended, spoken(more, expected))


def numbered(told: Iterable[dict[str, Any] | Entry]) -> Iterator[Entry]:
    """Return entries of the turn t1: items with their numbers, and what is an entry already as it is."""
    number = 0
    for each in told:
        if isinstance(each, dict):
            number += 1
            kind: Any = each["is"]
            yield Item(number, kind, AT, {"turn_id": "t1"} | {name: each[name] for name in each if name != "is"})
        else:
            number = each.id if isinstance(each, Item) else number
            yield each


def told_one_by_one(*told: dict[str, Any]) -> tuple[AiSdkState, list[str]]:
    """Stream items to a page of the message u1; return the state, and the types of its chunks."""
    state, kinds = begin(Goal("7", message_id="u1")), list[str]()
    for entry in numbered(told):
        state, chunks = fold(state, entry)
        kinds += [chunk["type"] for chunk in chunks]
    return state, kinds


def spoke(step: int) -> dict[str, Any]:
    """Return the item of what the model said."""
    return {"is": "message", "role": "assistant", "message_id": f"m{step}", "step": step, "text": f"Well {step}."}


def call(call_id: str, tool: str, status: str, **more: Any) -> dict[str, Any]:
    """Return an item of a call."""
    return {"is": "tool_call", "call_id": call_id, "tool": tool, "status": status, "arguments": {}, **more}


def card(call_id: str, state: str) -> dict[str, Any]:
    """Return an item of a call's card."""
    shown = {"approval_id": f"a-{call_id}", "digest": "0" * 64, "revision": 1, "reason": ""}
    return {"is": "approval", "call_id": call_id, "state": state, **shown}


WRITTEN: dict[str, Any] = {"is": "message", "role": "user", "message_id": "u1", "text": "Do it."}
STARTED: dict[str, Any] = {"is": "turn", "state": "started", "message_id": "u1"}


def test_a_late_outcome_that_its_turn_did_not_hear_of_keeps_the_stream() -> None:
    """The turn that ends begins another one for it: the page that decided hears what came of its call."""
    made = [spoke(1), call("k1", "deploy", "proposed"), card("k1", "pending")]
    late = [card("k1", "approved"), call("k1", "deploy", "success", kind="succeeded", data=1)]
    ended = {"is": "turn", "state": "failed", "idle": False, "reason": "No model answered."}
    went_on = {"is": "turn", "state": "continued", "step": 2}
    state, _ = told_one_by_one(dict(WRITTEN), dict(STARTED), *made, went_on, *late, ended)
    assert not state.done


def of_turn(turn_id: str, *told: dict[str, Any]) -> list[dict[str, Any]]:
    """Return items of another turn."""
    return [each | {"turn_id": turn_id} for each in told]


PAUSED: dict[str, Any] = {"is": "turn", "state": "paused"}
OTHER_WRITTEN = WRITTEN | {"message_id": "u2"}


@pytest.mark.parametrize(
    ("next_one", "expected"), [(PAUSED, True), (STARTED | {"state": "continued", "step": 3}, False)]
)
def test_a_late_outcome_in_a_turn_that_waits_keeps_the_stream_until_that_turn_has_said_what_it_does(
    next_one: dict[str, Any],
    expected: bool,  # noqa: FBT001 - a table's column
) -> None:
    """It goes on for the outcome, whose words the deciding page is told; or it waits on, and so does what is said."""
    made = [spoke(1), call("k1", "deploy", "proposed"), card("k1", "pending"), PAUSED]
    other = [OTHER_WRITTEN, STARTED | {"state": "continued", "message_id": "u2", "step": 2}, spoke(2)]
    other += [call("k2", "transfer", "proposed"), card("k2", "pending"), PAUSED, card("k1", "approved"), PAUSED]
    answered = call("k1", "deploy", "success", kind="succeeded", data=1)
    items = [each for each in numbered([WRITTEN, STARTED, *made, *other, answered, next_one]) if isinstance(each, Item)]
    goal = Goal("7", message_id="u1", newest=len(items) - 2, decided=frozenset({"a-k1"}))
    ends = [replay(begin(goal), items[:length])[0].done for length in (len(items) - 1, len(items))]
    assert [False, expected] == ends


def test_a_message_that_waits_for_what_was_just_decided_keeps_its_stream_until_its_answer() -> None:
    """The agent read it before it heard of the decision; nobody else has to act."""
    made = [spoke(1), call("k1", "deploy", "proposed"), card("k1", "pending"), PAUSED, OTHER_WRITTEN | {"waits": True}]
    late = [card("k1", "approved"), call("k1", "deploy", "success", kind="succeeded", data=1), spoke(2)]
    other = of_turn("t2", STARTED | {"message_id": "u2"}, spoke(1) | {"message_id": "m3"})
    ends: list[dict[str, Any]] = [{"is": "turn", "state": "finished", "idle": False}, *other]
    ends += of_turn("t2", {"is": "turn", "state": "finished", "idle": True})
    items = [each for each in numbered([WRITTEN, STARTED, *made, *late, *ends]) if isinstance(each, Item)]
    for decided, expected in (("", 7), ("a-k1", len(items))):
        goal = Goal("7", message_id="u2", newest=6, decided=frozenset({decided}))
        done = (number for number in range(len(items) + 1) if replay(begin(goal), items[:number])[0].done)
        assert expected == next(done)


@pytest.mark.parametrize("idle", [True, False])
def test_a_late_outcome_behind_its_turn_keeps_the_stream_where_another_turn_goes_on_with_it(
    idle: bool,  # noqa: FBT001 - a table's column
) -> None:
    """The other turn waits for people: its log says whether it waits on."""
    made = [spoke(1), call("k1", "deploy", "proposed"), card("k1", "pending"), STARTED | {"state": "finished"}]
    held = [spoke(2), call("k2", "transfer", "proposed"), card("k2", "pending"), PAUSED]
    other = of_turn("t2", OTHER_WRITTEN, STARTED | {"message_id": "u2"}, *held)
    late = [card("k1", "approved"), call("k1", "deploy", "success", kind="succeeded", data=1, idle=idle)]
    items = [each for each in numbered([WRITTEN, STARTED, *made, *other, *late]) if isinstance(each, Item)]
    assert idle == replay(begin(Goal("7", message_id="u1", newest=len(items))), items)[0].done


@pytest.mark.parametrize(("state", "kind"), [("finished", "finish"), ("failed", "data-failure")])
def test_a_turn_says_which_limit_ended_it(state: str, kind: str) -> None:
    """By its name, not in words alone: a page may offer to go on."""
    ended = {"is": "turn", "state": state, "idle": True, "open": [], "reason": "All used.", "limit": "steps"}
    items = [each for each in numbered([dict(WRITTEN), dict(STARTED), spoke(1), ended]) if isinstance(each, Item)]
    _, chunks = replay(begin(Goal("7", message_id="u1")), items)
    (chunk,) = (each for each in chunks if each["type"] == kind)
    told = chunk["messageMetadata"] if kind == "finish" else chunk["data"]
    assert ("steps", "All used.") == (told["limit"], told["reason"])


@pytest.mark.parametrize("version", ["6", "7"])
def test_a_stop_is_over_when_its_reply_is(version: Any) -> None:
    """A call has its result before its card is over: until then the reply is told again to who asks for another one."""
    made = [spoke(1), call("k1", "deploy", "proposed"), card("k1", "pending")]
    ends = [
        call("k1", "deploy", "error", kind="cancelled", error="Stopped."),
        {"is": "turn", "state": "stopped", "idle": True, "reason": "Stopped by visitor:v."},
        card("k1", "withdrawn"),
    ]
    told = numbered([dict(WRITTEN), dict(STARTED), *made, *ends])
    items = [each for each in told if isinstance(each, Item)]
    states = [replay(begin(Goal(version, message_id="u1")), items[:length])[0] for length in range(6, len(items) + 1)]
    assert [(False, False), (False, False), (True, True)] == [(each.log.withdrew("t1"), each.done) for each in states]


def test_a_card_of_a_job_that_is_over_keeps_no_step_from_beginning() -> None:
    """Nobody is asked any more, although its withdrawal comes later; loaded again, the message has the same steps."""
    made = [spoke(1), call("k1", "accomplish", "proposed"), call("k2", "deploy", "proposed", caller="k1")]
    over = [card("k2", "pending"), call("k1", "accomplish", "error", kind="failed", error="Cancelled.")]
    _, kinds = told_one_by_one(dict(WRITTEN), dict(STARTED), *made, *over, spoke(2))
    assert 3 == kinds.count("start-step")


def test_a_text_that_the_model_gave_up_hides_no_later_one() -> None:
    """The page shows it, no log has it, and what the model says after the decision is told all the same."""
    given_up = Delta("t1", 1, "m1", 0, "Not this")
    silent = spoke(1) | {"text": ""}
    made: list[dict[str, Any] | Entry] = [WRITTEN, STARTED, given_up, silent, call("k1", "deploy", "proposed")]
    page, state = Page("7"), begin(Goal("7", message_id="u1"))
    items = list(numbered([*made, card("k1", "pending"), {"is": "turn", "state": "paused"}]))
    state, _ = told(state, items, page)
    assert (True, ["Not this"]) == (state.done, [part["text"] for part in page.shown if part["type"] == "text"])
    (asked_for,) = page.calls.values()
    asked_for |= {"state": "approval-responded", "approval": {**asked_for["approval"], "approved": True}}
    more = Page("7", page.message())
    goal = Goal("7", "t1", newest=NEVER, seen=UiMessage.model_validate(page.message()).seen())
    after = [card("k1", "approved"), call("k1", "deploy", "success", kind="succeeded", data=1), spoke(2)]
    stored = [each for each in items if isinstance(each, Item)]
    told(begin(goal), list(numbered([*stored, *after, {"is": "turn", "state": "finished"}])), more)
    assert ["Not this", "Well 2."] == [part["text"] for part in more.shown if part["type"] == "text"]


def test_an_edited_call_that_is_shown_is_not_made_anew_in_a_later_step() -> None:
    """A job asked in a step of its own behind it: told again, the SDK would take the call for another one."""
    page, state = Page("7"), begin(Goal("7", message_id="u1"))
    made = [WRITTEN, STARTED, spoke(1), call("j1", "accomplish", "proposed"), call("k1", "deploy", "proposed")]
    edited = card("k1", "pending") | {"arguments": {"v": 1}, "digest": "1" * 64, "revision": 2}
    shown = [card("k1", "pending") | {"arguments": {}}, edited]
    in_job = [call("k2", "deploy", "proposed", caller="j1"), card("k2", "pending"), {"is": "turn", "state": "paused"}]
    items = list(numbered([*made, *shown, *in_job]))
    state, _ = told(state, items, page)
    assert (True, {"v": 1}, 2) == (state.done, page.calls["k1"]["input"], len([*steps_of(page)]))
    for part in (page.calls["k1"], page.calls["k2"]):
        part |= {"state": "approval-responded", "approval": {**part["approval"], "approved": True}}
    posted = UiMessage.model_validate(page.message())
    more = Page("7", page.message())
    told(begin(Goal("7", "t1", newest=NEVER, seen=posted.seen())), items, more)
    assert ["j1", "k1", "k2"] == [part["toolCallId"] for part in more.shown if part["type"] == "dynamic-tool"]
    assert {"v": 1} == more.calls["k1"]["input"]


def steps_of(page: Page) -> Iterator[dict[str, Any]]:
    """Yield the beginnings of a page's steps."""
    return (part for part in page.shown if part["type"] == "step-start")


def test_many_answers_beside_many_parts_are_read_in_time() -> None:
    """What is shown beside the answers is gone through once, and not for each of them: 4 s for one body."""
    answered = {"state": "approval-responded", "toolCallId": "call", "approval": {"approved": True, "id": "a"}}
    card = {"type": "data-approval", "id": "a", "data": {"digest": "d" * 64}}
    parts = [{**answered, "toolCallId": f"call-{number}"} for number in range(1_900)]
    message = UiMessage.model_validate({"role": "assistant", "parts": [*parts, *[{}] * 45_000, card]})
    begun = thread_time()
    assert {"a": "d" * 64} == message.seen().requested
    with pytest.raises(Refused):
        message.answers()
    assert thread_time() - begun < 1.0


@pytest.mark.parametrize(
    ("version", "state", "expected"), [("6", "denied", False), ("6", "approved", True), ("7", "denied", True)]
)
def test_a_no_is_told_again_only_to_who_can_hear_it(
    version: Version,
    state: str,
    expected: bool,  # noqa: FBT001 - a table's column
) -> None:
    """Version 6 has no chunk for it, and would put an error in the place of what the history said."""
    made = [WRITTEN, STARTED, spoke(1), call("k1", "deploy", "proposed"), card("k1", "pending"), card("k1", state)]
    items = [each for each in numbered([*made, call("k1", "deploy", "error", kind=state)]) if isinstance(each, Item)]
    again, _ = replay(begin(Goal(version, message_id="u1")), items)
    assert expected == again.is_tellable
