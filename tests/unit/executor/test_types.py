"""Types that can take nothing of their schema are told; whatever may work is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict
from uuid import UUID

import pytest
from pydantic import BaseModel, BeforeValidator, Field, RootModel, model_validator

from placet.tools import ToolContext, ToolError
from placet.tools.signatures import impossible_types, read_signature
from tests.support.tool_builders import a_context


class _Sky(Enum):
    CLEAR = "clear"


class _Number(int):
    """A type of its own."""


class _Model(BaseModel):
    city: str


class _Converts(BaseModel):
    city: str

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, value: Any) -> Any:
        return {"city": value}


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
        (int | None, {"type": "string"}, "takes 'a' as int | None, but the schema says string"),
        (Optional[int], {"type": "string"}, "takes 'a' as int | None, but the schema says string"),  # noqa: UP045 - as others write it
        (int | list[int], {"type": "string"}, "takes 'a' as int | list, but the schema says string"),
        (Annotated[int, Field(ge=1)], {"type": "string"}, "takes 'a' as int, but the schema says string"),
        (Annotated[int, "words"], {"type": "string"}, "takes 'a' as int, but the schema says string"),
        (Literal[1, 2], {"type": "string"}, "takes 'a' as Literal[1, 2], but the schema says string"),
        (Literal["clear"], {"type": "integer"}, "takes 'a' as Literal['clear'], but the schema says integer"),
        (tuple[int, int], {"type": "string"}, "takes 'a' as tuple, but the schema says string"),
        (None, {"type": "string"}, "takes 'a' as None, but the schema says string"),
        (_Model, {"type": "string"}, "takes 'a' as _Model, but the schema says string"),
        (_Model | None, {"type": "array"}, "takes 'a' as _Model | None, but the schema says array"),
    ],
)
def test_plain_types_that_exclude_each_other_are_told(hint: Any, schema: object, told: str) -> None:
    """With the parameter and both types."""
    assert [told] == _told(hint, schema)


_HINTS = (
    *(Any, int | Any, int | UUID, _Sky, _Number, _Keys, _Id, _Own, _Converts, _Converts | None, RootModel[int]),
    *(date, timedelta, Decimal, Path, UUID, Sequence[int], Mapping[str, int], bytes, Literal[_Sky.CLEAR]),
)
_SCHEMAS = [
    {},
    True,
    *({"type": kind} for kind in ("string", "integer", "number", "boolean", "array", "object", "null")),
]


@pytest.mark.parametrize(("hint", "schema"), [*product(_HINTS, _SCHEMAS)])
def test_types_that_convert_what_they_like_are_never_told(hint: Any, schema: object) -> None:
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


def _taken(hint: Any, kind: str) -> list[Any]:
    """Return what a call would give a parameter, of the values of one type of JSON."""
    schema = {"type": "object", "properties": {"a": {"type": kind}}, "required": ["a"]}
    signature = read_signature(_with(hint), schema)
    taken = []
    for value in _VALUES[kind]:
        try:
            taken.append(signature.keywords({"a": value}, a_context())["a"])
        except ToolError:
            continue
    return taken


@pytest.mark.parametrize("hint", [str, int, float, bool, list, list[int], dict, dict[str, int], int | None, str | int])
@pytest.mark.parametrize("kind", _VALUES)
def test_what_is_told_would_be_refused_at_every_call(hint: Any, kind: str) -> None:
    """The check is never stricter than the conversion of a call's arguments."""
    assert bool(_told(hint, {"type": kind})) == (not _taken(hint, kind))


_MADE = [
    *(Annotated[int, Field(ge=1)], Annotated[str, Field(coerce_numbers_to_str=True)], Literal[1, 2], Literal["a", 1]),
    *(tuple[int, ...], tuple[int, int], set[str], _Model, _Model | list[int], None),
]


@pytest.mark.parametrize(("hint", "kind"), [*product(_MADE, _VALUES)])
def test_what_is_told_of_a_type_that_narrows_would_be_refused_too(hint: Any, kind: str) -> None:
    """What such a type takes of its own kind is not looked at."""
    assert not (_told(hint, {"type": kind}) and _taken(hint, kind))
