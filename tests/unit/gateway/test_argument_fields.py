"""A form for a call's arguments: which fields it has, and what it means when it comes back."""

from __future__ import annotations

from typing import Any

import pytest

from placet.contracts.messages.tool_calls import Category
from placet.domain.catalog import ToolSpec
from placet.gateway.approvals.argument_fields import NotAnArgument, arguments_from, arguments_from_json, fields_of
from placet.gateway.slack.edit_form import edited
from placet.gateway.slack.interactions import Input

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["amount", "to"],
    "properties": {
        "amount": {"type": "number", "description": "In EUR."},
        "to": {"type": "string"},
        "note": {"type": "string"},
        "speed": {"type": "string", "enum": ["slow", "fast"]},
        "urgent": {"type": "boolean"},
        "lines": {"type": "array"},
        "either": {"type": ["string", "null"]},
    },
}
GIVEN: dict[str, Any] = {"amount": 12.5, "to": "lin", "note": "x" * 80, "lines": [1, 2], "more": None}


def test_each_argument_has_a_field_that_fits_its_schema() -> None:
    """In the schema's order; what a plain field cannot hold, or the schema does not know, is JSON."""
    fields = fields_of(SCHEMA, GIVEN)
    assert [
        ("amount", "number", "12.5", True),
        ("to", "text", "lin", True),
        ("note", "long", "x" * 80, False),
        ("speed", "choice", "", False),
        ("urgent", "choice", "", False),
        ("lines", "json", "[1,2]", False),
        ("either", "json", "", False),
        ("more", "json", "null", False),
    ] == [(each.name, each.kind, each.value, each.required) for each in fields]


def test_a_form_that_was_left_alone_gives_back_the_very_arguments() -> None:
    """Nothing is rounded, dropped or made up; a browser's line breaks change nothing."""
    arguments = GIVEN | {"to": "a\nb", "amount": 1e21}
    fields = fields_of(SCHEMA, arguments)
    typed = {each.name: each.value.replace("\n", "\r\n") for each in fields}
    assert arguments == arguments_from(fields, typed, arguments)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ({"amount": "7"}, {"amount": 7}),
        ({"to": "grace"}, {"to": "grace"}),
        ({"to": ""}, {"to": ""}),
        ({"urgent": "true"}, {"urgent": True}),
        ({"speed": "fast"}, {"speed": "fast"}),
        ({"lines": '[{"a": 1}]'}, {"lines": [{"a": 1}]}),
        ({"either": '"text"'}, {"either": "text"}),
    ],
)
def test_what_was_typed_becomes_a_value_of_its_kind(typed: dict[str, str], expected: dict[str, Any]) -> None:
    """A number is a number, a choice one of its own, JSON what it says."""
    fields = fields_of(SCHEMA, GIVEN)
    assert GIVEN | expected == arguments_from(fields, typed, GIVEN)


def test_an_argument_that_need_not_be_given_is_left_out_when_it_is_emptied() -> None:
    """All but texts, for which nothing is a value too."""
    fields = fields_of(SCHEMA, GIVEN)
    assert "lines" not in arguments_from(fields, {"lines": ""}, GIVEN)


@pytest.mark.parametrize(
    "typed",
    [
        {"amount": ""},
        {"amount": "much"},
        {"amount": "true"},
        {"amount": "NaN"},
        {"amount": "9007199254740993"},
        {"urgent": "yes"},
        {"speed": "medium"},
        {"lines": "[1"},
        {"lines": '{"a":1,"a":2}'},
    ],
)
def test_what_is_no_value_is_said_with_its_argument(typed: dict[str, str]) -> None:
    """The first words name the field."""
    fields = fields_of(SCHEMA, GIVEN)
    with pytest.raises(NotAnArgument, match=f"^{next(iter(typed))}: "):
        arguments_from(fields, typed, GIVEN)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a":1,"a":1}'])
def test_json_that_is_no_object_is_refused(text: str) -> None:
    """Arguments have names."""
    with pytest.raises(NotAnArgument, match=r"^The arguments"):
        arguments_from_json(text)


def test_texts_that_say_true_are_no_truth() -> None:
    """A choice between the texts "true" and "false" gives texts; only a boolean gives booleans. Here and in Slack."""
    words = {"type": "string", "enum": ["true", "false"]}
    schema = {"type": "object", "properties": {"word": words, "flag": {"type": "boolean"}}}
    before = {"word": "true", "flag": True}
    typed = {"word": "false", "flag": "false"}
    spec = ToolSpec(name="tool", description="It.", category=Category.UNSAFE_API, parameters=schema)
    inputs = [Input(f"argument.{name}", "choice", text) for name, text in typed.items()]
    wanted = {"word": "false", "flag": False}
    assert wanted == arguments_from(fields_of(schema, before), typed, before)
    assert (wanted, {}) == edited(inputs, before, spec, "en")


def test_what_is_wrong_is_told_in_the_person_s_language() -> None:
    """A choice that is none, in German."""
    fields = fields_of({"properties": {"flag": {"type": "boolean"}}}, {})
    with pytest.raises(NotAnArgument) as caught:
        arguments_from(fields, {"flag": "maybe"}, {})
    assert "flag: Wählen Sie eines von true, false." == caught.value.said("de")
