"""What the model is told of arguments that people changed."""

from __future__ import annotations

from typing import Any

import pytest

from placet.agent import rules
from placet.agent.transcript import result_text
from placet.contracts.messages import Edited, ToolCallFinished
from placet.contracts.messages.tool_calls import ArgumentsChange
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


def test_the_model_hears_of_every_edit_in_its_order() -> None:
    """Each with its maker, from what to what, and why; the last one takes nothing from those before it."""
    changes = [
        ArgumentsChange(person="person:ada", reason="cheaper", arguments='{"amount":1}'),
        ArgumentsChange(person="person:bob", arguments='{"amount":3}'),
    ]
    edited = Edited(person="person:bob", changes=changes, proposed='{"amount":2}', proposed_digest="a" * 64)
    assert (
        'The arguments were changed by person:ada before the call ran, from {"amount":2} to {"amount":1}.'
        ' They said: "cheaper". Then person:bob changed them, from {"amount":1} to {"amount":3}.'
    ) == rules.edit_text(a_finished(edited=edited, executed='{"amount":3}'))


def test_edits_that_end_where_they_began_are_told_as_that() -> None:
    """The model must not think that anything else ran than what it proposed."""
    changes = [
        ArgumentsChange(person="person:ada", arguments='{"amount":1}'),
        ArgumentsChange(person="person:bob", reason="no", arguments='{"amount":2}'),
    ]
    proposed = {"proposed": '{"amount":2}', "proposed_digest": "a" * 64}
    edited = Edited(person="person:bob", reason="no", changes=changes, restored=True, **proposed)
    text = rules.edit_text(a_finished(edited=edited, executed='{"amount":2}'))
    assert text.endswith('They said: "no". So it ran with the arguments that you had proposed.')
