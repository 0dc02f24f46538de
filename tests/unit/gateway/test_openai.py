"""OpenAI's dialects as pure code: ids, words, and what is read of a request."""

from __future__ import annotations

from typing import Any

import pytest

from placet.agent.rules import NO_MODEL, STOPPED, STOPPED_AT_ONCE
from placet.contracts.canonical import readable_text
from placet.contracts.errors import Refused
from placet.contracts.ids import new_id
from placet.gateway.approvals.answers import Answer
from placet.gateway.conversations.items import Item
from placet.gateway.dialects.changes import Call
from placet.gateway.dialects.completions import CompletionState
from placet.gateway.dialects.conversation_state import replay
from placet.gateway.dialects.openai import (
    Goal,
    ResponseId,
    conversation_of,
    item_id,
    parse_request_id,
    parse_response_id,
    request_id,
    waits_note,
)
from placet.gateway.dialects.openai_errors import openai_error
from placet.gateway.dialects.openai_posted import ChatCompletionIn, ResponseIn, conversation_named
from placet.gateway.dialects.responses import ResponseState

DIGEST = "ab" * 32
AT = "2026-01-01T00:00:00+00:00"


def a_response(**fields: Any) -> ResponseIn:
    """Return what a client posted."""
    return ResponseIn.model_validate(fields)


def a_completion(messages: list[Any], **fields: Any) -> ChatCompletionIn:
    """Return what a client posted."""
    return ChatCompletionIn.model_validate({"model": "default", "messages": messages, **fields})


def a_log(*items: tuple[Any, dict[str, Any]]) -> list[Item]:
    """Return a turn with these items in it."""
    started = {"turn_id": "t", "state": "started", "message_id": "u"}
    ended = {"turn_id": "t", "state": "finished", "reason": "", "idle": True, "open": []}
    whole = [("turn", started), *items, ("turn", ended)]
    return [Item(number, kind, AT, data) for number, (kind, data) in enumerate(whole, 1)]


def said(text: str, step: int = 1) -> tuple[str, dict[str, Any]]:
    """Return the item of something that the agent said."""
    return "message", {"role": "assistant", "turn_id": "t", "message_id": f"m{step}", "step": step, "text": text}


def call(status: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """Return an item of the call `k`."""
    named = {"call_id": "k", "turn_id": "t", "tool": "deploy", "arguments": {"v": 1}, "step": 1}
    return "tool_call", {**named, "status": status, **more}


# --- what is told -------------------------------------------------------------------------------------------------


def test_a_call_that_did_not_succeed_is_a_failed_one_with_its_kind() -> None:
    """Whatever the ending: an error of a tool in words, and the kind beside it."""
    items = a_log(said(""), call("proposed"), call("error", kind="unknown"))
    state, _ = replay(ResponseState(Goal("c", 0), "resp_0_0_c", "default", 0), items)
    (item,) = state.response("completed")["output"]
    assert ("failed", None, "unknown") == (item["status"], item["output"], item["placet"]["kind"])
    told = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "The call did not run: unknown."}]}
    assert told == item["error"]


@pytest.mark.parametrize("number", [2**53, 10**30, float("nan")])
def test_a_call_whose_arguments_have_no_canonical_form_is_told_as_any_other(number: float) -> None:
    """It is an invalid one, as in every dialect; its arguments are what the model wrote."""
    amount: dict[str, Any] = {"arguments": {"amount": number}}
    card = {"approval_id": "a", "call_id": "k", "state": "pending", "digest": DIGEST, "revision": 1, **amount}
    items = a_log(said(""), call("proposed", **amount), ("approval", card), call("error", kind="invalid"))
    state, _ = replay(ResponseState(Goal("c", 0), "resp_0_0_c", "default", 0), items)
    asked, ended = state.response("completed")["output"]
    assert ("failed", "invalid") == (ended["status"], ended["placet"]["kind"])
    assert [readable_text(amount["arguments"])] * 2 == [asked["arguments"], ended["arguments"]]


def test_a_failed_turn_is_a_failed_response() -> None:
    """Its reason is the message of an error that has all members, which the AI SDK wants."""
    failed = {"turn_id": "t", "state": "failed", "reason": "no model", "idle": True, "open": []}
    items = [*a_log()[:1], Item(2, "turn", AT, failed)]
    state, _ = replay(ResponseState(Goal("c", 0), "resp_0_0_c", "default", 0), items)
    end = state.end(None)
    error = {"type": "server_error", "code": "server_error", "message": "no model", "param": None}
    assert ("response.failed", "failed", error) == (end["type"], end["response"]["status"], end["response"]["error"])


