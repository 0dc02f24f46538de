"""What the model is told of arguments that people changed."""

from __future__ import annotations

from typing import Any

import pytest

from services.agent import rules
from services.agent.transcript import result_text
from shared.messages import Edited, ToolCallFinished
from tests.builders import NOON


def a_finished(**changes: Any) -> ToolCallFinished:
    """Return the end of a call that ran."""
    fields: dict[str, Any] = {"tenant": "acme", "call_id": "c", "conversation_id": "v", "tool": "pay", "attempt": 1}
    times = {"started_at": NOON, "finished_at": NOON}
    return ToolCallFinished(**(fields | times | {"kind": "succeeded", "data": 1} | changes))


def test_a_call_that_nobody_changed_is_told_of_nothing() -> None:
    """Most calls run as the model proposed them."""
    assert "" == rules.edit_text(a_finished())


@pytest.mark.parametrize(("reason", "because"), [("", ""), ('say "no"', ' They said: "say \\"no\\"".')])
def test_the_model_hears_who_changed_what_and_why(reason: str, because: str) -> None:
    """From which arguments to which; it stands in the result that it reads."""
    edited = Edited(person="person:ada", reason=reason, proposed='{"amount":2}', proposed_digest="a" * 64)
    text = rules.edit_text(a_finished(edited=edited, executed='{"amount":1}'))
    said = 'The arguments were changed by person:ada before the call ran, from {"amount":2} to {"amount":1}.'
    assert said + because == text
    result = rules.Result("succeeded", data=1, edited=text)
    assert "changed by person:ada" in result_text(result.kind, result.as_json())
