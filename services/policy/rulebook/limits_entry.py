"""`limits:` of a rule in the rulebook file: its form, and the checks against the tools that the rule is for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, model_validator

from placet.contracts.messages.tool_calls import Category
from placet.domain.catalog import Catalog, ToolSpec, placed_error
from placet.domain.yaml_source import Steps, YamlSource
from placet.policy.rules import Effect, Rule, Ruling
from placet.policy.rules.limits import Limit, Per

#: Longest window, in seconds: a year.
WITHIN_SECONDS_MAX = 31_536_000
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"([1-9][0-9]{0,8})([smhd])")


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


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SumEntry(_Entry):
    """A limit on what the values of an argument come to."""

    argument: Annotated[
        str,
        Field(pattern=r"^[^.\s]+(\.[^.\s]+)*$", max_length=200, description="Its name; `order.total` inside another."),
    ]
    at_most: Annotated[Number, Field(gt=0)]


class LimitEntry(_Entry):
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


def checked_limits(
    source: YamlSource, steps: Steps, entries: Sequence[LimitEntry], effect: Effect, specs: Iterable[ToolSpec]
) -> tuple[Limit, ...]:
    """Return the limits of a rule for the tools `specs`; report in `source` what makes no sense there."""
    specs = tuple(specs)
    if entries and effect is Effect.DENY:
        source.report(steps, "a rule that denies uses nothing up, so it takes no 'limits'")
    for index, entry in enumerate(entries):
        if entry.sum is not None:
            for problem in _problems(entry.sum.argument, specs):
                source.report((*steps, index, "sum", "argument"), problem)
    return tuple(entry.limit() for entry in entries)


def check_limits_bite(
    source: YamlSource, rules: Sequence[Rule], catalog: Catalog, defaults: Mapping[Category, Ruling]
) -> None:
    """Report limits of `rules`, all there are in the file, that change nothing: what has no room is allowed anyway."""
    for index, rule in enumerate(rules):
        below = frozenset[str]().union(*(other.tools for other in rules[index + 1 :]))
        freed = [
            name
            for name in catalog
            if name in rule.tools - below and defaults[catalog[name].category].effect is Effect.ALLOW
        ]
        if rule.limits and rule.ruling.effect is Effect.ALLOW and freed:
            problem = f"limits without effect: no rule below is for {', '.join(freed)}, whose category is allowed"
            source.report(("rules", index, "limits"), problem)


def _problems(argument: str, specs: Iterable[ToolSpec]) -> Iterable[str]:
    for spec in specs:
        schema: Any = spec.parameters
        for name in argument.split("."):
            below = schema.get("properties") if isinstance(schema, dict) else None
            schema = below.get(name) if isinstance(below, dict) else None
        if schema is None:
            yield f"no argument {argument!r} in {spec.name}"
        elif not isinstance(schema, dict) or schema.get("type") not in {"number", "integer"}:
            yield f"argument {argument!r} of {spec.name} is no number, so it has no sum"