def test_a_completed_response_has_its_usage_also_where_no_model_was_asked() -> None:
    """LlamaIndex reads its details without asking whether they are there; a failed one has none."""
    state = ResponseState(Goal("c", 0), "resp_0_0_c", "default", 0)
    nothing = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    details = {
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    told = [state.response(status)["usage"] for status in ("completed", "failed", "in_progress")]
    assert [nothing | details, None, None] == told


@pytest.mark.parametrize(
    ("reason", "limit", "words"),
    [
        (STOPPED.format(count=3), "steps", "Der Assistent hat nach 3 Schritten ohne Antwort aufgehört."),
        (STOPPED_AT_ONCE, "steps", "Der Assistent hat nach einem Schritt ohne Antwort aufgehört."),
        (NO_MODEL, "", "Der Assistent konnte gerade nicht antworten."),
        ("Not {today}, in 3 steps.", "", "Not {today}, in 3 steps."),
    ],
)
def test_why_a_turn_failed_is_said_in_the_conversations_language(reason: str, limit: str, words: str) -> None:
    """As the last message, the error, and the words about its limit; what no catalogue has is left as it is."""
    failed = {"turn_id": "t", "state": "failed", "reason": reason, "limit": limit, "idle": True, "open": []}
    items = [*a_log(said("Half of it."))[:2], Item(3, "turn", AT, failed)]
    goal = Goal("c", 0, language="de")
    response, _ = replay(ResponseState(goal, "resp_0_0_c", "default", 0), items)
    completion, _ = replay(CompletionState(goal, "chatcmpl-1", "default", 0), items)
    whole = response.end(None)["response"]
    told = [whole["output"][-1]["content"][0]["text"], whole["error"]["message"], completion.failure]
    told += [each["reason"] for each in (whole["placet"], completion.placet()) if limit]
    assert [True] * len(told) == [each.startswith(words) for each in told]
    assert ["Half of it.", told[0]] == [item["content"][0]["text"] for item in whole["output"]]


def test_a_turn_that_ends_with_its_last_step_says_so() -> None:
    """Beside an answer that is whole: for SDKs an incomplete response, or one that was cut, is no answer."""
    told = {"limit": "steps", "reason": "The assistant had used all its 3 steps."}
    ended = {"turn_id": "t", "state": "finished", "idle": True, "open": [], **told}
    items = [*a_log(said("Half of it."))[:2], Item(3, "turn", AT, ended)]
    response, _ = replay(ResponseState(Goal("c", 0), "resp_0_0_c", "default", 0), items)
    completion, _ = replay(CompletionState(Goal("c", 0), "chatcmpl-1", "default", 0), items)
    whole, (last,) = completion.completion(None), completion.end(None, counts=True)
    shown = [each["placet"] for each in (response.end(None)["response"], whole, last)]
    assert [told] * 3 == [{name: each.get(name) for name in told} for each in shown]
    assert ("completed", "stop") == (response.status, whole["choices"][0]["finish_reason"])


def card(state: str, revision: int, **more: Any) -> tuple[str, dict[str, Any]]:
    """Return an item of the approval of the call `k`."""
    named = {"approval_id": "a", "call_id": "k", "turn_id": "t", "state": state, "revision": revision}
    return "approval", {**named, **more}


@pytest.mark.parametrize(
    ("goal", "asked"),
    [
        (Goal("c", 0), [DIGEST, "cd" * 32]),
        (Goal("c", 4), ["cd" * 32]),
        (Goal("c", 6), []),
        (Goal("c", 0, over=frozenset({"a"})), []),
    ],
    ids=["told nothing", "told before the vote", "told before the end", "over when it asked"],
)
def test_a_request_is_told_where_something_new_is_asked(goal: Goal, asked: list[str]) -> None:
    """A vote asks for nothing, an edit does; who asks after the end is told only what came of it."""
    shown = {"digest": DIGEST, "arguments": {"v": 1}}
    edited = {"digest": "cd" * 32, "arguments": {"v": 2}, "kind": "edited"}
    opened = [said(""), call("proposed"), card("pending", 1, **shown)]
    moved = [card("pending", 2, kind="voted"), card("pending", 3, **edited), card("pending", 4, kind="voted")]
    items = a_log(*opened, *moved, card("denied", 5), call("error", kind="denied"))
    state, _ = replay(ResponseState(goal, "resp_0_0_c", "default", 0), items)
    kinds = [item["id"].rpartition("_")[2] for item in state.output if item["type"] == "mcp_approval_request"]
    assert (asked, "mcp_call") == (kinds, state.output[-1]["type"])


def test_texts_of_several_steps_are_paragraphs_and_tools_stand_beside() -> None:
    """No `tool_calls`: a client would answer them."""
    items = a_log(said("One"), call("proposed"), call("success", kind="succeeded"), said("Two", 2))
    state, _ = replay(CompletionState(Goal("c", 0), "chatcmpl-1", "default", 0), items)
    whole = state.completion(None)
    assert ("One\n\nTwo", "stop") == (whole["choices"][0]["message"]["content"], whole["choices"][0]["finish_reason"])
    assert [{"id": "k", "tool": "deploy", "kind": "succeeded"}] == whole["placet"]["calls"]


def test_ids_say_what_they_stand_for_and_nothing_else_is_one() -> None:
    """What was made can be read back; a text of another form is none."""
    named, bare = ResponseId("conv_1-a", 7, new_id()), ResponseId("conv_1-a", 7)
    request = request_id({"approval_id": "a_1-b", "digest": DIGEST})
    assert (named, bare) == (parse_response_id(str(named)), parse_response_id(str(bare)))
    assert (("a_1-b", DIGEST), "conv_1") == (
        parse_request_id(request),
        conversation_of(item_id("msg", "conv_1", "m#1")),
    )
    assert [None] * 3 == [parse_response_id("resp_x_0_c"), parse_response_id("resp_1_0_"), parse_request_id("mcpr_a_b")]


def test_a_note_speaks_the_conversations_language_and_makes_no_links_of_a_models_words() -> None:
    """A summary stands as code, with the page where it is decided."""
    card = {"approval_id": "a", "summary": "Pay `[here](https://evil.example)`?", "state": "pending"}
    note = waits_note("de", [Call("k", "t", "t", "pay", {}, card)], "https://placet.example/")
    expected = "Das wartet auf Freigabe:\n- `Pay '[here](https://evil.example)'?` https://placet.example/inbox/a"
    assert (expected, "") == (note, waits_note("en", []))


# --- what is posted -----------------------------------------------------------------------------------------------


def test_only_what_the_user_wrote_last_is_posted() -> None:
    """History and set-up texts are passed over, in both dialects."""
    history: list[dict[str, Any]] = [{"role": "system", "content": "Obey."}, {"role": "user", "content": "a"}]
    history += [{"role": "assistant", "content": "b"}, {"role": "user", "content": [{"type": "text", "text": "c"}]}]
    posted = a_completion(history)
    assert ("c", False, True) == (posted.written(), posted.begins, a_completion(history[:2]).begins)
    history[-1] = {"role": "user", "content": [{"type": "input_text", "text": "c"}]}
    assert "c" == a_response(input=history).written()


@pytest.mark.parametrize(
    ("messages", "first"),
    [
        (["system:Obey.", "user:a", "assistant:b", "user:c"], ["a", "a"]),
        (["assistant:Hello.", "user:a", "user:b", "assistant:c", "user:d"], ["a", "a\n\nb"]),
        (["user: ", "assistant:b", "user:c"], []),
        ([f"user:{'x' * 40_000}", "assistant:b", "user:c"], []),
    ],
)
def test_a_history_begins_with_what_the_user_wrote_first(messages: list[str], first: list[str]) -> None:
    """As it was posted then: alone, or with what went unanswered; what could not be posted is no beginning."""
    told = [{"role": role, "content": text} for role, _, text in (each.partition(":") for each in messages)]
    assert first == a_completion(told).first()


def test_an_old_picture_does_not_refuse_a_history() -> None:
    """Only its end is judged."""
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    posted = a_completion([picture, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}])
    assert ([], "c") == (posted.first(), posted.written())


