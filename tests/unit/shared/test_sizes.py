"""How long a value would be is known before it is written, whatever stands in it how often."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, NamedTuple

import pydantic.dataclasses
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, PlainSerializer, RootModel, ValidationError, field_serializer, model_serializer
from pydantic_core import to_jsonable_python

from placet.contracts.sizes import is_longer, text_of

LIMIT = 10_000
KEYS = st.text() | st.integers() | st.booleans() | st.none() | st.tuples(st.text(), st.integers())


def _written(made: dict[Any, Any]) -> Any:
    """Return a dictionary of as many keys as are written, for some are written alike."""
    return to_jsonable_python(dict.fromkeys(made))


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner).filter(lambda made: len(made) == len(_written(made))),
)


def folded(part: Any, times: int = 40) -> Any:
    """Return what holds a part 2 ** `times` times, as aliases do."""
    for _ in range(times):
        part = [part, part]
    return part


def cyclic() -> list[Any]:
    """Return a list that holds itself."""
    value: list[Any] = []
    value.append(value)
    return value


class Color(Enum):
    """Writes a text that is its value."""

    LONG = "x" * LIMIT


@dataclass
class Point:
    """Holds anything."""

    x: Any


class Anything(BaseModel, extra="allow"):
    """Holds anything."""

    x: Any = None


class Guarded(BaseModel):
    """Writes little of what it holds."""

    picture: Annotated[bytes, PlainSerializer(len)] = b"x" * LIMIT
    text: str = "x" * LIMIT
    left_out: str = Field("x" * LIMIT, exclude=True)

    @field_serializer("text")
    def short(self, text: str) -> str:
        """Return the beginning."""
        return text[:1]


class Counted(BaseModel):
    """Writes a number."""

    rows: list[str] = ["x" * LIMIT]

    @model_serializer
    def count(self) -> int:
        """Return how many there are."""
        return len(self.rows)


class Digit(IntEnum):
    """Writes a digit of four bits."""

    NINE = 9


class Pair(NamedTuple):
    """Writes two digits of four bits."""

    a: int = 8
    b: int = 9


class Base(BaseModel):
    """Is all that is written of what extends it."""

    a: int = 1


class Extended(Base):
    """Holds more."""

    b: str = "x" * LIMIT


class Root(RootModel[int]):
    """Writes a digit."""


class ShortRoot(RootModel[Annotated[str, PlainSerializer(lambda text: text[:3])]]):
    """Writes three characters."""


class Declared(BaseModel, extra="allow"):
    """Writes little of each field."""

    __pydantic_extra__: dict[str, Base]
    based: list[Base] = [Extended()]
    either: Base | None = Extended()
    inner: list[Annotated[str, PlainSerializer(lambda text: text[:3])]] = ["x" * LIMIT]
    left_out: str = Field("x" * LIMIT, exclude_if=bool)


@pydantic.dataclasses.dataclass
class Checked:
    """Writes little of what it holds."""

    left_out: Annotated[str, Field(exclude=True)] = "x" * LIMIT


@given(PLAIN)
@example([8] * LIMIT)
@example([each % 10 for each in range(LIMIT)])
@example([1 << each for each in range(200)])
@example([Digit.NINE] * LIMIT)
@example([Pair()] * LIMIT)
@example([Root(8)] * LIMIT)
@example(ShortRoot("x" * LIMIT))
@example({("a", "1"): 1})
@example({(): 1})
@example({("",) * LIMIT: 1})
@example({(("a", "b"), ("", ()), 1): 1})
@example(Declared(other=Extended()))
@example(Checked())
def test_nothing_that_fits_is_longer(value: Any) -> None:
    """A value is never taken for longer than its JSON."""
    plain = to_jsonable_python(value)
    size = len(json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode(errors="replace"))
    assert not is_longer(value, size)


@pytest.mark.parametrize(
    "value",
    [
        "x" * LIMIT,
        b"x" * LIMIT,
        1 << 8 * LIMIT,
        Decimal("1" * LIMIT),
        [0] * LIMIT,
        {"x" * LIMIT: 0},
        Color.LONG,
        folded(0),
        folded("x"),
        folded({}),
        folded(()),
        cyclic(),
        Point(folded(0)),
        Anything(x=folded(0)),
        Anything.model_validate({"other": folded(0)}),
        RootModel[list[Any]](folded(0)),
        {1: folded(0)},
        *({key: 0, "x": folded(0)} for key in (1, 1.5, None, date(2024, 1, 1), ("x", 1))),
        {"1": folded(0), 1: "x"},
        [{key: 0} for key in [b"x" * 100] * LIMIT],
        {("x" * LIMIT, 1): 0},
        {("x" * 100,) * (LIMIT // 100): 0},
        {(1, ("x" * 100,) * (LIMIT // 100)): 0},
        {Color.LONG: 0},
        {"deep": deque([{"x": [Point(Anything(x=folded(0)))]}])},
        ValueError(folded(0)),
        ExceptionGroup("several", [ValueError(folded(0))]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_longer_is_found_without_writing_it(value: Any) -> None:
    """A part counts as often as it would be written, wherever it stands."""
    assert is_longer(value, LIMIT - 1)


@pytest.mark.parametrize("value", [Guarded(), Counted(), Color, Point, object()], ids=lambda _: "")
def test_what_own_code_writes_is_not_counted(value: Any) -> None:
    """What it makes of much may be little, and an effect that happened is not to be told as failed."""
    assert not is_longer(value, LIMIT - 1)


def test_a_model_is_longer_by_what_it_writes() -> None:
    """A model whose JSON is within the limit is."""
    for value in (Guarded(), Anything(x=[Point(1)]), Counted()):
        assert not is_longer(value, len(json.dumps(to_jsonable_python(value), separators=(",", ":"))))


def test_an_error_that_a_model_raises_is_as_long_as_what_it_is_about() -> None:
    """Its text would write all of that to show the beginning."""
    with pytest.raises(ValidationError) as caught:
        Guarded.model_validate({"text": folded(0)})
    assert is_longer(caught.value, LIMIT)


def test_an_error_is_as_long_as_what_is_told_of_it() -> None:
    """What it was raised from counts once, however long the chain is."""
    error = ValueError("x")
    for _ in range(30):
        raised = ValueError("x")
        # As where it is raised while the other one is handled.
        raised.__cause__ = raised.__context__ = error
        error = raised
    assert not is_longer(error, LIMIT)
    assert is_longer(error, 60)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("x" * LIMIT, "xxxx"), (3, "3"), (ValueError("bad one"), "bad "), (folded(0), "list"), (10**LIMIT, "int")],
    ids=lambda value: type(value).__name__,
)
def test_a_text_is_cut_or_named(value: Any, expected: str) -> None:
    """Whatever was given for it."""
    assert expected == text_of(value, 4)
