"""What the scripted model server refuses, as the real providers do."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.support.anthropic_rules import anthropic_fault, thinking_signature
from tests.support.openai_rules import openai_fault

USER = {"role": "user", "content": "hi"}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


def asking(*ids: str, name: str = "f", **extra: Any) -> dict[str, Any]:
    """Build an OpenAI assistant message with a call for each id."""
    calls = [{"id": i, "type": "function", "function": {"name": name, "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls, **extra}


def result(call_id: str) -> dict[str, Any]:
    """Build an OpenAI tool message."""
    return {"role": "tool", "tool_call_id": call_id, "content": "{}"}


def openai(*messages: dict[str, Any], **options: Any) -> str | None:
    """Judge a transcript as OpenAI would."""
    return openai_fault({"model": "m", "messages": list(messages), **options})


def use(*ids: str, name: str = "f", given: Any = None) -> dict[str, Any]:
    """Build an Anthropic assistant message with a tool_use block for each id."""
    blocks = [{"type": "tool_use", "id": i, "name": name, "input": {} if given is None else given} for i in ids]
    return {"role": "assistant", "content": blocks}


def answering(*ids: str, before: str = "", after: str = "") -> dict[str, Any]:
    """Build an Anthropic user message with a tool_result for each id, and text around them."""
    blocks: list[dict[str, Any]] = [{"type": "tool_result", "tool_use_id": i, "content": "{}"} for i in ids]
    first = [{"type": "text", "text": before}] if before else []
    last = [{"type": "text", "text": after}] if after else []
    return {"role": "user", "content": [*first, *blocks, *last]}


def anthropic(*messages: dict[str, Any], **options: Any) -> str | None:
    """Judge a transcript as Anthropic would."""
    tools = [{"name": "f", "input_schema": {"type": "object"}}]
    return anthropic_fault({"model": "m", "max_tokens": 10, "messages": list(messages), "tools": tools, **options})


@pytest.mark.parametrize(
    "messages",
    [
        (USER,),
        ({"role": "system", "content": "Be kind."}, USER, {"role": "assistant", "content": "hi"}, USER),
        (USER, asking("a", "b"), result("b"), result("a")),
        (USER, asking("a"), result("a"), asking("b"), result("b"), USER),
        (USER, asking("a"), result("a"), {"role": "assistant", "content": "x"}, asking("a"), result("a")),
    ],
)
def test_valid_openai_transcript_is_taken(messages: tuple[dict[str, Any], ...]) -> None:
    """Results in any order, and ids that come back in a later message, are fine with OpenAI."""
    assert openai(*messages, tools=TOOLS) is None


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ((), "empty array"),
        ((USER, asking("a")), "did not have response messages: a"),
        ((USER, asking("a", "b"), result("a")), "did not have response messages: b"),
        ((USER, asking("a", "b"), result("a"), USER, result("b")), "did not have response messages: b"),
        ((USER, asking("a"), USER, result("a")), "did not have response messages: a"),
        ((USER, result("a")), "must be a response to a preceding message with 'tool_calls'"),
        ((USER, asking("a"), result("a"), result("b")), "must be a response to a preceding message"),
        ((USER, asking("a"), result("a"), result("a")), "Duplicate value for 'tool_call_id'"),
        ((USER, asking("a", "a"), result("a")), "Duplicate value for 'tool_call_id'"),
        ((USER, asking(), USER), "empty array"),
        ((USER, asking("x" * 41), result("x" * 41)), "string too long"),
        ((USER, asking("a", name="find it"), result("a")), "does not match pattern"),
        ((USER, asking("a", thinking_blocks=[]), result("a")), "'thinking_blocks' was unexpected"),
        ((USER, asking("a"), {**result("a"), "is_error": True}), "'is_error' was unexpected"),
        ((USER, {"role": "assistant", "content": None}), "expected a string, got null"),
        ((USER, {"role": "user", "content": None}), "expected a string"),
        (({"role": "robot", "content": "x"},), "Invalid value: 'robot'"),
    ],
)
def test_invalid_openai_transcript_is_refused(messages: tuple[dict[str, Any], ...], words: str) -> None:
    """Each order and shape rule has an answer that names it."""
    assert words in str(openai(*messages, tools=TOOLS))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tools": []}, "empty array"),
        ({"tools": TOOLS * 2}, "duplicate name"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "does not match pattern"),
        ({"tools": [{"name": "f"}]}, "Missing required parameter"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}}]}, "object"),
        ({"tool_choice": "none"}, "only allowed when 'tools'"),
        ({"tools": TOOLS, "tool_choice": "maybe"}, "Invalid value: 'maybe'"),
        ({"stream_options": {"include_usage": True}}, "only allowed when 'stream'"),
        ({"model": ""}, "model"),
    ],
)
def test_invalid_openai_options_are_refused(options: dict[str, Any], words: str) -> None:
    """The frame of a request has rules too."""
    assert words in str(openai(USER, **options))


def test_argument_text_that_is_no_string_is_refused() -> None:
    """OpenAI's arguments are a JSON string, never an object."""
    message = deepcopy(asking("a"))
    message["tool_calls"][0]["function"]["arguments"] = {}

    assert "expected a string" in str(openai(USER, message, result("a")))