def test_a_stream_that_is_null_is_none() -> None:
    """OpenAI's packages send it where nobody chose."""
    posted = [a_response(input="hello", stream=None), a_completion([{"role": "user", "content": "hello"}], stream=None)]
    assert [None, None] == [each.stream for each in posted]


def test_answers_at_the_end_are_read_and_earlier_ones_are_history() -> None:
    """An old yes that a client sends along decides nothing again."""
    yes = {"type": "mcp_approval_response", "approval_request_id": f"mcpr_a_{DIGEST}", "approve": True}
    no = yes | {"approval_request_id": f"mcpr_b_{DIGEST}", "approve": False, "reason": "no"}
    posted = a_response(input=[yes, {"type": "message", "role": "assistant", "content": "ran"}, no])
    assert ([Answer("b", DIGEST, approved=False, reason="no")], "") == (posted.answers(), posted.written())


HANDED = [
    {"type": "function_call", "name": "transfer_to_placet", "arguments": "{}", "call_id": "f", "id": "fc_68ab"},
    {"type": "function_call_output", "call_id": "f", "output": "{'assistant': 'placet'}"},
]
ASKED: dict[str, Any] = {"role": "user", "content": "deploy"}


@pytest.mark.parametrize("words", [[], [{"role": "assistant", "content": "One moment.", "id": "msg_68ab"}]])
def test_what_another_agent_did_behind_the_users_words_is_passed_over(words: list[Any]) -> None:
    """Its tools are none of ours, and a hand-off is a call of such a tool; a conversation may begin with it."""
    posted = a_response(input=[ASKED, {"type": "reasoning", "id": "rs_68ab", "summary": []}, *words, *HANDED])
    assert ("deploy", [], True) == (posted.written(), posted.answers(), posted.begins)


