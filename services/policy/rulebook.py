"""The rulebook file: YAML in, a checked `Rulebook` out, or every problem with file, line and column.

Checking is strict because it happens once, in front of its author, while a rule that silently never matches
is found out by an accident. A file with one problem is not used at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, ValidationError, model_validator

from services.policy.conditions import CelCondition, ConditionInvalid, compile_condition
from services.policy.limits_entry import LimitEntry, check_limits_bite, checked_limits
from services.policy.rules import DEFAULTS, RESERVED_NAMES, Effect, Rule, Rulebook, Ruling
from shared.catalog import Catalog, Category, catalog_from, placed_error
from shared.messages.approvals import ApprovalRule
from shared.yaml_source import Steps, YamlSource, read_yaml

Text = Annotated[str, Field(min_length=1, max_length=500)]
Glob = Annotated[str, Field(min_length=1, max_length=128)]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ApprovalEntry(ApprovalRule):
    """`approval:` in the file, with the message's fields and no others."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class RulingEntry(_Entry):
    """What the file says about an effect: one of `defaults`, and the second half of each rule."""

    effect: Effect
    reason: Annotated[Text | None, Field(description="For people.")] = None
    model_reason: Annotated[Text | None, Field(description="For the model.")] = None
    approval: ApprovalEntry | None = None

    @model_validator(mode="after")
    def _check_approval(self) -> RulingEntry:
        held = self.effect is Effect.REQUIRE_APPROVAL
        if held and self.approval is None:
            raise placed_error([(("effect",), "effect 'require_approval' needs key 'approval': who decides")])
        if not held and self.approval is not None:
            raise placed_error([(("approval",), f"effect '{self.effect}' asks nobody, so it takes no 'approval'")])
        return self

    def ruling(self, reason: str) -> Ruling:
        """Return the checked value; `reason` stands in where the file gives none."""
        approval = ApprovalRule(**self.approval.model_dump()) if self.approval else None
        return Ruling(self.effect, self.reason or reason, self.model_reason, approval)


class MatchEntry(_Entry):
    """Which calls a rule is for. What is left out matches everything."""

    tool: Annotated[list[Glob], BeforeValidator(_as_list), Field(min_length=1)] = Field(default_factory=lambda: ["*"])
    agent: Glob = "*"
    tenant: Glob = "*"


