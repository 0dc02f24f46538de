"""A decision's own fields: each goes with its verb, and with no other."""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from placet.contracts.messages.approvals import Verb
from placet.gateway.approvals.argument_fields import ArgumentField
from placet.gateway.approvals.forms import VERBS_OF, DecisionIn
from placet.gateway.web.decision_form import as_meant

VALUES: dict[str, Any] = {
    "arguments": {"amount": 1},
    "leave_out": ["call-1"],
    "response": "Ask for the order first.",
    "response_kind": "result",
    "to": "person:bob",
    "seconds": 60,
    "allow_from_now_on": {},
    "end_turn": True,
}
PAIRS = list(product(get_args(Verb), VALUES))


def places(verb: str, **more: Any) -> list[tuple[tuple[int | str, ...], str]]:
    """Return where a decision is wrong, and how; nothing where it is right."""
    try:
        DecisionIn.model_validate({"decision": verb, "digest": "0" * 64, **more})
    except ValidationError as error:
        return [(each["loc"], each["msg"]) for each in error.errors()]
    return []


def test_every_field_that_few_verbs_take_has_its_verbs() -> None:
    """A field that is added here belongs to somebody, or goes with every verb."""
    of_all = {"decision", "digest", "reason", "revision", "restored_at"}
    assert set(VALUES) == set(VERBS_OF) == set(DecisionIn.model_fields) - of_all


@pytest.mark.parametrize(("verb", "name"), PAIRS)
def test_a_field_of_another_verb_is_refused_by_its_name(verb: Verb, name: str) -> None:
    """New arguments are never dropped by an approval of the old ones, nor a wish by a denial."""
    takes = " or ".join(map(repr, VERBS_OF[name]))
    wrong = [((name,), f"Value error, '{name}' goes with {takes}, not with '{verb}'")]
    assert ([] if verb in VERBS_OF[name] else wrong) == places(verb, **{name: VALUES[name]})


@pytest.mark.parametrize("verb", get_args(Verb))
def test_a_field_that_says_nothing_goes_with_every_verb(verb: Verb) -> None:
    """Clients that send each field of a form, empty ones too, send nothing that could be lost."""
    assert [] == places(verb, arguments=None, response="", to="", seconds=None, allow_from_now_on=None)


def test_what_a_browser_did_to_line_breaks_is_no_edit() -> None:
    """A field that nobody touched keeps its value to the byte; what was typed is taken as it came."""
    fields = [ArgumentField(name, "long", value, required=True) for name, value in (("a", "x\ry\n"), ("b", "x\n"))]
    assert {"a": "x\ry\n", "b": "x\nz"} == as_meant(fields, {"a": "x\ny\n", "b": "x\nz"})