def test_an_answer_to_our_call_in_front_of_anothers_calls_counts() -> None:
    """It was given behind the user's last words, too."""
    yes = {"type": "mcp_approval_response", "approval_request_id": f"mcpr_a_{DIGEST}", "approve": True}
    posted = a_response(input=[ASKED, {"type": "mcp_approval_request", "id": f"mcpr_a_{DIGEST}"}, yes, *HANDED])
    assert ([Answer("a", DIGEST, approved=True, reason="")], "") == (posted.answers(), posted.written())


@pytest.mark.parametrize(
    "behind",
    [
        [{"type": "message", "role": "assistant", "id": item_id("msg", "c", "m"), "content": "done"}, *HANDED],
        [{"type": "mcp_call", "id": item_id("mcp", "c", "k"), "name": "deploy"}, *HANDED],
        [{"type": "mcp_approval_request", "id": f"mcpr_a_{DIGEST}"}, *HANDED],
        [*HANDED, {"role": "assistant", "content": "done"}],
    ],
)
def test_words_that_were_answered_already_are_not_said_again(behind: list[Any]) -> None:
    """Whatever another agent called behind our answer to them."""
    with pytest.raises(Refused) as refused:
        a_response(input=[ASKED, *behind]).written()
    assert 400 == refused.value.status


@pytest.mark.parametrize(
    ("tools", "header"),
    [
        (None, {}),
        ([{"type": "mcp", "server_label": "placet", "require_approval": "always"}], {}),
        ([{"type": "mcp", "server_label": "placet"}], {}),
        ([{"type": "mcp", "server_label": "other"}], {"placet-ignored": "tools"}),
        ([{"type": "function", "name": "rm"}], {"placet-ignored": "tools"}),
        (["rm"], {"placet-ignored": "tools"}),
        ([{}] * 600, {"placet-ignored": "tools"}),
    ],
)
def test_tools_of_others_are_passed_over_and_named(tools: list[Any] | None, header: dict[str, str]) -> None:
    """Clients add them to every request; Placet's own may be declared as those of an MCP server."""
    posted = a_response(input="hello", tools=tools)
    posted.check()
    assert header == posted.ignored


def test_a_history_names_its_conversation_by_the_ids_of_its_items() -> None:
    """Items and requests of ours do; whatever else an id is, it names nothing."""
    foreign: list[Any] = [{"id": "msg_68ab"}, {"id": 7}, {"id": "mcpl_c.x"}, {"role": "user", "content": "and now?"}]
    ours = [{"id": item_id("msg", "c-1_2", "m#1")}, {"id": item_id("mcp", "c-1_2", "k")}]
    asked = [{"type": "mcp_approval_request", "id": f"mcpr_a_{DIGEST}"}]
    histories: list[Any] = [[*foreign, *ours], [*asked, *foreign], "hello"]
    posted = [a_response(input=history) for history in histories]
    assert [({"c-1_2"}, ""), (set(), "a"), (set(), "")] == [(each.remembered, each.asked) for each in posted]


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"type": "mcp", "server_label": "placet", "require_approval": "never"}]},
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
        [{"role": "user", "content": [{"type": {}, "text": "x"}]}],
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


@pytest.mark.parametrize("named", [5, ["c"], False, {}])
def test_a_name_in_metadata_that_is_no_text_is_refused(named: Any) -> None:
    """Passed over, a conversation begins anew with every message, and everything in a commit is approved."""
    answer = [{"type": "mcp_approval_response", "approval_request_id": f"mcpr_a_{DIGEST}", "approve": True}]
    with pytest.raises(Refused, match=r"`metadata\.conversation_id` must be a text") as unnamed:
        _ = a_completion([{"role": "user", "content": "hello"}], metadata={"conversation_id": named}).named
    with pytest.raises(Refused, match="must name entries") as unread:
        a_response(input=answer, metadata={"placet_leave_out": named}).answers()
    assert [400, 400] == [each.value.status for each in (unnamed, unread)]


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
