"""Limits of rules as the rulebook writes them: how many calls, or how much of an argument, within a sliding window."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, Strict, ValidationError, model_validator

from placet.domain.catalog import placed_error
from placet.domain.yaml_source import WrittenEntry, read_yaml

#: Longest window, in seconds: a year.
WITHIN_SECONDS_MAX = 31_536_000
#: Largest sum. What is beyond it limits nothing, and not every reader holds it exactly.
SUM_MAX = 10**15
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"([1-9][0-9]{0,8})([smhd])")


class Per(StrEnum):
    """Whose calls are counted together. Tenants are always apart."""

    CONVERSATION = "conversation"
    REQUESTER = "requester"
    AGENT = "agent"
    TENANT = "tenant"


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of a rule."""

    #: Most calls, or the most that the amounts of all calls may come to.
    at_most: Decimal
    per: Per
    within_seconds: int
    #: Path of the argument that is summed; empty where calls are counted.
    argument: tuple[str, ...] = ()

    @property
    def measure(self) -> str:
        """What is counted: `count`, or `sum:` and the argument's path."""
        return f"sum:{'.'.join(self.argument)}" if self.argument else "count"


def span_seconds(key: str, value: int | str) -> int:
    """Return a span in seconds; raise the error of a pydantic validator of `key` for a text that is none."""
    if isinstance(value, int):
        return value
    match = _SPAN.fullmatch(value)
    if match is None:
        raise placed_error([((), f"'{key}' should be a number of seconds, or a text like 90s, 15m, 12h or 30d")])
    return int(match[1]) * _UNITS[match[2]]


def _seconds(value: int | str) -> int:
    value = span_seconds("within", value)
    if not 1 <= value <= WITHIN_SECONDS_MAX:
        raise placed_error([((), f"'within' should be between 1 and {WITHIN_SECONDS_MAX} seconds")])
    return value


Span = Annotated[Annotated[int, Strict()] | Annotated[str, Strict()], AfterValidator(_seconds)]
Number = Annotated[int, Strict()] | Annotated[float, Strict()]


class SumEntry(WrittenEntry):
    """A limit on what the values of an argument come to."""

    argument: Annotated[
        str,
        Field(pattern=r"^[^.\s]+(\.[^.\s]+)*$", max_length=200, description="Its name; `order.total` inside another."),
    ]
    at_most: Annotated[Number, Field(gt=0, le=SUM_MAX)]


class LimitEntry(WrittenEntry):
    """One of `limits`: the rule decides a call only while this has room for it."""

    count: Annotated[int | None, Strict(), Field(ge=1, le=1_000_000, description="At most this many calls.")] = None
    sum: SumEntry | None = None
    per: Annotated[Literal["conversation", "requester", "agent", "tenant"], Field(description="Counted together.")]
    within: Annotated[Span, Field(description="The window, in seconds or as 90s, 15m, 12h, 30d. It slides.")]

    @model_validator(mode="after")
    def _check_measure(self) -> LimitEntry:
        if (self.count is None) == (self.sum is None):
            raise placed_error([((), "a limit needs either key 'count' or key 'sum'")])
        return self

    def limit(self) -> Limit:
        """Return the checked value."""
        if self.sum is None:
            return Limit(Decimal(self.count or 0), Per(self.per), int(self.within))
        path = tuple(self.sum.argument.split("."))
        return Limit(Decimal(str(self.sum.at_most)), Per(self.per), int(self.within), path)


def load_limits(path: Path) -> dict[str, tuple[Limit, ...]]:
    """Return by rule the limits in a rulebook's file; raise RulebookInvalid where it is no YAML or a limit is wrong."""
    source = read_yaml(path)
    rules = source.data.get("rules")
    found: dict[str, tuple[Limit, ...]] = {}
    for index, rule in enumerate(rules if isinstance(rules, list) else ()):
        if isinstance(rule, dict) and isinstance(rule.get("limits"), list):
            try:
                found[str(rule.get("name"))] = tuple(LimitEntry.model_validate(each).limit() for each in rule["limits"])
            except ValidationError as error:
                source.report_validation(error, ("rules", index, "limits"))
    source.check()
    return found
