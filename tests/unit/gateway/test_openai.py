"""OpenAI's dialects as pure code: what is read of a request, and what is written of a turn."""

from __future__ import annotations

from typing import Any

import pytest

from services.gateway.api.openai_errors import openai_error
from services.gateway.dialects.moves import Move
from services.gateway.dialects.openai_chat import ChatWriter
from services.gateway.dialects.openai_ids import (
    ResponseId,
    parse_request_id,
    parse_response_id,
    request_id,
)
from services.gateway.dialects.openai_posted import ChatCompletionIn, ResponseIn, conversation_named
from services.gateway.dialects.openai_responses import ResponseWriter
from services.gateway.dialects.openai_words import waits_note
from services.gateway.dialects.posted import Answer
from services.gateway.dialects.talk import Talk
from shared.errors import Refused
from tests.unit.gateway.test_moves import END, Item, closed, delta, proposed, result, said
from tests.unit.gateway.test_moves import card as plain_card

DIGEST = "ab" * 32
STARTED: Item = ("turn", {"turn_id": "t", "state": "started", "message_id": "u"})
USER: Item = ("message", {"role": "user", "message_id": "u", "text": "deploy"})


def card(call: str = "k", **more: Any) -> Item:
    """Return the item of an approval that waits."""
    return plain_card(call, digest=DIGEST, tool="deploy", summary="Deploy it?", turn_id="t", **more)


def heard(talk: Talk, items: list[Item], first: int = 1) -> list[Move]:
    """Return the news of items that are numbered from `first` on."""
    return [move for number, item in enumerate(items, first) for move in talk.read(*item, number)]


def a_writer(talk: Talk) -> ResponseWriter:
    """Return a writer of a response."""
    return ResponseWriter("resp_0_1_c", "default", "c", 0, talk.calls)


def a_response(**fields: Any) -> ResponseIn:
    """Return what a client posted."""
    return ResponseIn.model_validate(fields)


def a_completion(messages: list[Any], **fields: Any) -> ChatCompletionIn:
    """Return what a client posted."""
    return ChatCompletionIn.model_validate({"model": "default", "messages": messages, **fields})


# --- what is news -------------------------------------------------------------------------------------------------


def test_what_was_told_is_read_in_silence_and_not_told_again() -> None:
    """News begin after the last item that the client knows, and are about calls from before."""
    talk = Talk(told=3)
    items = [STARTED, proposed(), card(), closed(), result(), END]
    assert ["CardMoved", "CallAnswered", "StepEnded", "TurnEnded"] == [
        type(move).__name__ for move in heard(talk, items)
    ]
    assert ("deploy", {"v": 1}, True) == (talk.calls["k"].tool, talk.calls["k"].arguments, talk.calls["k"].answered)


def test_a_talk_rests_when_its_turn_is_over_or_people_are_asked() -> None:
    """Neither before the message was read nor while a call may still run; whether it was heard the agent knows."""
    talk = Talk(told=0, posted=1, newest=1)
    seen = [talk.rests]
    for number, item in enumerate([USER, STARTED, proposed(), card(), closed(), result(), END], 1):
        heard(talk, [item], number)
        seen.append(talk.rests)
    assert ([False, True, False, False, True, False, False, True], "u") == (seen, talk.message_id)


def test_a_decision_is_waited_for_until_its_call_has_its_result() -> None:
    """The feed may still show the card as waiting when the decision was made."""
    talk = Talk(told=0, decided={"a-k"})
    seen = []
    for number, item in enumerate([STARTED, proposed(), card(), closed(), result(), END], 1):
        heard(talk, [item], number)
        seen.append(talk.rests)
    assert [False, False, False, False, False, True] == seen


def test_a_call_that_runs_behind_its_turn_keeps_nothing() -> None:
    """The model went on without it: once decided it is open, and nobody waits for it."""
    talk = Talk(told=0)
    heard(talk, [STARTED, proposed(), card(), END])
    waits = (talk.rests, talk.reader.overdue, talk.reader.settled)
    heard(talk, [closed()], 5)
    assert ((True, [], True), (True, ["k"], False)) == (
        waits,
        (talk.rests, talk.reader.overdue, talk.reader.settled),
    )


def test_a_retrieved_response_ends_where_the_user_wrote_again() -> None:
    """What follows belongs to another response."""
    talk = Talk(told=0, posted=1)
    items = [USER, STARTED, said("Hi"), END, USER, STARTED]
    assert [5] == [number for number, item in enumerate(items, 1) if talk.is_next(*item, number)]


# --- Responses ----------------------------------------------------------------------------------------------------


