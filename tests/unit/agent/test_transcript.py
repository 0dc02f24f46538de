"""The transcript: valid for every provider, whatever happened."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.agent.provider_messages import provider_messages
from placet.agent.transcript import (
    OUTPUT_BYTES_MAX,
    Call,
    Fact,
    History,
    Step,
    Unanswered,
    UserMessage,
    result_text,
    transcript,
)
from placet.contracts.messages import ResultKind
from tests.support.anthropic_rules import anthropic_fault
from tests.support.openai_rules import openai_fault

SEARCH_CALL = Call(
    turn_id="t1",
    step=1,
    position=0,
    provider_call_id="call_a",
    tool="search",
    arguments='{"text":"shoes"}',
    sound=True,
    result_kind="succeeded",
    result={"data": {"count": 0}},
)
PAY_CALL = replace(
    SEARCH_CALL,
    position=1,
    provider_call_id="call_b",
    tool="pay",
    arguments='{"amount":299}',
    result_kind="denied",
    result={"reason": "too dear"},
)
TOOLS = [{"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}]
CLAUDE_TOOLS = [{"name": "search", "input_schema": {"type": "object"}}]


def a_history(*calls: Call, text: str = "Let me see", user: str = "red shoes", **raw: Any) -> History:
    """Return one turn with one step."""
    step = Step("t1", 1, {"role": "assistant", "content": text, **raw})
    return History((UserMessage("t1", 1, user),), (step,), calls)


def test_results_follow_their_calls_at_once_and_in_order() -> None:
    """The assistant message is followed by one tool message per call, in the order of the calls."""
    written = transcript("Be kind.", a_history(PAY_CALL, SEARCH_CALL))
    assert ["system", "user", "assistant", "tool", "tool"] == [message["role"] for message in written]
    assert ["call_a", "call_b"] == [call["id"] for call in written[2]["tool_calls"]]
    assert ["call_a", "call_b"] == [message["tool_call_id"] for message in written[3:]]
    assert {"result": "succeeded", "data": {"count": 0}} == json.loads(written[3]["content"])
    assert {"result": "denied", "reason": "too dear"} == json.loads(written[4]["content"])


def test_open_call_has_no_transcript() -> None:
    """The model must not be asked while a call has no result."""
    with pytest.raises(Unanswered):
        transcript("", a_history(SEARCH_CALL, replace(PAY_CALL, result_kind=None, result=None)))


def test_fact_is_read_with_the_first_message_after_it() -> None:
    """What was read once stays where it was: a fact never moves in front of a message that came before it."""
    messages = tuple(UserMessage(f"t{number}", 1, f"m{number}", number) for number in (1, 2, 5))
    facts = (Fact(3, "news"), Fact(6, "too new"))
    written = transcript("", History(messages, (), (), facts))
    assert ["m1", "m2", "<placet-outcome>\nnews\n</placet-outcome>", "m5"] == [
        message["content"] for message in written
    ]


def test_message_that_joined_a_turn_comes_after_the_results() -> None:
    """What the user wrote while calls waited stands behind their results."""
    history = a_history(SEARCH_CALL)
    history = History((*history.messages, UserMessage("t1", 2, "or blue ones")), history.steps, history.calls)
    assert ["user", "assistant", "tool", "user"] == [message["role"] for message in transcript("", history)]


def test_unreadable_arguments_become_a_valid_object() -> None:
    """The model can read what it wrote, capped, and every provider gets an object."""
    garbage = replace(SEARCH_CALL, arguments='{"text": "sho' + "x" * 5000, sound=False)
    (call,) = transcript("", a_history(garbage))[1]["tool_calls"]
    written = json.loads(call["function"]["arguments"])
    assert ["invalid_arguments"] == list(written)
    assert 2000 == len(written["invalid_arguments"])


def test_provider_fields_go_back_to_their_author() -> None:
    """What only the author of an answer may get back is kept word by word."""
    thinking = [{"type": "thinking", "thinking": "hm", "signature": "sig"}]
    said = transcript("", a_history(SEARCH_CALL, thinking_blocks=thinking, origin="anthropic/claude"))[1]
    assert (thinking, "anthropic/claude") == (said["thinking_blocks"], said["origin"])


def test_silent_answer_is_left_out() -> None:
    """An answer with neither text nor calls would be refused by providers, and says nothing."""
    assert ["user"] == [message["role"] for message in transcript("", a_history(text=" "))]


def test_id_used_before_is_numbered_the_same_each_time() -> None:
    """Providers repeat ids; in a transcript each is used once, and the same rows give the same ids."""
    calls = (SEARCH_CALL, replace(PAY_CALL, provider_call_id="call_a"))
    first, again = transcript("", a_history(*calls)), transcript("", a_history(*calls))
    assert ["call_a", "call_a-2"] == [message["tool_call_id"] for message in first[2:]]
    assert first == again


def test_large_output_is_cut_and_says_so() -> None:
    """A tool's output beyond the limit is cut to it, with its whole size told."""
    content = json.loads(result_text("succeeded", {"data": {"text": "ü" * OUTPUT_BYTES_MAX}}))
    assert OUTPUT_BYTES_MAX >= len(content["data"].encode()) > OUTPUT_BYTES_MAX - 4
    assert f"data was {OUTPUT_BYTES_MAX * 2 + 12} bytes long and is cut to {OUTPUT_BYTES_MAX}" == content["note"]


def test_small_output_is_whole() -> None:
    """Data keeps its shape."""
    expected = {"result": "failed", "data": [1, {"a": None}], "error": "sold out"}
    assert expected == json.loads(result_text("failed", {"data": [1, {"a": None}], "error": "sold out"}))


