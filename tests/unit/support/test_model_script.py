"""Which line of a script answers which transcript."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support import anthropic_wire, openai_wire
from tests.support.model_script import Answer, Prompter, Rule, Script, Transcript, words


def transcript(**facts: Any) -> Transcript:
    """Build a transcript that ends with a user text, unless the facts say otherwise."""
    usual: dict[str, Any] = {"model": "m", "user_text": "hi", "results_of": (), "results": (), "step": 0}
    return Transcript(**{**usual, "tool_choice": "auto", "digest": "d", **facts})


@pytest.mark.parametrize(
    ("rule", "facts"),
    [
        (Rule(), {}),
        (Rule(user="RED shoes"), {"user_text": "find red shoes"}),
        (Rule(after_results_of=("b", "a")), {"results_of": ("a", "b")}),
        (Rule(after_results_of=("*",)), {"results_of": ("a", "b")}),
        (Rule(after_results_of=("a",), results_contain="denied"), {"results_of": ("a",), "results": ("denied",)}),
        (Rule(step=2), {"step": 2}),
        (Rule(model="m", tool_choice="none"), {"tool_choice": "none"}),
    ],
)
def test_rule_fits_when_every_condition_holds(rule: Rule, facts: dict[str, Any]) -> None:
    """A condition that is left out holds."""
    assert rule.fits(transcript(**facts))


@pytest.mark.parametrize(
    ("rule", "facts"),
    [
        (Rule(), {"results_of": ("a",)}),
        (Rule(user="shoes"), {}),
        (Rule(after_results_of=("a",)), {"results_of": ("a", "a")}),
        (Rule(after_results_of=("*",)), {}),
        (Rule(after_results_of=("a",), results_contain="denied"), {"results_of": ("a",), "results": ("ok",)}),
        (Rule(step=1), {}),
        (Rule(model="other"), {}),
        (Rule(tool_choice="none"), {}),
    ],
)
def test_rule_does_not_fit_when_one_condition_fails(rule: Rule, facts: dict[str, Any]) -> None:
    """A rule for user texts never answers results."""
    assert not rule.fits(transcript(**facts))


def test_first_answers_are_given_once_for_each_transcript() -> None:
    """A retry moves on; another conversation begins anew."""
    rule = Rule(first=(Answer(status=500),), answer=Answer(text="ok"))
    prompter = Prompter(Script(rules=(rule,)))

    given = [prompter.answer(transcript(digest=digest)).status for digest in ("a", "a", "b", "b")]

    assert [500, 200, 500, 200] == given


def test_transcript_without_a_rule_gets_the_otherwise_line() -> None:
    """A test that forgot a line sees so."""
    script = Script(rules=(Rule(user="x"),), otherwise=Answer(text="no line"))

    assert "no line" == Prompter(script).answer(transcript()).text


def test_script_is_loaded_from_yaml(tmp_path: Path) -> None:
    """Another process plays the same script."""
    path = tmp_path / "script.yaml"
    path.write_text("rules: [{user: hi, answer: {calls: [{name: f, arguments: {a: 1}}]}}]", encoding="utf-8")

    assert {"a": 1} == Script.load(path).rules[0].answer.calls[0].arguments


def test_misspelt_key_of_a_script_is_an_error(tmp_path: Path) -> None:
    """A fault that is silently not injected would prove nothing."""
    path = tmp_path / "script.yaml"
    path.write_text("rules: [{answer: {cut_afer: 3}}]", encoding="utf-8")

    with pytest.raises(ValidationError, match="cut_afer"):
        Script.load(path)


def test_both_providers_transcripts_read_the_same() -> None:
    """One script serves both APIs."""
    function = {"name": "f", "arguments": "{}"}
    openai = [
        {"role": "user", "content": "find"},
        {"role": "assistant", "content": "hm", "tool_calls": [{"id": "a", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "a", "content": "done"},
    ]
    anthropic = [
        {"role": "user", "content": "find"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "done"}]},
    ]

    seen = [
        openai_wire.read({"model": "m", "messages": openai, "tools": [{}]}),
        anthropic_wire.read({"model": "m", "messages": anthropic, "tools": [{}]}),
    ]

    facts = [(s.model, s.user_text, s.results_of, s.results, s.step, s.tool_choice) for s in seen]
    assert [("m", "find", ("f",), ("done",), 1, "auto")] * 2 == facts


def test_user_text_after_results_is_what_counts() -> None:
    """Whoever speaks last is answered; Anthropic sends both in one message."""
    results = [{"type": "tool_result", "tool_use_id": "a", "content": "done"}, {"type": "text", "text": "and?"}]
    messages = [
        {"role": "user", "content": "find"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {"role": "user", "content": results},
    ]

    seen = anthropic_wire.read({"model": "m", "messages": messages, "tools": [{}]})

    assert ("and?", (), 0) == (seen.user_text, seen.results_of, seen.step)


@pytest.mark.parametrize("text", ["", "one", "one two", "  a\n b ", "a "])
def test_stream_pieces_join_to_the_text(text: str) -> None:
    """Nothing is lost or added between the words."""
    assert text == "".join(words(text))
