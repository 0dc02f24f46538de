"""`limits:` of a rule in the rulebook file: the checks against the tools that the rule is for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from placet.contracts.messages.tool_calls import Category
from placet.domain.catalog import Catalog, ToolSpec
from placet.domain.limits import Limit, LimitEntry
from placet.domain.yaml_source import Steps, YamlSource
from placet.policy.rules import Effect, Rule, Ruling


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
