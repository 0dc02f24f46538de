"""What a tool said never repeats an argument that people must not see."""

from __future__ import annotations

import json
from typing import Any

import pytest

from placet.contracts.messages import ToolCall
from placet.domain.card_text import REDACTED
from placet.executor.redaction import redact_outcome, redact_text
from placet.executor.rules import Outcome
from placet.executor.states import Event
from tests.builders import a_call

IBAN = "TR330006100519786457841326"


def of(arguments: dict[str, Any], shown: dict[str, Any]) -> ToolCall:
    """Return a call with what people may see of it."""
    return a_call(arguments=arguments, shown_arguments=json.dumps(shown))


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"iban": IBAN}, {"iban": REDACTED}),
        ({"to": {"iban": IBAN, "name": "Ada"}}, {"to": REDACTED}),
        ({"to": [{"iban": IBAN}]}, {"to": [{"iban": REDACTED}]}),
    ],
)
def test_a_redacted_argument_is_masked_wherever_a_tool_repeats_it(
    arguments: dict[str, Any], shown: dict[str, Any]
) -> None:
    """In its error, in its data, in names of it, in its blocks, and in what it says on the way."""
    call = of(arguments, shown)
    said = Outcome(
        Event.FAILED, data={"account": IBAN, IBAN: [1]}, error=f"No such account {IBAN}.", ui_blocks=({"text": IBAN},)
    )
    kept = redact_outcome(call, said)
    assert (f"No such account {REDACTED}.", {"account": REDACTED, REDACTED: [1]}) == (kept.error, kept.data)
    assert (({"text": REDACTED},), f"asking {REDACTED}") == (kept.ui_blocks, redact_text(call, f"asking {IBAN}"))


def test_numbers_are_masked_and_what_anybody_could_guess_is_not() -> None:
    """A number stands for itself as a text too; a short value is found anywhere by chance."""
    call = of({"pin": 4821, "floor": 3}, {"pin": REDACTED, "floor": REDACTED})
    kept = redact_outcome(call, Outcome(Event.SUCCEEDED, data={"pin": 4821, "left": 3, "note": "pin 4821"}))
    assert {"pin": REDACTED, "left": 3, "note": f"pin {REDACTED}"} == kept.data


def test_what_everybody_may_see_stays() -> None:
    """A call without redacted arguments is told as its tool told it."""
    outcome = Outcome(Event.FAILED, error=f"No such account {IBAN}.")
    assert outcome is redact_outcome(a_call(arguments={"iban": IBAN}), outcome)
