"""Judging: a call and a rulebook in, a verdict out. The first rule that matches wins, else the default.

Pure, so that the same proposal and the same rulebook always give the same verdict, also long afterwards.
Whatever goes wrong here holds the call for people: an error must never be the reason why something ran.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Protocol, Self

from services.policy.limits import Demand, Limit, demands
from shared.approvers import GROUP, person_id
from shared.canonical import parse_arguments
from shared.card_text import visible
from shared.catalog import Catalog, ToolSpec
from shared.directory import Directory
from shared.messages.approvals import ApprovalRule
from shared.messages.tool_calls import Category, ToolCall

#: Names that verdicts use where no rule of the file decided.
RESERVED_NAMES = frozenset({"unknown-tool", "schema-changed", "dead-letter-discarded", "veto-window"})
#: Longest error text shown with a held call, in characters.
_ERROR_MAX = 300
_DID_NOT_RUN = "The call did not run: "


class Effect(StrEnum):
    """What becomes of a call."""

    ALLOW = "allow"  # a permit is issued at once
    REQUIRE_APPROVAL = "require_approval"  # held until people decide
    STAGE = "stage"  # goes to the conversation's workspace, the world stays untouched
    DENY = "deny"  # never runs


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What the rules may look at: one proposed call."""

    call_id: str
    tenant: str
    conversation_id: str
    agent: str
    #: Stable id of the author whose message triggered the call.
    requester: str
    #: The conversation's labels.
    labels: Mapping[str, str]
    tool: str
    #: Digest of the tool in the catalogue that the agent used.
    schema_digest: str
    arguments: Mapping[str, Any]
    #: Counters of earlier calls for conditions; empty unless the rulebook uses them.
    history: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, call: ToolCall) -> Self:
        """Return the facts of a proposed call; raise NotStrictJson where its arguments are none."""
        return cls(
            call_id=call.call_id,
            tenant=call.tenant,
            conversation_id=call.conversation_id,
            agent=call.agent,
            requester=call.requester,
            labels=call.labels,
            tool=call.tool,
            schema_digest=call.schema_digest,
            arguments=parse_arguments(call.arguments),
        )


class Condition(Protocol):
    """A compiled `when`. Any exception it raises holds the call."""

    def holds(self, call: CallFacts, spec: ToolSpec) -> bool:
        """Tell whether the rule is meant for this call."""
        ...


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a rule or a default answers."""

    effect: Effect
    #: Why, for people.
    reason: str
    #: Why, for the model; None keeps the reason from it.
    model_reason: str | None = None
    #: Who decides; set exactly where the effect is REQUIRE_APPROVAL.
    approval: ApprovalRule | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, with its tool patterns already resolved against the catalogue."""

    name: str
    ruling: Ruling
    tools: frozenset[str]
    #: Globs: `*` any text, `?` one character, `[ab]` one of these.
    agent: str = "*"
    tenant: str = "*"
    condition: Condition | None = None
    #: Labels that the conversation must have, with a glob for the value of each.
    labels: Mapping[str, str] = field(default_factory=dict)
    #: Globs for the requester's id, or `group:<name>`; one is enough.
    requesters: tuple[str, ...] = ("*",)
    #: The rule decides only while each of them has room for the call.
    limits: tuple[Limit, ...] = ()

    def matches(self, call: CallFacts, spec: ToolSpec, directory: Directory) -> bool:
        """Tell whether this rule decides the call; raise whatever its condition raises."""
        return not self.mismatch(call, spec, directory)

    def mismatch(self, call: CallFacts, spec: ToolSpec, directory: Directory) -> str:
        """Return why this rule does not decide the call, for people; empty where it does."""
        if call.tool not in self.tools:
            return "it is for other tools"
        for what, name, glob in (("agent", call.agent, self.agent), ("tenant", call.tenant, self.tenant)):
            if not fnmatchcase(name, glob):
                return f"the {what} is not {glob!r}"
        for name, glob in self.labels.items():
            if name not in call.labels or not fnmatchcase(call.labels[name], glob):
                return f"the label {name!r} is not {glob!r}"
        if not any(_is_requester(call.requester, each, directory) for each in self.requesters):
            return f"the requester is not {' or '.join(map(repr, self.requesters))}"
        if self.condition is not None and not self.condition.holds(call, spec):
            return "its condition is false"
        return ""