class RuleEntry(RulingEntry):
    """One of `rules`."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    reason: Text
    match: MatchEntry = Field(default_factory=MatchEntry)
    when: Annotated[str | None, Field(min_length=1, max_length=4000, description="A CEL condition.")] = None
    limits: Annotated[list[LimitEntry], Field(max_length=8)] = Field(default_factory=list)


class FileEntry(_Entry):
    """The top of the file. `tools` is read by the catalogue, `rules` one by one."""

    version: Literal[1] = 1
    permit_expires_after_seconds: Annotated[int, Strict(), Field(ge=1, le=86_400)] = 900
    defaults: dict[Category, RulingEntry] = Field(default_factory=dict)
    tools: Any = None
    rules: list[Any] = Field(default_factory=list)


def load_rulebook(path: Path | str) -> Rulebook:
    """Return the rulebook at `path`; raise RulebookInvalid with every problem found in it."""
    return rulebook_from(read_yaml(path))


def rulebook_from(source: YamlSource) -> Rulebook:
    """Return the rulebook in `source`; raise RulebookInvalid with every problem found in it."""
    catalog = catalog_from(source)
    head = _head(source)
    rules = _rules(source, catalog)
    source.check()
    own = {category: entry.ruling(f"Default for {category}.") for category, entry in head.defaults.items()}
    defaults = {**DEFAULTS, **own}
    check_limits_bite(source, rules, catalog, defaults)
    source.check()
    return Rulebook(
        digest=source.digest,
        tools=catalog,
        rules=tuple(rules),
        defaults=defaults,
        permit_expires_after_seconds=head.permit_expires_after_seconds,
        uses_history=any(isinstance(rule.condition, CelCondition) and rule.condition.uses_history for rule in rules),
    )


def declared(source: YamlSource, key: Literal["tools", "rules"]) -> list[Any]:
    """Return the names of the tools or the bodies of the rules that the file declares, valid or not."""
    value = source.data.get(key)
    return list(value) if isinstance(value, dict | list) else []


def _head(source: YamlSource) -> FileEntry:
    try:
        return FileEntry.model_validate(source.data)
    except ValidationError as error:
        source.report_validation(error, ())
        return FileEntry()


def _rules(source: YamlSource, catalog: Catalog) -> list[Rule]:
    rules: list[Rule] = []
    unconditional: list[Rule] = []
    for index, body in enumerate(declared(source, "rules")):
        steps: Steps = ("rules", index)
        try:
            entry = RuleEntry.model_validate(body)
        except ValidationError as error:
            source.report_validation(error, steps)
            continue
        rule = _rule(source, steps, entry, catalog)
        _check_name(source, steps, rule, rules)
        _check_reachable(source, steps, rule, unconditional)
        rules.append(rule)
        unconditional += [rule] if entry.when is None and not entry.limits else []
    return rules


def _rule(source: YamlSource, steps: Steps, entry: RuleEntry, catalog: Catalog) -> Rule:
    tools = frozenset(_matched_tools(source, (*steps, "match", "tool"), entry.match.tool))
    return Rule(
        name=entry.name,
        ruling=entry.ruling(entry.reason),
        tools=tools,
        agent=entry.match.agent,
        tenant=entry.match.tenant,
        condition=_condition(source, (*steps, "when"), entry.when, tools, catalog) if entry.when else None,
        limits=checked_limits(
            source, (*steps, "limits"), entry.limits, entry.effect, [catalog[name] for name in catalog if name in tools]
        ),
    )


def _matched_tools(source: YamlSource, steps: Steps, patterns: Iterable[str]) -> Iterable[str]:
    """Yield the tools that the patterns match; report a pattern without any: it never decides."""
    names = declared(source, "tools")
    for index, pattern in enumerate(patterns):
        found = [name for name in names if fnmatchcase(name, pattern)]
        if not found and names:
            here = (*steps, index) if (*steps, index) in source.values else steps
            source.report(here, _no_tool(pattern, names))
        yield from found


def _no_tool(pattern: str, names: list[str]) -> str:
    if any(char in pattern for char in "*?["):
        return f"pattern {pattern!r} matches no tool, so this rule could never decide anything"
    close = get_close_matches(pattern, names, n=1)
    return f"unknown tool {pattern!r}" + (f", did you mean {close[0]!r}?" if close else "")


def _condition(
    source: YamlSource, steps: Steps, text: str, tools: frozenset[str], catalog: Catalog
) -> CelCondition | None:
    try:
        return compile_condition(text, [catalog[name] for name in catalog if name in tools])
    except ConditionInvalid as error:
        for offset, problem in error.problems:
            source.report(steps, problem, inside=offset)
        return None


def _check_name(source: YamlSource, steps: Steps, rule: Rule, above: list[Rule]) -> None:
    if rule.name in RESERVED_NAMES:
        source.report((*steps, "name"), f"the name {rule.name!r} is reserved")
    if any(rule.name == other.name for other in above):
        source.report((*steps, "name"), f"duplicate rule name {rule.name!r}")


def _check_reachable(source: YamlSource, steps: Steps, rule: Rule, unconditional: list[Rule]) -> None:
    """Report a rule whose calls are all decided by rules above it that have no condition."""
    catching = [other for other in unconditional if _catches_all(other, rule)]
    if rule.tools and rule.tools <= frozenset[str]().union(*(other.tools for other in catching)):
        names = ", ".join(repr(other.name) for other in catching if other.tools & rule.tools)
        source.report((*steps, "name"), f"never reached: {names} above decides every call this rule matches")


def _catches_all(other: Rule, rule: Rule) -> bool:
    return other.agent in {"*", rule.agent} and other.tenant in {"*", rule.tenant}
