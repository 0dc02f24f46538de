"""The copy of a transcript that goes over the wire."""

import json
from typing import Any

import pytest

from placet.agent.provider_messages import bound_to, call_ids, provider_messages, speaks_anthropic


def calling(name: str = "f", arguments: str = "{}", call_id: str = "a", **extra: Any) -> dict[str, Any]:
    """Build an assistant message with one call."""
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call], **extra}


def sent(message: dict[str, Any], provider: str = "openai", model: str = "openai/x") -> dict[str, Any]:
    """Make the wire copy of one message."""
    return provider_messages([message], provider=provider, model=model)[0]


def test_valid_transcript_goes_out_as_it_is() -> None:
    """Nothing is touched that a provider would accept."""
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hi"},
        calling(arguments='{"b": 1,  "a": 2}'),
        {"role": "tool", "tool_call_id": "a", "content": "{}"},
    ]

    assert messages == provider_messages(messages, provider="openai", model="openai/x")


@pytest.mark.parametrize("text", ["", '{"q": oops', "[1]", '"{}"', "null"])
def test_arguments_that_are_no_object_are_wrapped(text: str) -> None:
    """A provider refuses the history for ever otherwise; wrapped, the model can read what it wrote."""
    arguments = sent(calling(arguments=text))["tool_calls"][0]["function"]["arguments"]

    assert {"unreadable_arguments": text} == json.loads(arguments)


@pytest.mark.parametrize(("written", "expected"), [("find it!", "find_it_"), ("", "unnamed"), ("n" * 70, "n" * 64)])
def test_impossible_names_are_made_possible(written: str, expected: str) -> None:
    """The model invented the name; the provider still refuses to read it back."""
    assert expected == sent(calling(name=written))["tool_calls"][0]["function"]["name"]


def test_long_id_is_shortened_the_same_way_for_call_and_result() -> None:
    """OpenAI refuses ids over 40 characters, and the result must still find its call."""
    long_id = "call_1__thought__" + "x" * 500

    call = sent(calling(call_id=long_id))["tool_calls"][0]["id"]
    result = sent({"role": "tool", "tool_call_id": long_id, "content": ""})["tool_call_id"]

    assert call == result
    assert len(call) <= 40


def test_gemini_gets_its_long_ids_back_whole() -> None:
    """Its signature is in the id."""
    long_id = "call_1__thought__" + "x" * 500

    assert long_id == sent(calling(call_id=long_id), "gemini", "gemini/g")["tool_calls"][0]["id"]


def test_thinking_returns_to_its_author() -> None:
    """Anthropic wants its blocks unmodified while a tool loop is open."""
    message = calling(origin="anthropic/c", thinking_blocks=[{"type": "thinking"}], reasoning_content="hm")

    copy = sent(message, "anthropic", "anthropic/c")

    assert [{"type": "thinking"}] == copy["thinking_blocks"]
    assert not copy.keys() & {"origin", "reasoning_content"}


@pytest.mark.parametrize(("provider", "model"), [("openai", "openai/x"), ("anthropic", "anthropic/other")])
def test_nobody_else_gets_thinking(provider: str, model: str) -> None:
    """Others refuse the field, and another model refuses the signature."""
    message = calling(origin="anthropic/c", thinking_blocks=[{"type": "thinking"}])

    assert {"role", "content", "tool_calls"} == sent(message, provider, model).keys()


def test_unknown_fields_of_a_result_are_dropped() -> None:
    """`is_error` passes litellm and is refused by OpenAI."""
    result = {"role": "tool", "tool_call_id": "a", "content": "x", "is_error": True, "name": "f"}

    assert {"role", "tool_call_id", "content"} == sent(result).keys()


def test_open_loop_with_thinking_is_bound_to_its_author() -> None:
    """Another model cannot continue it."""
    loop = calling(origin="anthropic/c", thinking_blocks=[{"type": "thinking"}])
    result = {"role": "tool", "tool_call_id": "a", "content": "x"}

    assert "anthropic/c" == bound_to([loop, result])


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "user", "content": "hi"}],
        [calling(origin="openai/x"), {"role": "tool", "tool_call_id": "a", "content": "x"}],
        [calling(origin="a/c", thinking_blocks=[{}]), {"role": "tool"}, {"role": "user", "content": "next"}],
    ],
)
def test_other_transcripts_are_bound_to_nobody(messages: list[dict[str, Any]]) -> None:
    """At a user's turn, or without thinking, any model may answer."""
    assert bound_to(messages) is None


def test_call_ids_of_a_transcript_are_collected() -> None:
    """New ids must differ from all of them."""
    assert {"a", "b"} == call_ids([calling(), {"role": "user", "content": ""}, calling(call_id="b")])


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        ("anthropic", "x", True),
        ("bedrock", "anthropic.claude-3", True),
        ("bedrock", "nova", False),
        ("openai", "claude", False),
    ],
)
def test_anthropic_protocol_is_known_by_provider_and_model(provider: str, model: str, *, expected: bool) -> None:
    """Claude speaks its own protocol on other hosts too."""
    assert expected == speaks_anthropic(provider, model)
