"""What the model is told of a call that a person answered instead of letting it run."""

from __future__ import annotations

import json

import pytest

from placet.agent import rules
from placet.agent.transcript import result_text
from placet.contracts.messages import ToolCallRefused
from placet.contracts.messages.tool_calls import AnswerKind


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("result", "a person gave its result instead. Take the answer as what the tool returned."),
        ("instruction", "a person answered instead. The answer says what to do."),
    ],
)
def test_an_answer_instead_of_a_run_is_told_as_what_it_is(kind: AnswerKind, reason: str) -> None:
    """The model must not follow a result as an instruction, nor take an instruction for what a tool returned."""
    refused = ToolCallRefused(
        tenant="acme",
        call_id="call-1",
        conversation_id="c-1",
        tool="pay",
        kind="answered",
        reason="The call did not run: a person answered instead: 42",
        decided_by="person:ada",
        answer_kind=kind,
        answer="42",
    )
    result = rules.never_ran(refused)
    told = {"result": "answered", "answer_kind": kind, "answer": "42", "reason": f"The call did not run: {reason}"}
    assert told == json.loads(result_text(result.kind, result.as_json()))
