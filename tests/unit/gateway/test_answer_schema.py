"""Schemas of answers: those that cost too much to check are refused before anything is compiled."""

from __future__ import annotations

import time
from typing import Any

import pytest

from placet.contracts.errors import Refused
from placet.gateway.jobs.answer_schema import (
    REFERENCES_MAX,
    SCHEMA_BYTES_MAX,
    SUBSCHEMAS_MAX,
    check_answer_schema,
)


def of(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a schema of an object."""
    return {"type": "object", "properties": properties, **more}


def patterns(number: int, pattern: str) -> dict[str, Any]:
    """Return a schema of so many texts with patterns."""
    return of({f"p{each}": {"type": "string", "pattern": f"{pattern}{each}"} for each in range(number)})


def references(number: int) -> dict[str, Any]:
    """Return a schema that names a part of itself so often."""
    return of({f"p{each}": {"$ref": "#/$defs/a"} for each in range(number)}, **{"$defs": {"a": {}}})


def long(size: int) -> dict[str, Any]:
    """Return a schema of so many bytes."""
    empty = len('{"properties":{"a":{"description":""}},"type":"object"}')
    return of({"a": {"description": "x" * (size - empty)}})


def problem(schema: dict[str, Any]) -> str:
    """Return what is said against a schema; empty where nothing is."""
    try:
        check_answer_schema(schema)
    except Refused as refusal:
        errors: Any = refusal.facts["errors"]
        return f"{refusal.status} {refusal.kind} {errors[0]['pointer']} {errors[0]['detail']}"
    return ""


@pytest.mark.parametrize(
    "schema",
    [
        of({"answer": {"type": "string"}}),
        of({"iban": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{2}[A-Z0-9]{10,30}$"}}),
        of({"name": {"type": "string", "pattern": r"^[\p{L} ]{1,50}$"}}),
        of({"tree": {"$ref": "#/$defs/tree"}}, **{"$defs": {"tree": {"items": {"$ref": "#/$defs/tree"}}}}),
        long(SCHEMA_BYTES_MAX),
        references(REFERENCES_MAX),
        of({}, allOf=[{}] * (SUBSCHEMAS_MAX - 2)),
        patterns(200, "^[a-z]{1,60}"),
        patterns(1, "(?i)" + "[\x01-\uffff]" * 190),
    ],
)
def test_what_people_write_is_a_schema(schema: dict[str, Any]) -> None:
    """Names, numbers of accounts, trees; up to the bounds."""
    assert "" == problem(schema)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (long(SCHEMA_BYTES_MAX + 1), "larger than 20000 bytes"),
        (references(REFERENCES_MAX + 1), "more than 50 references"),
        (of({}, allOf=[{}] * (SUBSCHEMAS_MAX - 1)), "more than 500 subschemas"),
        (of({}, allOf=[{}] * 6_500), "more than 500 subschemas"),
        (of({f"p{each}": True for each in range(1_400)}), "more than 500 subschemas"),
        (of({}, anyOf=[{"not": {"not": {}}} for _ in range(800)]), "more than 500 subschemas"),
        (patterns(300, "^(a|b){1,900}x"), "the patterns are too large together: repeat fewer things, or less often"),
        (patterns(1, "(?:(?i)" + r"\PL" * 4_500 + "){0}"), "patterns of more than 5000 characters in all"),
        (patterns(1, "a" * 1_001), "pattern too large: it has more than 1000 characters"),
        (patterns(1, r"\pL{1000}"), "cannot be matched in linear time: pattern too large"),
        (of({"a": {"patternProperties": {f"(a|b){{1,900}}{each}": {} for each in range(300)}}}), "too large together"),
        (of({"const": {"pattern": r"\pL{1000}"}}), "pattern too large"),
        (patterns(1, "(?=a)"), "cannot be matched in linear time"),
        ({"type": "array"}, "must be of type 'object'"),
    ],
)
def test_what_costs_too_much_is_refused_in_no_time(schema: dict[str, Any], said: str) -> None:
    """Thousands of repetitions kept the gateway busy for ten seconds."""
    begun = time.process_time()
    found = problem(schema)
    assert (True, True) == (found.startswith("422 invalid-schema #/answer_schema "), said in found)
    assert time.process_time() - begun < 0.5