def _is_requester(requester: str, wanted: str, directory: Directory) -> bool:
    if wanted.startswith(GROUP):
        return person_id(requester) in directory.behind(wanted)
    return fnmatchcase(requester, wanted)


#: Who decides where nobody was named: a default of the house, or a rule that could not be evaluated.
OPERATORS = ApprovalRule(approvers=["operators"])

_SAFE = Ruling(Effect.ALLOW, "The tool only reads or computes.")
_HELD = Ruling(Effect.REQUIRE_APPROVAL, "The tool acts on the outside world.", approval=OPERATORS)

#: What happens by category where no rule matches and the rulebook says nothing else.
DEFAULTS: Mapping[Category, Ruling] = {
    Category.SAFE_READ: _SAFE,
    Category.SAFE_SEARCH: _SAFE,
    Category.SAFE_COMPUTE: _SAFE,
    Category.UNSAFE_WRITE: Ruling(Effect.STAGE, "The tool changes data."),
    Category.UNSAFE_API: _HELD,
    Category.UNSAFE_EXEC: _HELD,
}


@dataclass(frozen=True, slots=True)
class Rulebook:
    """Everything policy decides by, checked when it was loaded."""

    #: SHA-256 of the file's bytes; pinned to each verdict.
    digest: str
    tools: Catalog
    rules: tuple[Rule, ...] = ()
    defaults: Mapping[Category, Ruling] = field(default_factory=lambda: DEFAULTS)
    #: Who decides where a rule could not be evaluated.
    fallback: ApprovalRule = OPERATORS
    directory: Directory = field(default_factory=Directory)
    #: How long a permit for an allowed or approved call may wait for its executor.
    permit_expires_after_seconds: int = 900
    #: True: conditions ask for counters of earlier calls, so facts must have them.
    uses_history: bool = False
    #: True: denials are remembered, so earlier calls are looked at before one is let through.
    uses_veto_windows: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """Policy's answer to one call."""

    effect: Effect
    #: The rule's name, or `default:<category>`, `unknown-tool`, `schema-changed`.
    rule: str
    #: Why, for people.
    reason: str
    #: One plain sentence for the model; empty where the call may still run.
    model_reason: str
    rulebook_digest: str
    #: Who decides; set exactly where the effect is REQUIRE_APPROVAL.
    approval: ApprovalRule | None = None
    #: The tool; None where the rulebook does not know it.
    spec: ToolSpec | None = None
    #: True: the rule could not be evaluated, so people decide what nobody may have decided before.
    by_error: bool = False
    #: What the call must get of the rule's limits; where there is no room, the call is judged without the rule.
    demands: tuple[Demand, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """What became of one rule."""

    rule: Rule
    #: Why it does not decide the call; empty where it does, and where it failed.
    why: str = ""
    #: Why it could not be evaluated: people decide then.
    error: Exception | None = None
    demands: tuple[Demand, ...] = ()


def judge(call: CallFacts, rulebook: Rulebook, exhausted: Collection[str] = ()) -> Verdict:
    """Return the verdict on `call`. Never raises for what a call contains: an error holds the call.

    The rules named in `exhausted` decide nothing: their limits have no room for this call.
    """
    spec = rulebook.tools.get(call.tool)
    if spec is None:
        return _denied("unknown-tool", f"there is no tool named {call.tool!r}", rulebook)
    if call.schema_digest != spec.schema_digest:
        text = f"tool {call.tool!r} is not the one the agent was offered, it has changed since"
        return _denied("schema-changed", text, rulebook, spec)
    for step in walk(call, spec, rulebook, exhausted):
        name = step.rule.name
        if step.error is not None:
            ruling = _held_by_error(name, step.error, spec, rulebook.fallback)
            return replace(_verdict(name, ruling, rulebook, spec), by_error=True)
        if not step.why:
            return replace(_verdict(name, step.rule.ruling, rulebook, spec), demands=step.demands)
    return _verdict(f"default:{spec.category}", rulebook.defaults[spec.category], rulebook, spec)


def walk(call: CallFacts, spec: ToolSpec, rulebook: Rulebook, exhausted: Collection[str] = ()) -> Iterator[Step]:
    """Yield what becomes of each rule in turn, up to the one that decides or fails; never raises.

    The rules named in `exhausted` are left out.
    """
    for rule in rulebook.rules:
        if rule.name in exhausted:
            continue
        try:
            why = rule.mismatch(call, spec, rulebook.directory)
            wanted = () if why else demands(rule.name, rule.limits, call)
        except Exception as error:  # noqa: BLE001  # fail closed: whatever went wrong, people decide
            yield Step(rule, error=error)
            return
        yield Step(rule, why, demands=wanted)
        if not why:
            return


def judge_within(call: CallFacts, rulebook: Rulebook, rule: str) -> Verdict:
    """Return the verdict on a call of which people decide, or decided, because `rule` held it.

    Another rule with limits decides nothing here: nobody took room for the call there, so what stands below counts.
    """
    passed_over: frozenset[str] = frozenset()
    while (verdict := judge(call, rulebook, passed_over)).demands and verdict.rule != rule:
        passed_over |= {verdict.rule}
    return verdict


def abandoned(by: str, rulebook: Rulebook) -> Verdict:
    """Return the verdict on a call that was never judged, because `by` discarded its proposal's dead letter."""
    verdict = _denied("dead-letter-discarded", "it could not be judged, and an operator gave it up", rulebook)
    return replace(verdict, reason=f"It could not be judged, and its dead letter was discarded by {by}.")


def _verdict(rule: str, ruling: Ruling, rulebook: Rulebook, spec: ToolSpec) -> Verdict:
    return Verdict(
        effect=ruling.effect,
        rule=rule,
        reason=ruling.reason,
        model_reason=_model_reason(ruling),
        rulebook_digest=rulebook.digest,
        approval=ruling.approval,
        spec=spec,
    )


def _model_reason(ruling: Ruling) -> str:
    match ruling.effect:
        case Effect.DENY:
            return _DID_NOT_RUN + (ruling.model_reason or "a rule does not allow it.")
        case Effect.STAGE:
            return _DID_NOT_RUN + "it changes data and would have to be staged, and staging is not available yet."
        case _:
            return ruling.model_reason or ""


def _held_by_error(rule: str, error: Exception, spec: ToolSpec, fallback: ApprovalRule) -> Ruling:
    text = error_text(error, spec)
    # Nobody knows which rule is meant for the call, so nobody can say of which calls they would allow more.
    asked = fallback.model_copy(update={"grants": None})
    return Ruling(Effect.REQUIRE_APPROVAL, f"Rule {rule!r} could not be evaluated: {text}", approval=asked)


def error_text(error: Exception, spec: ToolSpec) -> str:
    """Return what went wrong as people may see it: one short text with nothing hidden in it, and nothing redacted."""
    # An error's text may quote the value it stumbled over.
    said = "" if spec.redact else str(error)
    return visible(said or type(error).__name__)[:_ERROR_MAX]


def _denied(rule: str, text: str, rulebook: Rulebook, spec: ToolSpec | None = None) -> Verdict:
    return Verdict(
        effect=Effect.DENY,
        rule=rule,
        reason=f"{text[0].upper()}{text[1:]}.",
        model_reason=f"{_DID_NOT_RUN}{text}.",
        rulebook_digest=rulebook.digest,
        spec=spec,
    )