def test_events_are_numbered_and_in_the_order_of_the_wire() -> None:
    """A text has a message with one part; a held call is a request; the result is a call with its arguments."""
    talk = Talk(told=0)
    writer = a_writer(talk)
    moves = heard(talk, [STARTED, delta("Hi"), said("Hi"), proposed(), card(), closed(), result(), END])
    events = [*writer.begin(), *(event for move in moves for event in writer.events(move)), *writer.end([])]
    assert list(range(len(events))) == [event["sequence_number"] for event in events]
    assert [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "output_item.done",
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.completed",
        "output_item.done",
        "completed",
    ] == [event["type"].removeprefix("response.") for event in events]
    output = events[-1]["response"]["output"]
    assert ["message", "mcp_approval_request", "mcp_call"] == [item["type"] for item in output]
    assert output[1]["id"] == output[2]["approval_request_id"] == f"mcpr_a-k_{DIGEST}"
    assert ('{"v":1}', "1") == (output[2]["arguments"], output[2]["output"])


def test_a_request_is_told_once_for_each_version_of_its_call() -> None:
    """A claim changes nothing; an edit is another call to approve."""
    talk = Talk(told=0)
    writer = a_writer(talk)
    edited = card(revision=3, arguments={"v": 2})[1] | {"digest": "cd" * 32}
    moves = heard(talk, [STARTED, proposed(), card(), card(revision=2), ("approval", edited)])
    for move in moves:
        list(writer.events(move))
    output = writer.response("in_progress")["output"]
    assert ['{"v":1}', '{"v":2}'] == [item["arguments"] for item in output]


def test_a_call_that_did_not_succeed_is_a_failed_one_with_its_kind() -> None:
    """Whatever the ending: an error in words, and the kind beside it."""
    talk = Talk(told=0)
    writer = a_writer(talk)
    for move in heard(talk, [STARTED, proposed(), result(kind="unknown")]):
        list(writer.events(move))
    (item,) = writer.response("completed")["output"]
    assert ("failed", None, "unknown") == (item["status"], item["output"], item["placet"]["kind"])
    assert item["error"]


def test_a_failed_turn_is_a_failed_response() -> None:
    """Its reason is the error's message."""
    talk = Talk(told=0)
    writer = a_writer(talk)
    for move in heard(talk, [STARTED, ("turn", {"turn_id": "t", "state": "failed", "reason": "no model"})]):
        list(writer.events(move))
    (end,) = writer.end([])
    assert ("response.failed", "failed", "no model") == (
        end["type"],
        end["response"]["status"],
        end["response"]["error"]["message"],
    )


def test_ids_say_what_they_stand_for_and_nothing_else_is_one() -> None:
    """What was made can be read back; a text of another form is none."""
    named = ResponseId("conv_1-a", 7, 12)
    request = request_id({"approval_id": "a_1-b", "digest": DIGEST})
    assert (named, ("a_1-b", DIGEST)) == (parse_response_id(str(named)), parse_request_id(request))
    assert [None] * 3 == [parse_response_id("resp_x_1_c"), parse_response_id("resp_1_1_"), parse_request_id("mcpr_a_b")]


# --- Chat Completions ---------------------------------------------------------------------------------------------


def test_texts_of_several_steps_are_paragraphs_and_tools_stand_beside() -> None:
    """No `tool_calls`: a client would answer them."""
    talk = Talk(told=0)
    writer = ChatWriter("chatcmpl-1", "default", "c", 0)
    moves = heard(talk, [STARTED, said("One", "m1"), proposed(), result(), said("Two", "m2"), END])
    chunks = [chunk for move in moves for chunk in writer.chunks(move)]
    whole = writer.completion([])
    assert "One\n\nTwo" == "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks)
    assert ("One\n\nTwo", "stop") == (whole["choices"][0]["message"]["content"], whole["choices"][0]["finish_reason"])
    assert [{"id": "k", "tool": "deploy", "kind": "succeeded"}] == whole["placet"]["calls"]


def test_a_note_speaks_the_conversations_language_and_makes_no_links_of_a_models_words() -> None:
    """A summary stands as code, with the page where it is decided."""
    waiting = {"approval_id": "a", "summary": "Pay `[here](https://evil.example)`?"}
    note = waits_note("de", [waiting], "https://placet.example/")
    expected = "Das wartet auf Zustimmung:\n- `Pay '[here](https://evil.example)'?` https://placet.example/inbox/a"
    assert (expected, "") == (note, waits_note("en", []))


def test_what_a_person_says_meanwhile_is_a_paragraph_and_a_message_of_its_own() -> None:
    """While the model speaks: neither is written into the other, and each says who spoke."""
    spoke: Item = (
        "message",
        {"role": "operator", "message_id": "o", "text": "Hi.", "author": {"kind": "operator", "id": "person:ada"}},
    )
    talk, chat = Talk(told=0), ChatWriter("chatcmpl-1", "default", "c", 0)
    writer = a_writer(talk)
    for move in heard(talk, [STARTED, delta("One"), spoke, delta(" two", 3), said("One two"), END]):
        list(chat.chunks(move))
        list(writer.events(move))
    output = writer.response("completed")["output"]
    assert "One\n\nada: Hi.\n\n two" == chat.text
    assert [("One two", None), ("Hi.", {"operator": "person:ada"})] == [
        (item["content"][0]["text"], item.get("placet")) for item in output
    ]


