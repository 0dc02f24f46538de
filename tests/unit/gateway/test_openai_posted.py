"""What OpenAI's clients post, as pure code: which answers count, and what is refused or named as passed over."""

from __future__ import annotations

from typing import Any

import pytest

from placet.contracts.errors import Refused
from placet.gateway.approvals.answers import Answer
from placet.gateway.dialects.openai import item_id
from placet.gateway.dialects.openai_posted import ChatCompletionIn, ResponseIn

DIGEST = "ab" * 32
SAID: dict[str, Any] = {"role": "user", "content": "deploy three"}


def a_response(**fields: Any) -> ResponseIn:
    """Return what a client posted."""
    return ResponseIn.model_validate(fields)


def a_completion(**fields: Any) -> ChatCompletionIn:
    """Return what a client posted."""
    return ChatCompletionIn.model_validate({"model": "default", "messages": [SAID], **fields})


def named(approval: str, again: str = "") -> dict[str, Any]:
    """Return a reference to the request that asked about an approval."""
    return {"type": "item_reference", "id": f"mcpr_{approval}_{DIGEST}{again}"}


def answer(approval: str, again: str = "", *, approve: bool = True) -> dict[str, Any]:
    """Return an answer to the request that asked about an approval."""
    request = f"mcpr_{approval}_{DIGEST}{again}"
    return {"type": "mcp_approval_response", "approval_request_id": request, "approve": approve}


def answered(*items: dict[str, Any]) -> list[tuple[str, bool, bool]]:
    """Return the answers that are read: {approval, yes, whether it stands before what was asked last}."""
    return [(each.approval_id, each.approved, each.is_earlier) for each in a_response(input=list(items)).answers()]


ASKED = {"type": "mcp_approval_request", "id": f"mcpr_b_{DIGEST}", "name": "deploy", "arguments": "{}"}
FOREIGN = {"type": "function_call_output", "call_id": "f", "output": "done"}


@pytest.mark.parametrize("between", [named("b"), ASKED, {"type": "item_reference", "id": "rs_68ab"}, FOREIGN])
def test_what_stands_among_answers_ends_them_not(between: dict[str, Any]) -> None:
    """The AI SDK names each request in front of its answer; the words before them all were answered with requests."""
    items = [SAID, named("a"), answer("a", approve=False), between, answer("b")]
    posted = a_response(input=items)
    read = [Answer("a", DIGEST, approved=False, reason=""), Answer("b", DIGEST, approved=True, reason="")]
    assert (read, "", False) == (posted.answers(), posted.written(), posted.begins)


@pytest.mark.parametrize(
    "ours",
    [
        {"type": "item_reference", "id": item_id("mcp", "c", "k")},
        {"type": "item_reference", "id": item_id("msg", "c", "m")},
        {"type": "mcp_call", "id": item_id("mcp", "c", "k"), "name": "deploy"},
        {"role": "assistant", "content": "It is there."},
        {"role": "user", "content": "another one"},
    ],
)
def test_answers_before_what_came_of_them_are_history(ours: dict[str, Any]) -> None:
    """Neither decided again nor for the first time; and so are those before words that were answered with a request."""
    assert [("b", True, False)] == answered(named("a"), answer("a"), ours, named("b"), answer("b"))


@pytest.mark.parametrize("between", [[], [ASKED, FOREIGN]])
def test_in_front_of_words_a_denial_is_read_and_no_approval(between: list[dict[str, Any]]) -> None:
    """The approval may be one that never arrived, and the words may take it back; the answer's header names it."""
    words = {**SAID, "content": "no, do not deploy that"}
    no = [answer("b", approve=False), answer("c", approve=False)]
    posted = a_response(input=[SAID, named("a"), answer("a"), *no, answer("c"), *between, words])
    denied = [Answer(each, DIGEST, approved=False, reason="", has_words=True) for each in ("b", "c")]
    assert (denied, {"a", "b", "c"}, words["content"]) == (posted.answers(), posted.answered, posted.written())
    assert {"placet-ignored": "mcp_approval_response"} == posted.ignored


@pytest.mark.parametrize("items", [[answer("a", approve=False), SAID], [SAID, answer("a")], [SAID]])
def test_answers_that_are_read_are_not_named_as_passed_over(items: list[dict[str, Any]]) -> None:
    """Neither a denial in front of words nor an approval behind them."""
    assert {} == a_response(input=items).ignored


def test_entries_are_left_out_of_no_approval_that_is_not_read() -> None:
    """Nothing is approved, so that is refused too."""
    with pytest.raises(Refused, match="goes with one answer"):
        a_response(input=[answer("a"), SAID], metadata={"placet_leave_out": "x"}).answers()


