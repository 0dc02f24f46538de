"""Events on the wire."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from placet.contracts.messages import (
    COMMIT_TOOL,
    ApprovalRule,
    CommitResult,
    EntryOutcome,
    Message,
    ToolCallFinished,
    ToolCallProposed,
    event_from,
)
from placet.contracts.messages.jobs import ACCOMPLISH_TOOL
from placet.contracts.messages.message import Attributes
from placet.contracts.messages.tool_calls import LEFT_OUT
from placet.contracts.topology import MESSAGES
from placet.runtime.consumer import read_envelope
from tests.builders import a_call, a_posted_message, a_result, an_envelope, an_event


def test_an_event_survives_the_wire() -> None:
    """What is sent is what is read: message, ids and trace."""
    event = an_event(ToolCallProposed(tenant="acme", call=a_call()), causation_id="cause")
    assert event == event_from(json.loads(event.to_json()), MESSAGES)


def test_an_event_is_written_with_every_attribute() -> None:
    """In the order of `Attributes`, then what it carries."""
    written = json.loads(an_event(a_posted_message()).to_json())
    assert [*Attributes.model_fields, "datacontenttype", "data"] == list(written)


def test_one_bad_event_does_not_hide_its_neighbours() -> None:
    """An envelope is read event by event; only the unreadable one is set apart, with its id and a reason."""
    good = an_event(a_posted_message())
    body = b"[" + good.to_json().encode() + b',{"id":"bad","type":"placet.message.posted.v9"}]'
    events, unreadable = read_envelope(body)
    assert ([good.id], ["bad"]) == ([event.id for event in events], [event_id for _, event_id, _ in unreadable])


@pytest.mark.parametrize("data", [b"[" * 250 + b"]" * 250, b'"\\ud800"'], ids=["deep", "surrogate"])
def test_an_event_that_the_reader_cannot_take_hides_no_neighbours(data: bytes) -> None:
    """What is nested too deep, or holds half a character, is set apart with its id."""
    good = an_event(a_posted_message())
    body = b"[" + good.to_json().encode() + b',{"id":"bad","data":' + data + b"}," + good.to_json().encode() + b"]"
    events, unreadable = read_envelope(body)
    assert ([good.id] * 2, ["bad"]) == ([event.id for event in events], [event_id for _, event_id, _ in unreadable])
    assert [True] == [reason.startswith("not JSON: ") for _, _, reason in unreadable]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"[NaN]", b"null", b'"x"', b"[[1]]", b"\xff\xfe", b"[" * 9_999, b"[1,2" + b"[" * 9_999],
    ids=lambda body: repr(body[:8]),
)
def test_garbage_is_unreadable_and_never_raises(body: bytes) -> None:
    """Whatever bytes come, the shell gets a reason instead of an exception."""
    events, unreadable = read_envelope(body)
    assert (events, len(unreadable)) == ([], 1)


@pytest.mark.parametrize("name", ["id", "source", "correlationid", "causationid", "traceparent"])
@pytest.mark.parametrize("text", ["a\x00b", "a\nb", "x" * 257])
def test_attributes_that_nobody_could_keep_make_no_event(name: str, text: str) -> None:
    """A control character, or a text without end, is the sender's mistake and no reader's."""
    event = json.loads(an_event(a_posted_message()).to_json())
    events, unreadable = read_envelope(json.dumps([event | {name: text}]).encode())
    assert ([], [True]) == (events, [name in reason for _, _, reason in unreadable])


def test_an_envelope_of_too_many_events_is_unreadable() -> None:
    """More than 64 events in one envelope break the contract."""
    event = an_event(a_posted_message())
    events, unreadable = read_envelope(an_envelope(*[event] * 65))
    assert (events, len(unreadable)) == ([], 1)


def test_unknown_fields_are_passed_over() -> None:
    """A newer sender's extra field does not break an older reader."""
    raw = json.loads(an_event(a_posted_message(text="hello")).to_json())
    raw["data"]["added_later"] = True
    assert event_from(raw, MESSAGES).message.model_dump()["text"] == "hello"


def test_an_empty_list_of_approvers_is_no_rule() -> None:
    """Nobody may never mean anyone."""
    with pytest.raises(ValidationError):
        ApprovalRule(approvers=[])


@pytest.mark.parametrize("kind", ["succeeded", "failed", "unknown"])
def test_a_result_in_brief_tells_how_the_call_ended(kind: str) -> None:
    """Only what the tool answered is left out, and that is said where there was something."""
    changes = {"kind": kind, "data": ["x"] * 9, "ui_blocks": [{"type": "notice"}], "error": "e", "held": True}
    result = a_result(a_call()).model_copy(update=changes)
    assert result.in_brief() == result.model_copy(update={"data": LEFT_OUT, "ui_blocks": []})
    assert result.model_copy(update={"data": None}).in_brief().data is None


def test_a_commit_in_brief_tells_of_every_entry() -> None:
    """Who waits for the entries hears what became of each."""
    entries = [
        EntryOutcome(call_id=f"c{number}", tool="t", outcome=outcome, summary="s", data="x" * 9_000, error="e" * 4_000)
        for number, outcome in enumerate(("committed", "failed", "unknown"))
    ]
    data = CommitResult(state="partly_committed", entries=entries).model_dump(mode="json")
    brief = a_result(a_call(tool=COMMIT_TOOL)).model_copy(update={"data": data}).in_brief()
    told = CommitResult.model_validate(brief.data)
    assert [(each.call_id, each.outcome) for each in entries] == [(each.call_id, each.outcome) for each in told.entries]
    assert ("partly_committed", LEFT_OUT, True) == (
        told.state,
        told.entries[0].data,
        len(brief.model_dump_json()) < 2_000,
    )


def test_a_job_in_brief_tells_what_it_used() -> None:
    """Budgets count by it."""
    data = {"job_id": "j", "state": "done", "result": "x" * 9_000, "tokens": 7, "cost": 0.5}
    brief = a_result(a_call(tool=ACCOMPLISH_TOOL)).model_copy(update={"data": data}).in_brief()
    assert data | {"result": LEFT_OUT} == brief.data


def test_what_a_message_asks_for_is_never_left_out() -> None:
    """Of the messages only a result has a shorter form: a call without its arguments would be another one."""
    assert [ToolCallFinished] == [kind for kind in MESSAGES.values() if kind.in_brief is not Message.in_brief]
