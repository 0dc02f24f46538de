"""Types that can take nothing of their schema are told; whatever may work is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, TypedDict
from uuid import UUID

import pytest
from pydantic import BaseModel, BeforeValidator, Field

from placet.tools import ToolContext, ToolError
from placet.tools.signatures import impossible_types, read_signature
from tests.support.tool_builders import a_context


class _Sky(Enum):
    CLEAR = "clear"


class _Number(int):
    """A type of its own."""


class _Model(BaseModel):
    city: str


class _Keys(TypedDict):
    city: str


_Id = NewType("_Id", int)
_Own = Annotated[int, BeforeValidator(len)]


def _with(hint: Any) -> Callable[..., None]:
    def f(context: ToolContext, a: Any) -> None: ...

    f.__annotations__ = {"context": ToolContext, "a": hint}
    return f


def _told(hint: Any, schema: object) -> list[str]:
    return impossible_types(_with(hint), {"type": "object", "properties": {"a": schema}})


@pytest.mark.parametrize(
    ("hint", "schema", "told"),
    [
        (int, {"type": "string", "minLength": 2}, "takes 'a' as int, but the schema says string"),
        (bool, {"type": "string"}, "takes 'a' as bool, but the schema says string"),
        (list[str], {"type": "string"}, "takes 'a' as list, but the schema says string"),
        (str, {"type": "integer", "minimum": 1}, "takes 'a' as str, but the schema says integer"),
        (str, {"type": "boolean"}, "takes 'a' as str, but the schema says boolean"),
        (str, {"type": "array", "items": {"type": "string"}}, "takes 'a' as str, but the schema says array"),
        (list[int], {"type": "object", "properties": {}}, "takes 'a' as list, but the schema says object"),
        (dict[str, int], {"type": "array"}, "takes 'a' as dict, but the schema says array"),
    ],
)
def test_plain_types_that_exclude_each_other_are_told(hint: Any, schema: object, told: str) -> None:
    """With the parameter and both types."""
    assert [told] == _told(hint, schema)


_HINTS = (
    *(
        Any,
        int | None,
        str | int,
        int | str,
        _Sky,
        _Number,
        _Model,
        _Keys,
        _Id,
        _Own,
        date,
        timedelta,
        Decimal,
        Path,
        UUID,
    ),
    *(
        Annotated[int, Field(ge=1)],
        Literal["clear"],
        tuple[int, ...],
        set[str],
        Sequence[int],
        Mapping[str, int],
        bytes,
    ),
)
_SCHEMAS = [
    {},
    True,
    *({"type": kind} for kind in ("string", "integer", "number", "boolean", "array", "object", "null")),
]


@pytest.mark.parametrize(("hint", "schema"), [*product(_HINTS, _SCHEMAS)])
def test_other_types_than_plain_ones_are_never_told(hint: Any, schema: object) -> None:
    """What they take is theirs to say."""
    assert [] == _told(hint, schema)


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (int, {"type": "string", "pattern": "^[0-9]+$"}),
        (int, {"type": "string", "enum": ["1", "2"]}),
        (bool, {"type": "string", "const": "yes"}),
        (int, {"type": ["string", "integer"]}),
        (int, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        (int, {"$ref": "#/$defs/a"}),
    ],
)
def test_a_schema_that_is_not_plain_is_never_told(hint: Any, schema: object) -> None:
    """Some of its values may be of the type."""
    assert [] == _told(hint, schema)


_VALUES: dict[str, list[Any]] = {
    "integer": [0, 1, -1, 2, 10**12],
    "number": [0, 1, 0.5, 2.0, -1.5],
    "boolean": [True, False],
    "array": [[], [1], ["a"], [["a", 1]]],
    "object": [{}, {"a": 1}],
}


@pytest.mark.parametrize("hint", [str, int, float, bool, list, list[int], dict, dict[str, int]])
@pytest.mark.parametrize("kind", _VALUES)
def test_what_is_told_would_be_refused_at_every_call(hint: Any, kind: str) -> None:
    """The check is never stricter than the conversion of a call's arguments."""
    schema = {"type": "object", "properties": {"a": {"type": kind}}, "required": ["a"]}
    signature = read_signature(_with(hint), schema)
    taken = []
    for value in _VALUES[kind]:
        try:
            taken.append(signature.keywords({"a": value}, a_context())["a"])
        except ToolError:
            continue
    assert bool(_told(hint, schema["properties"]["a"])) == (not taken)  # type: ignore[index]