@pytest.mark.parametrize("fault", [openai_fault, anthropic_fault])
@pytest.mark.parametrize("body", [None, [], "x"])
def test_body_that_is_no_object_is_refused(fault: Any, body: Any) -> None:
    """Malformed JSON reaches the rules as None."""
    assert fault(body) is not None


@pytest.mark.parametrize(
    "messages",
    [
        (USER,),
        (USER, USER),
        (USER, use("a", "b"), answering("b", "a")),
        (USER, use("a", "b"), answering("a"), answering("b")),
        (USER, use("a"), answering("a", after="and now?")),
        (USER, use("a"), answering("a"), USER),
    ],
)
def test_valid_anthropic_transcript_is_taken(messages: tuple[dict[str, Any], ...]) -> None:
    """Consecutive messages of one role count as one."""
    assert anthropic(*messages) is None


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ((), "at least one message"),
        (({"role": "assistant", "content": "hi"}, USER), 'must use the "user" role'),
        ((USER, {"role": "assistant", "content": "hi"}), "must end with a user message"),
        ((USER, use("a")), "without `tool_result` blocks immediately after: a"),
        ((USER, use("a"), USER), "without `tool_result` blocks immediately after: a"),
        ((USER, use("a", "b"), answering("a")), "immediately after: b"),
        ((USER, use("a"), USER, answering("a")), "immediately after: a"),
        ((USER, use("a"), answering("a", before="wait")), "immediately after: a"),
        ((USER, use("a"), answering("a", "a")), "must have a single result"),
        ((USER, use("a"), answering("a", "b")), "unexpected `tool_use_id`"),
        ((answering("a"),), "unexpected `tool_use_id`"),
        ((USER, use("a"), answering("a"), use("a"), answering("a")), "ids must be unique"),
        ((USER, use("a", "a"), answering("a")), "ids must be unique"),
        ((USER, use("a.b"), answering("a.b")), "tool_use.id: String should match"),
        ((USER, use("a", name="find it"), answering("a")), "tool_use.name: String should match"),
        ((USER, use("a", given=[1]), answering("a")), "valid dictionary"),
        (({"role": "system", "content": "x"}, USER), 'Unexpected role "system"'),
        (({"role": "user", "content": ""},), "non-empty content"),
        (({"role": "user", "content": [{"type": "text", "text": " "}]},), "must be non-empty"),
        (({**USER, "name": "ada"},), "Extra inputs"),
        (({"role": "user", "content": [{"type": "tool_use"}]},), "does not match any of the expected tags"),
    ],
)
def test_invalid_anthropic_transcript_is_refused(messages: tuple[dict[str, Any], ...], words: str) -> None:
    """Each order and shape rule has an answer that names it."""
    assert words in str(anthropic(*messages))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"model": None}, "model"),
        ({"tools": [{"name": "f"}]}, "input_schema"),
        ({"tools": [{"name": "a b", "input_schema": {"type": "object"}}]}, "String should match"),
        ({"tools": [{"name": "f", "input_schema": {"type": "object"}}] * 2}, "names must be unique"),
        ({"tools": [], "tool_choice": {"type": "none"}}, "while providing tools"),
        ({"tool_choice": {"type": "maybe"}}, "expected tags"),
    ],
)
def test_invalid_anthropic_options_are_refused(options: dict[str, Any], words: str) -> None:
    """The frame of a request has rules too."""
    assert words in str(anthropic(USER, **options))


def test_history_with_calls_and_no_tools_is_refused_by_anthropic() -> None:
    """The tools must be offered as long as the transcript speaks of them."""
    assert "must define `tools`" in str(anthropic(USER, use("a"), answering("a"), tools=[]))


def test_thinking_must_come_back_first_while_the_loop_is_open() -> None:
    """The server's own ids remember that there was thinking."""
    call = use("toolu_thk_1")
    thought = {"type": "thinking", "thinking": "hm", "signature": thinking_signature("hm")}
    thoughtful = {**call, "content": [thought, *call["content"]]}

    assert "Expected `thinking`" in str(anthropic(USER, call, answering("toolu_thk_1")))
    assert anthropic(USER, thoughtful, answering("toolu_thk_1")) is None


def test_changed_thinking_is_refused() -> None:
    """The signature belongs to the exact text."""
    thought = {"type": "thinking", "thinking": "changed", "signature": thinking_signature("hm")}

    assert "Invalid `signature`" in str(anthropic(USER, {"role": "assistant", "content": [thought]}, USER))