@pytest.mark.parametrize(
    ("items", "read"),
    [
        ([("a", ""), ("b", ""), ("a", "_13")], [("b", True, True), ("a", True, False)]),
        ([("a", ""), ("b", ""), ("a", "_13"), ("b", "_20")], [("a", True, True), ("b", True, False)]),
        ([("a", ""), ("a", "_13"), ("a", "_13")], [("a", True, False), ("a", True, False)]),
        ([("a", ""), ("c", "_7"), ("b", "")], [("a", True, False), ("c", True, False), ("b", True, False)]),
    ],
)
def test_of_a_call_that_was_asked_about_again_the_newest_answer_counts(
    items: list[tuple[str, str]], read: list[tuple[str, bool, bool]]
) -> None:
    """Those before it were posted before it was asked, whether their requests are named or not."""
    assert read == answered(*(answer(*each) for each in items))
    assert read == answered(SAID, *(item for each in items for item in (named(*each), answer(*each))))


def test_a_yes_and_a_no_to_one_request_decide_nothing() -> None:
    """Which of them was meant, nobody knows; the yes alone would run the call."""
    with pytest.raises(Refused, match="a yes and a no") as refused:
        answered(answer("a"), answer("b"), answer("a", approve=False))
    assert 400 == refused.value.status
    assert [("a", False, False)] == answered(answer("a"), answer("a", "_13", approve=False))


@pytest.mark.parametrize("choice", ["none", "required", {"type": "function"}, ["auto"], 7, False])
def test_no_caller_chooses_tools(choice: Any) -> None:
    """Not even none of them: whoever sent that would believe that nothing is called."""
    for posted in (a_response(input="hello", tool_choice=choice), a_completion(tool_choice=choice)):
        with pytest.raises(Refused, match="`tool_choice` is not supported") as refused:
            posted.check()
        assert (400, "unsupported-parameter") == (refused.value.status, refused.value.kind)


@pytest.mark.parametrize(
    ("fields", "both", "response", "completion"),
    [
        ({"tool_choice": "auto", "parallel_tool_calls": True, "metadata": {"language": "de"}}, "", "", ""),
        ({"tools": [7], "parallel_tool_calls": False}, "tools, parallel_tool_calls", "", ""),
        ({"metadata": {"order": "7"}}, "metadata", "", ""),
        ({"metadata": {"conversation_id": "c"}}, "", "metadata", ""),
        ({"max_tool_calls": 1}, "", "max_tool_calls", ""),
        ({"functions": [{"name": "rm"}], "function_call": {"name": "rm"}}, "", "", "functions, function_call"),
        ({"functions": [], "function_call": "auto"}, "", "", ""),
    ],
)
def test_what_is_passed_over_is_named(fields: dict[str, Any], both: str, response: str, completion: str) -> None:
    """It would not change the agent, so the request is heeded; its sender can see what was not."""
    posted = [a_response(input="hello", **fields), a_completion(**fields)]
    for each in posted:
        each.check()
    assert [both or response, both or completion] == [each.ignored.get("placet-ignored", "") for each in posted]


@pytest.mark.parametrize(
    ("items", "named", "written"),
    [
        ([SAID, answer("a")], {}, ""),
        ([SAID, answer("a"), SAID], {}, "deploy three"),
        ([SAID, answer("a"), {**SAID, "content": "and now?"}, answer("b")], {}, "and now?"),
        ([answer("a"), SAID], {}, "deploy three"),
        ([SAID, answer("a")], {"previous_response_id": "resp_0_0_c"}, "deploy three"),
        ([SAID, answer("a")], {"conversation": "c"}, "deploy three"),
        ([{**SAID, "content": "deploy four"}, answer("a")], {}, "deploy four"),
    ],
)
def test_words_in_front_of_the_answer_to_their_call_are_history(
    items: list[dict[str, Any]], named: dict[str, Any], written: str
) -> None:
    """A client that posts no requests has nothing between them; one that names its conversation posts no history."""
    assert written == a_response(input=items, **named).written({"deploy three"})


@pytest.mark.parametrize("known", [{"deploy three\n\nnow"}, {"deploy three", "now"}])
def test_words_in_front_of_an_answer_that_were_said_before_are_said_once(known: set[str]) -> None:
    """Those of one post were kept as one text."""
    posted = a_response(input=[SAID, {"role": "user", "content": "now"}, answer("a")])
    assert ("", "deploy three\n\nnow") == (posted.written(known), posted.written())
