"""What always fails in a condition is found before any call is held by it."""

from __future__ import annotations

import pytest

from placet.domain.cel import INT, STRING, VALUES, Environment
from placet.policy.rules.cel_failures import failures

ENVIRONMENT = Environment({"name": STRING, "count": INT, "arguments": VALUES})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1/0 == 1", [(1, "divide by zero")]),
        ('name == "ü" && 1/0 == 1', [(16, "divide by zero")]),
        ('name == "x" ? 1 % 0 == 1 : false', [(16, "modulus by zero")]),
        ("count / (1 - 1) == 2", [(6, "divide by zero")]),
        ("count % 0 == 1 || -(1/0) == count", [(6, "divide by zero"), (21, "divide by zero")]),
        ("arguments.amount / 0 == 1", [(17, "divide by zero")]),
        ("[1, 2].exists(each, each / 0 == 1)", [(25, "divide by zero")]),
        ('name.matches("(")', [(12, "invalid regular expression: missing ): (")]),
        ('{"a": int("many")}["a"] == count', [(9, "cannot convert string to int")]),
        ('{"a": 1}["b"] == count', [(8, 'Key not found in map : "b"')]),
        ("[1][5] == count", [(3, "Index error: index=5 size=1")]),
        ("9223372036854775807 + 1 == count", [(20, "integer overflow")]),
    ],
)
def test_what_always_fails_is_found_in_its_place(text: str, found: list[tuple[int, str]]) -> None:
    """The innermost part that no call can give a value, with the offset of its operator or function."""
    assert [(at, f"this always fails: {why}") for at, why in found] == failures(ENVIRONMENT.compile(text))


@pytest.mark.parametrize(
    "text",
    [
        "count / 2 == 1",
        "1.0 / 0.0 > 5.0",
        "arguments.amount / arguments.count > 5",
        "[1][count] == 1",
        'name in ["a", "b"] && has(arguments.note)',
        'name.matches("^a+$")',
        "true || 1/0 == 1",
        'timestamp("2026-01-01T00:00:00Z") > timestamp("2025-01-01T00:00:00Z")',
    ],
)
def test_what_may_have_a_value_is_none_of_that(text: str) -> None:
    """Whether it fails depends on the call, or on nothing that counts."""
    assert [] == failures(ENVIRONMENT.compile(text))
