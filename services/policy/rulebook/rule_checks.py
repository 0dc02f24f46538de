"""What a rule may get wrong although each of its words is right: nobody reaches it, or nobody or nothing is left to it.

Every check notes its problem at the place that its author has to change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from placet.contracts.messages.tool_calls import Category
from placet.domain.approvers import GROUP, PERSON, read_approver
from placet.domain.catalog import Catalog, ToolSpec
from placet.domain.cel import constant
from placet.domain.directory import Directory
from placet.domain.limits import Limit, LimitEntry
from placet.domain.yaml_source import Steps, YamlSource
from placet.policy.rulebook.scope import is_pattern
from placet.policy.rules import RESERVED_NAMES, Effect, Rule, Ruling


def check_name(source: YamlSource, steps: Steps, rule: Rule, above: list[Rule]) -> None:
    """Report a name that verdicts need for themselves, or that another rule has."""
    if rule.name in RESERVED_NAMES:
        source.report((*steps, "name"), f"the name {rule.name!r} is reserved")
    if any(rule.name == other.name for other in above):
        source.report((*steps, "name"), f"duplicate rule name {rule.name!r}")


def check_reachable(
    source: YamlSource, steps: Steps, rule: Rule, when: str | None, above: Iterable[tuple[Rule, str | None]]
) -> None:
    """Report a rule whose calls are all decided by rules above it: those without a condition, or with the same one."""
    catching = [
        other for other, text in above if (text in {None, when} or constant(str(text))) and _catches_all(other, rule)
    ]
    if rule.tools and rule.tools <= frozenset[str]().union(*(other.tools for other in catching)):
        names = ", ".join(repr(other.name) for other in catching if other.tools & rule.tools)
        source.report((*steps, "name"), f"never reached: {names} above decides every call this rule matches")


def _catches_all(other: Rule, rule: Rule) -> bool:
    return (
        _covers(other.agent, rule.agent)
        and _covers(other.tenant, rule.tenant)
        and all(name in rule.labels and _covers(glob, rule.labels[name]) for name, glob in other.labels.items())
        and all(any(_covers(wide, narrow) for wide in other.requesters) for narrow in rule.requesters)
    )


def _covers(wide: str, narrow: str) -> bool:
    """Tell whether all that one glob matches another matches too, as far as that is plain to see."""
    if wide in {"*", narrow}:
        return True
    if wide.startswith(GROUP):
        return False
    if narrow.startswith(GROUP):
        return wide == f"{PERSON}*"
    if not is_pattern(narrow):
        return fnmatchcase(narrow, wide)
    # `web*` has all of `web-shop*`; of other patterns nobody says so.
    begin = wide.removesuffix("*")
    return wide.endswith("*") and not is_pattern(begin) and narrow.startswith(begin)


def check_requesters(source: YamlSource, steps: Steps, requesters: Sequence[str], directory: Directory) -> None:
    """Report groups and people whom the directory does not have: such a rule never decides."""
    for index, requester in enumerate(requesters):
        if problem := nobody_behind(requester, directory):
            source.report_people((*steps, index) if (*steps, index) in source.values else steps, problem)


def nobody_behind(approver: str, directory: Directory) -> str | None:
    """Return why an approver or requester stands for nobody; None where they stand for somebody or are a pattern."""
    named = read_approver(approver)
    name = named.name
    if named.kind == "group":
        if name not in directory.groups:
            return f"unknown group {name!r}"
        return None if directory.members(name) else f"group {name!r} has no active members"
    if named.kind != "person" or not directory.people or is_pattern(name):
        return None
    if name not in directory.people:
        return f"unknown person {name!r}"
    return None if directory.is_active(name) else f"person {name!r} is not active"


def checked_limits(
    source: YamlSource, steps: Steps, entries: Sequence[LimitEntry], effect: Effect, specs: Iterable[ToolSpec]
) -> tuple[Limit, ...]:
    """Return the limits of a rule for the tools `specs`; report in `source` what makes no sense there."""
    specs = tuple(specs)
    if entries and effect is Effect.DENY:
        source.report(steps, "a rule that denies uses nothing up, so it takes no 'limits'")
    for index, entry in enumerate(entries):
        if entry.sum is not None:
            for problem in _sum_problems(entry.sum.argument, specs):
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


def _sum_problems(argument: str, specs: Iterable[ToolSpec]) -> Iterable[str]:
    for spec in specs:
        schema: Any = spec.parameters
        for name in argument.split("."):
            below = schema.get("properties") if isinstance(schema, dict) else None
            schema = below.get(name) if isinstance(below, dict) else None
        if schema is None:
            yield f"no argument {argument!r} in {spec.name}"
        elif not isinstance(schema, dict) or schema.get("type") not in {"number", "integer"}:
            yield f"argument {argument!r} of {spec.name} is no number, so it has no sum"
