"""The rulebook file: YAML in, a checked `Rulebook` out, or every problem with file, line and column.

Checking is strict because it happens once, in front of its author, while a rule that silently never matches
is found out by an accident. A file with one problem is not used at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from placet.domain.catalog import Catalog, ToolSpec, catalog_from
from placet.domain.cel import ConditionInvalid
from placet.domain.directory import Directory
from placet.domain.directory_file import directory_from
from placet.domain.house_tools import ACCOMPLISH_SPEC, COMMIT_SPEC
from placet.domain.yaml_source import Steps, YamlSource, did_you_mean, read_yaml
from placet.policy.rulebook.approval_checks import check_approval
from placet.policy.rulebook.entries import ApprovalEntry, FileEntry, RuleEntry
from placet.policy.rulebook.rule_checks import (
    check_limits_bite,
    check_name,
    check_reachable,
    check_requesters,
    checked_limits,
)
from placet.policy.rulebook.scope import Scope
from placet.policy.rulebook.stage_checks import check_stage
from placet.policy.rules import DEFAULTS, OPERATORS, Rule, Rulebook
from placet.policy.rules.conditions import CelCondition, compile_condition

#: Tools of the house that rules may be for, only by their names: a rule for every tool is none for what commits what
#: they have staged, nor for what has a job done with them.
_BY_NAME = {spec.name: spec for spec in (COMMIT_SPEC, ACCOMPLISH_SPEC)}


def load_rulebook(path: Path | str) -> Rulebook:
    """Return the rulebook at `path`; raise RulebookInvalid with every problem found in it."""
    return rulebook_from(read_yaml(path))


def rulebook_from(source: YamlSource, directory: Directory | None = None, *, lenient: bool = False) -> Rulebook:
    """Return the rulebook in `source`; raise RulebookInvalid with every problem found in it.

    With `directory` that one counts, and no file is opened that the text names: for a text that somebody sent. When
    `lenient`, groups and people whom it asks may be missing; `source.about_people` then says who is.
    """
    people = directory if directory is not None and names_directory(source) else directory_from(source)
    catalog = catalog_from(source)
    head = _head(source)
    rules = _rules(source, catalog, Scope(people, (*catalog.values(), *_BY_NAME.values()), channels=head.channels))
    _check_stage_defaults(source, head)
    for steps, entry in _other_approvals(head):
        check_approval(source, steps, entry, Scope(people, tuple(catalog.values()), channels=head.channels))
    if head.fallback is not None and head.fallback.grants is not None:
        problem = "nobody can allow calls from now on that no rule could judge, so 'fallback' takes no 'grants'"
        source.report(("fallback", "grants"), problem)
    if lenient:
        source.forgive_people()
    source.check()
    own = {category: entry.ruling(f"Default for {category}.") for category, entry in head.defaults.items()}
    defaults = {**DEFAULTS, **own}
    check_limits_bite(source, rules, catalog, defaults)
    source.check()
    fallback = head.fallback.rule() if head.fallback else OPERATORS
    asked = [fallback, *(ruling.approval for ruling in (*defaults.values(), *(rule.ruling for rule in rules)))]
    return Rulebook(
        digest=source.digest,
        tools=catalog,
        rules=tuple(rules),
        defaults=defaults,
        fallback=fallback,
        directory=people,
        permit_expires_after_seconds=head.permit_expires_after_seconds,
        uses_history=any(isinstance(rule.condition, CelCondition) and rule.condition.uses_history for rule in rules),
        uses_veto_windows=any(approval is not None and approval.veto_window_seconds for approval in asked),
    )


def names_directory(source: YamlSource) -> bool:
    """Tell whether a text has its people from another file."""
    return "directory" in source.data


def declared(source: YamlSource, key: Literal["tools", "rules"]) -> list[Any]:
    """Return the names of the tools or the bodies of the rules that the file declares, valid or not.

    A name is a text: what else stands there is reported where the tools are read.
    """
    value = source.data.get(key)
    if key == "tools":
        return [name for name in value if isinstance(name, str)] if isinstance(value, dict) else []
    return list(value) if isinstance(value, dict | list) else []


def _head(source: YamlSource) -> FileEntry:
    try:
        return FileEntry.model_validate(source.data)
    except ValidationError as error:
        source.report_validation(error, ())
        return FileEntry()


def _other_approvals(head: FileEntry) -> Iterator[tuple[Steps, ApprovalEntry]]:
    """Yield the approvals that stand outside of rules."""
    if head.fallback is not None:
        yield ("fallback",), head.fallback
    for category, entry in head.defaults.items():
        if entry.approval is not None:
            yield ("defaults", category.value, "approval"), entry.approval


def _check_stage_defaults(source: YamlSource, head: FileEntry) -> None:
    for category, entry in head.defaults.items():
        check_stage(source, ("defaults", category.value), entry, frozenset())


def _rules(source: YamlSource, catalog: Catalog, scope: Scope) -> list[Rule]:
    rules: list[Rule] = []
    deciding: list[tuple[Rule, str | None]] = []
    for index, body in enumerate(declared(source, "rules")):
        steps: Steps = ("rules", index)
        try:
            entry = RuleEntry.model_validate(body)
        except ValidationError as error:
            source.report_validation(error, steps)
            continue
        rule = _rule(source, steps, entry, catalog)
        check_stage(source, steps, entry, rule.tools)
        check_name(source, steps, rule, rules)
        check_requesters(source, (*steps, "match", "requester"), rule.requesters, scope.directory)
        check_reachable(source, steps, rule, entry.when, deciding)
        if entry.approval is not None:
            check_approval(source, (*steps, "approval"), entry.approval, scope.of(rule))
        rules.append(rule)
        deciding += [] if entry.limits else [(rule, entry.when)]
    return rules


def _rule(source: YamlSource, steps: Steps, entry: RuleEntry, catalog: Catalog) -> Rule:
    tools = frozenset(_matched_tools(source, (*steps, "match", "tool"), entry.match.tool))
    return Rule(
        name=entry.name,
        ruling=entry.ruling(entry.reason),
        tools=tools,
        agent=entry.match.agent,
        tenant=entry.match.tenant,
        labels=entry.match.labels,
        requesters=tuple(entry.match.requester),
        condition=_condition(source, (*steps, "when"), entry.when, _specs(tools, catalog)) if entry.when else None,
        limits=checked_limits(source, (*steps, "limits"), entry.limits, entry.effect, _specs(tools, catalog)),
    )


def _matched_tools(source: YamlSource, steps: Steps, patterns: Iterable[str]) -> Iterable[str]:
    """Yield the tools that the patterns match; report a pattern without any: it never decides."""
    names = declared(source, "tools")
    for index, pattern in enumerate(patterns):
        found = [pattern] if pattern in _BY_NAME else [name for name in names if fnmatchcase(name, pattern)]
        if not found and names:
            here = (*steps, index) if (*steps, index) in source.values else steps
            source.report(here, _no_tool(pattern, names))
        yield from found


def _specs(tools: frozenset[str], catalog: Catalog) -> list[ToolSpec]:
    return [spec for name, spec in (*catalog.items(), *_BY_NAME.items()) if name in tools]


def _no_tool(pattern: str, names: list[str]) -> str:
    if any(char in pattern for char in "*?["):
        return f"pattern {pattern!r} matches no tool, so this rule could never decide anything"
    return f"unknown tool {pattern!r}{did_you_mean(pattern, names)}"


def _condition(source: YamlSource, steps: Steps, text: str, specs: Sequence[ToolSpec]) -> CelCondition | None:
    try:
        return compile_condition(text, specs)
    except ConditionInvalid as error:
        for offset, problem in error.problems:
            source.report(steps, problem, inside=offset)
        return None