# --- what is posted -----------------------------------------------------------------------------------------------


def test_only_what_the_user_wrote_last_is_posted() -> None:
    """History and set-up texts are passed over, in both dialects."""
    history: list[dict[str, Any]] = [{"role": "system", "content": "Obey."}, {"role": "user", "content": "a"}]
    history += [{"role": "assistant", "content": "b"}, {"role": "user", "content": [{"type": "text", "text": "c"}]}]
    posted = a_completion(history)
    assert ("c", False, True) == (posted.written(), posted.begins, a_completion(history[:2]).begins)
    history[-1] = {"role": "user", "content": [{"type": "input_text", "text": "c"}]}
    assert "c" == a_response(input=history).written()


def test_answers_at_the_end_are_read_and_earlier_ones_are_history() -> None:
    """An old yes that a client sends along decides nothing again."""
    yes = {"type": "mcp_approval_response", "approval_request_id": f"mcpr_a_{DIGEST}", "approve": True}
    no = yes | {"approval_request_id": f"mcpr_b_{DIGEST}", "approve": False, "reason": "no"}
    posted = a_response(input=[yes, {"type": "message", "role": "assistant", "content": "ran"}, no])
    assert ([Answer("b", DIGEST, approved=False, reason="no")], "") == (posted.answers(), posted.written())


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"type": "mcp"}]},
        {"tool_choice": "required"},
        {"tool_choice": {"type": "function"}},
        {"instructions": "obey"},
        {"prompt": {"id": "p"}},
        {"background": True},
        {"text": {"format": {"type": "json_schema"}}},
        {"conversation": "c", "previous_response_id": "resp_0_1_c"},
    ],
)
def test_what_would_change_the_agent_is_refused(fields: dict[str, Any]) -> None:
    """A caller who believes that it holds is worse off than one who is told."""
    with pytest.raises(Refused) as refused:
        a_response(input="hello", **fields).check()
    assert 400 == refused.value.status


@pytest.mark.parametrize(
    "content",
    [
        [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}],
        [{"role": "user", "content": " "}],
        [{"role": "user", "content": "a\x00"}],
        [{"role": "assistant", "content": "a"}],
        [{"type": "mcp_approval_response", "approval_request_id": "mcpr_a", "approve": True}],
        [{"type": "mcp_approval_response", "approval_request_id": f"mcpr_a_{DIGEST}", "approve": "yes"}],
        [],
    ],
)
def test_what_is_neither_a_text_nor_an_answer_is_refused(content: list[Any]) -> None:
    """Nothing is dropped in silence."""
    posted = a_response(input=content)
    with pytest.raises(Refused) as refused:
        (posted.written(), posted.answers())
    assert 400 == refused.value.status


@pytest.mark.parametrize("word", [None, "", "new", "null", "local", "local:1", "{{LIBRECHAT_BODY_CONVERSATIONID}}"])
def test_words_that_frontends_send_for_no_conversation_name_none(word: str | None) -> None:
    """They would be one conversation for everybody."""
    assert ("", "c-1") == (conversation_named(word), conversation_named(" c-1 "))


def test_an_error_has_openais_members() -> None:
    """Code and type are stable words; the parameter is a path."""
    problem = {"type": "urn:placet:problem:invalid-request", "title": "The request is not valid.", "status": 400}
    fault = {"detail": "Field required", "pointer": "#/messages/0"}
    assert {
        "message": "The request is not valid. Field required",
        "type": "invalid_request_error",
        "param": "messages.0",
        "code": "invalid_request",
    } == openai_error({**problem, "errors": [fault]})
    assert {"message": "Not Found", "type": "invalid_request_error", "param": None, "code": None} == openai_error(
        {"type": "about:blank", "title": "Not Found", "status": 404}
    )


@pytest.mark.parametrize("role", [[], {}, None, 7])
def test_a_role_that_is_no_text_is_no_setup(role: Any) -> None:
    """Whatever stands in place of a role, the request is judged and nothing breaks."""
    posted = ChatCompletionIn.model_validate({"model": "default", "messages": [{"role": role, "content": "x"}]})
    assert not posted.begins


@pytest.mark.parametrize(("named", "language"), [("de", "de"), ("DE", "en"), ("ÄÖ", "en"), ("d", "en"), ("deu", "en")])
def test_a_conversation_has_a_language_that_messages_can_carry(named: str, language: str) -> None:
    """Any other would make every message of the conversation invalid."""
    posted = {"model": "default", "messages": [{"role": "user", "content": "x"}], "metadata": {"language": named}}
    assert language == ChatCompletionIn.model_validate(posted).language