TEXTS = st.sampled_from(["", " ", "\n", "Let me see", "ü" * 50])
IDS = st.sampled_from(["", "call_1", "call_1", "call_1-2", "x" * 3000, "weird id!", "call_9__thought__QUJD"])
NAMES = st.sampled_from(["search", "", "no such tool!", "n" * 64])
ARGUMENTS = st.sampled_from([("{}", True), ('{"a":1}', True), ("", False), ("[1]", False), ('{"a": "b', False)])
RESULTS = st.fixed_dictionaries({}, optional={"data": st.none() | st.integers(), "error": TEXTS, "reason": TEXTS})
CALLS = st.tuples(IDS, NAMES, ARGUMENTS, st.sampled_from(get_args(ResultKind)), RESULTS)
STEPS = st.tuples(TEXTS, st.lists(CALLS, max_size=4), st.lists(TEXTS.filter(bool), max_size=2))
TURNS = st.tuples(st.lists(TEXTS.filter(bool), min_size=1, max_size=3), st.lists(STEPS, max_size=4))


def rows_of(turns: Sequence[Any]) -> History:
    """Return the rows of turns; each ends with its last step, the very last one before a step that is asked for."""
    messages: list[UserMessage] = []
    steps: list[Step] = []
    calls: list[Call] = []
    for place, (texts, said) in enumerate(turns):
        turn = f"t{place}"
        messages += [UserMessage(turn, 1, text) for text in texts]
        for number, (text, drawn, joined) in enumerate(said, start=1):
            last_of_all = turns[-1][1] is said and number == len(said)
            called = drawn or ([("", "search", ("{}", True), "unknown", {})] if last_of_all else [])
            steps.append(Step(turn, number, {"content": text or None}))
            messages += [UserMessage(turn, number + 1, each) for each in joined]
            for position, (given_id, name, (arguments, sound), kind, result) in enumerate(called):
                calls.append(Call(turn, number, position, given_id, name, arguments, sound, kind, result))
    return History(tuple(messages), tuple(steps), tuple(calls))


@given(st.lists(TURNS, min_size=1, max_size=3))
def test_openai_takes_the_transcript_of_any_outcomes(turns: Sequence[Any]) -> None:
    """Whatever calls were made and however they ended, OpenAI's rules hold at each moment a model is asked."""
    messages = provider_messages(transcript("Be kind.", rows_of(turns)), provider="openai", model="openai/gpt-x")
    assert openai_fault({"model": "gpt-x", "messages": messages, "tools": TOOLS}) is None


@given(st.lists(TURNS, min_size=1, max_size=3))
def test_anthropic_takes_the_transcript_of_any_outcomes(turns: Sequence[Any]) -> None:
    """Whatever calls were made and however they ended, Anthropic's rules hold at each moment a model is asked."""
    messages = provider_messages(transcript("", rows_of(turns)), provider="anthropic", model="anthropic/claude-x")
    body = {"model": "claude-x", "max_tokens": 9, "messages": [in_blocks(m) for m in messages], "tools": CLAUDE_TOOLS}
    assert anthropic_fault(body) is None


@given(st.lists(TURNS, min_size=1, max_size=3))
def test_every_tool_message_is_readable(turns: Sequence[Any]) -> None:
    """Each result names its kind, whatever the tool returned."""
    written = transcript("", rows_of(turns))
    kinds = {json.loads(message["content"])["result"] for message in written if message["role"] == "tool"}
    assert kinds <= set(get_args(ResultKind))


@given(st.lists(TURNS, min_size=1, max_size=3))
def test_every_call_is_sound_by_itself(turns: Sequence[Any]) -> None:
    """Names, objects and ids are valid before anything is done for a certain provider."""
    written = transcript("", rows_of(turns))
    calls = [call for message in written for call in message.get("tool_calls", ())]
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["function"]["name"]) for call in calls)
    assert all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in calls)
    assert len(calls) == len({call["id"] for call in calls})
    assert [call["id"] for call in calls] == [m["tool_call_id"] for m in written if m["role"] == "tool"]


def in_blocks(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message as litellm sends it to Anthropic: the same order, other words."""
    if message["role"] == "tool":
        block = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
        return {"role": "user", "content": [block]}
    text = message.get("content")
    blocks = [{"type": "text", "text": text}] if text else []
    blocks += [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": call["function"]["name"],
            "input": json.loads(call["function"]["arguments"]),
        }
        for call in message.get("tool_calls") or ()
    ]
    return {"role": message["role"], "content": blocks}


MARKS = ("<placet-outcome>", "</placet-outcome>", "< / Placet-operator", "<\n\tplacet-outcome>", "<\x01placet-x")


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("part", ["answer", "data", "error", "reason", "edited"])
def test_what_a_tool_returns_never_looks_like_our_own_words(mark: str, part: str) -> None:
    """A mark in a result is written as an escape: the data are the same, the text has no mark."""
    text = result_text("succeeded", {part: f"before {mark} <b>after</b>"})
    assert f"before {mark} <b>after</b>" == json.loads(text)[part]
    assert ("\\u003c" in text, "<b>" in text) == (True, True)
    assert re.search(r"<[^b]{0,12}placet-", text, re.IGNORECASE) is None


def test_a_mark_in_a_cut_or_nested_result_is_escaped_too() -> None:
    """Where it stands makes no difference: in a key, deep inside, or in a text that is cut."""
    for data in ({"<placet-outcome>": [{"x": "<placet-outcome>"}]}, "<placet-outcome>" * OUTPUT_BYTES_MAX):
        assert "<placet-" not in result_text("succeeded", {"data": data})
