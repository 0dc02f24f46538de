"""The form that changes arguments in Slack: faithful, or refused; and who somebody in Slack is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from placet.contracts.canonical import canonical_text
from placet.contracts.messages.tool_calls import Category
from placet.domain.catalog import ToolSpec
from placet.gateway.slack.door import reachable
from placet.gateway.slack.edit_form import NotHere, edit_fields, edited
from placet.gateway.slack.interactions import Input, Malformed, read_click, read_submission
from placet.surfaces.slack import Slack, SlackMisconfigured, SlackTeam
from tests.support.slack_rules import view_problems

SPEC = ToolSpec(
    name="transfer",
    description="Move money.",
    category=Category.UNSAFE_API,
    parameters={
        "type": "object",
        "properties": {
            "amount": {"type": "number", "description": "How much."},
            "to": {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": False},
            "tags": {"type": "array", "items": {"type": "string"}},
            "level": {"enum": [1, 2, None]},
            "note": {"type": "string"},
        },
        "additionalProperties": False,
    },
)
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=60),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def as_given(fields: list[dict[str, Any]]) -> list[Input]:
    """Return what Slack sends where somebody submits a form without touching it."""
    made = []
    for block in fields:
        element = block["element"]
        text = element.get("initial_value") or element.get("initial_option", {}).get("value", "")
        made.append(Input(block["block_id"], element["action_id"], text))
    return made


@given(st.dictionaries(st.text(min_size=1, max_size=12), _values, max_size=8))
def test_an_untouched_form_changes_nothing(arguments: dict[str, Any]) -> None:
    """Whatever the arguments are: submitted as they stand, they are the same bytes; or there is no form."""
    try:
        fields = edit_fields(arguments, None)
    except NotHere:
        return
    view = {"title": {"type": "plain_text", "text": "t"}, "submit": {"type": "plain_text", "text": "s"}}
    assert [] == view_problems({**view, "blocks": fields})
    made, problems = edited(as_given(fields), arguments, None, "en")
    assert (canonical_text(arguments), {}) == (canonical_text(made), problems)


def test_every_kind_of_argument_has_an_input() -> None:
    """Numbers and objects are JSON, texts are texts, enumerations are lists; what is absent stays so if left empty."""
    arguments = {"amount": 1.5, "to": {"name": "Ada"}, "level": None}
    fields = edit_fields(arguments, SPEC)
    assert {"amount": "json", "to": "json", "level": "choice", "tags": "json", "note": "text"} == {
        block["label"]["text"]: block["element"]["action_id"] for block in fields
    }
    assert (arguments, {}) == edited(as_given(fields), arguments, SPEC, "en")
    changed = [Input("argument.note", "text", "2"), Input("argument.to", "json", '{"name":"Bo"}')]
    assert ({**arguments, "note": "2", "to": {"name": "Bo"}}, {}) == edited(changed, arguments, SPEC, "en")


@pytest.mark.parametrize(("locale", "told"), [("en", "note: this is needed."), ("de", "note: Das wird gebraucht.")])
def test_what_is_needed_and_left_empty_is_told_at_its_input(locale: str, told: str) -> None:
    """In the person's language, and not under the reason."""
    spec = SPEC.model_copy(update={"parameters": {**SPEC.parameters, "required": ["note"]}})
    made, problems = edited([Input("argument.note", "text", "")], {"note": "x"}, spec, locale)
    assert ({}, {"argument.note": told}) == (made, problems)


@pytest.mark.parametrize(
    ("block", "text", "told"),
    [
        ("argument.amount", "1e999", "argument.amount"),
        ("argument.amount", '{"a":1,"a":2}', "argument.amount"),
        ("argument.to", '{"nam":"x"}', "argument.to"),
        ("argument.unknown", "1", "reason"),
    ],
)
def test_what_does_not_fit_is_told_where_it_stands(block: str, text: str, told: str) -> None:
    """Two readings of one JSON, unknown members and values out of the schema are refused beside their input."""
    assert [told] == list(edited([Input(block, "json", text)], {}, SPEC, "en")[1])


@pytest.mark.parametrize(
    "arguments",
    [{"note": "a\u202eb"}, {"note": "x" * 3001}, {f"a{number}": 1 for number in range(61)}, {"a\u200b": 1}, {}],
)
def test_what_an_input_cannot_show_has_no_form(arguments: dict[str, Any]) -> None:
    """T2: hidden characters, long texts and crowds of arguments are for the page."""
    with pytest.raises(NotHere):
        edit_fields(arguments, None)


@given(st.dictionaries(st.text(max_size=10), _values, max_size=4))
def test_a_strange_interaction_is_malformed(payload: dict[str, Any]) -> None:
    """Whatever comes in place of a click or a modal, it is told as such and nothing breaks."""
    with pytest.raises(Malformed):
        read_click({**payload, "actions": [{"value": "x"}]})
    with pytest.raises(Malformed):
        read_submission({**payload, "view": {"private_metadata": str(payload)}})


def test_a_gateway_that_no_click_can_reach_does_not_start() -> None:
    """A bot token alone posts cards that nobody could decide on."""
    team = SlackTeam(team="T0ACME", bot_token=SecretStr("xoxb-1"))
    with pytest.raises(SlackMisconfigured):
        reachable(Slack(SecretStr(""), SecretStr(""), (team,)))
    assert reachable(Slack(SecretStr("s"), SecretStr(""), (team,))).teams
