"""Judging: a call and a rulebook in, a verdict out. The first rule that matches wins, else the default.

Whatever goes wrong here holds the call for people: an error must never be the reason why something ran.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import MappingProxyType
from typing import TypeAlias

from placet.contracts.messages.approvals import ApprovalRule
from placet.contracts.messages.stage import COMMIT_TOOL, StagePlan
from placet.contracts.permit import NOBODYS, Consent
from placet.domain.card_text import visible
from placet.domain.catalog import ToolSpec, validate_arguments
from placet.domain.house_tools import COMMIT_SPEC
from placet.policy.rules import staging
from placet.policy.rules.call import CallFacts
from placet.policy.rules.limits import Demand, beyond, demands
from placet.policy.rules.model import COMMIT, OPERATORS, Effect, Rule, Rulebook, Ruling

#: Longest error text shown with a held call, in characters.
_ERROR_MAX = 300
_DID_NOT_RUN = "The call did not run: "
#: The rule of a verdict that a veto window made.
VETO_WINDOW = "veto-window"
#: What a call has reserved that took nothing of any limit.
NOTHING: Mapping[str, Decimal] = MappingProxyType({})


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
    #: Digest of the people that it was judged with; empty where they stand in the rulebook.
    directory_digest: str = field(default="", kw_only=True)
    #: Who decides; set where the effect is REQUIRE_APPROVAL, and where a STAGE says who decides the commit.
    approval: ApprovalRule | None = None
    #: The tool; None where the rulebook does not know it.
    spec: ToolSpec | None = None
    #: True: the rule could not be evaluated, so people decide what nobody may have decided before.
    by_error: bool = False
    #: What the call must get of the rule's limits; where there is no room, the call is judged without the rule.
    demands: tuple[Demand, ...] = ()
    #: How it is staged; set exactly where the effect is STAGE.
    plan: StagePlan | None = None
    #: Who is asked about again when the call begins: the owner of a grant that lets it through.
    consent: Consent = NOBODYS

    def tried_entry(self, call_id: str, requester: str) -> staging.StagedEntry | None:
        """Return what a commit that is only tried has of the call; None where it is not staged."""
        if self.spec is None or self.plan is None:
            return None
        return staging.tried_entry(call_id, requester, self.spec, self.plan.on_failure, self.approval)


#: An entry of a commit, and what the rules say of it by now.
JudgedEntry: TypeAlias = tuple[CallFacts, Verdict]


@dataclass(frozen=True, slots=True)
class Step:
    """What became of one rule."""

    rule: Rule
    #: Why it does not decide the call; empty where it does, and where it failed.
    why: str = ""
    #: Why it could not be evaluated: people decide then.
    error: Exception | None = None
    demands: tuple[Demand, ...] = ()


def judge(call: CallFacts, rulebook: Rulebook, exhausted: Collection[str] = (), *, only_tried: bool = False) -> Verdict:
    """Return the verdict on `call`. Never raises for what a call contains: an error holds the call.

    The rules named in `exhausted` decide nothing: their limits have no room for this call. `only_tried`: nobody asks
    for room; a rule decides nothing then whose limits never have room for the call, whatever was before.
    """
    spec = rulebook.spec(call.tool)
    if spec is None:
        if call.tool == COMMIT_TOOL:
            return _judge_commit(call, rulebook, exhausted, only_tried=only_tried)
        return _denied("unknown-tool", f"there is no tool named {call.tool!r}", rulebook)
    if call.schema_digest != spec.schema_digest:
        text = f"tool {call.tool!r} is not the one the agent was offered, it has changed since"
        return _denied("schema-changed", text, rulebook, spec)
    decided = _decided(walk(call, spec, rulebook, exhausted, only_tried=only_tried), spec, rulebook)
    return decided or _verdict(f"default:{spec.category}", rulebook.default_for(spec), rulebook, spec)


def _judge_commit(call: CallFacts, rulebook: Rulebook, exhausted: Collection[str], *, only_tried: bool) -> Verdict:
    """Return the verdict on a commit: what a rule for it says, and never less than what its entries' rules ask."""
    spec = COMMIT_SPEC
    if call.schema_digest != spec.schema_digest or validate_arguments(spec, dict(call.arguments)):
        return _denied("commit-refused", "it is no commit that the agent could propose", rulebook, spec)
    if why := staging.problem(call.arguments, call.staged):
        return _denied("commit-refused", why, rulebook, spec)
    entries = call.staged or ()
    decided = _decided(walk(call, spec, rulebook, exhausted, only_tried=only_tried), spec, rulebook)
    verdict = decided or _verdict(f"default:{COMMIT_TOOL}", COMMIT, rulebook, spec)
    lets_through = verdict.effect is Effect.ALLOW and not staging.names_people(entries)
    if verdict.effect is Effect.DENY or lets_through:
        return verdict
    approval = staging.commit_approval(verdict.approval, entries, OPERATORS)
    reason = staging.commit_reason(verdict.reason, entries)
    return replace(verdict, effect=Effect.REQUIRE_APPROVAL, approval=approval, reason=reason)


def _decided(steps: Iterable[Step], spec: ToolSpec, rulebook: Rulebook) -> Verdict | None:
    """Return the verdict of the first rule that decides a call or fails; None where none does."""
    for step in steps:
        name = step.rule.name
        if step.error is not None:
            ruling = _held_by_error(name, step.error, spec, rulebook.fallback)
            return replace(_verdict(name, ruling, rulebook, spec), by_error=True)
        if not step.why:
            return replace(_verdict(name, step.rule.ruling, rulebook, spec), demands=step.demands)
    return None


def walk(
    call: CallFacts, spec: ToolSpec, rulebook: Rulebook, exhausted: Collection[str] = (), *, only_tried: bool = False
) -> Iterator[Step]:
    """Yield what becomes of each rule in turn, up to the one that decides or fails; never raises.

    The rules named in `exhausted` are left out; `only_tried` as in `judge`.
    """
    for rule in rulebook.rules:
        if rule.name in exhausted:
            continue
        try:
            why = rule.mismatch(call, spec, rulebook.directory)
            wanted = () if why else demands(rule.name, rule.limits, call)
            why = why or (beyond(wanted) if only_tried else "")
        except Exception as error:  # noqa: BLE001  # fail closed: whatever went wrong, people decide
            yield Step(rule, error=error)
            return
        yield Step(rule, why, demands=wanted)
        if not why:
            return


def judge_within(call: CallFacts, rulebook: Rulebook, rule: str, reserved: Mapping[str, Decimal] = NOTHING) -> Verdict:
    """Return the verdict on a call of which people decide, or decided, because `rule` held it.

    Another rule with limits decides nothing here, so what stands below counts, unless the call has room there: what a
    veto window held took it of the rule that let it through. `reserved` is that by counter; an edit takes no more.
    But nothing below denies what such a rule asks people about too: it may be the same one, by another name. One that
    stages asks them about a commit, and hides no denial.
    """
    passed_over: dict[str, Verdict] = {}
    while (verdict := judge(call, rulebook, passed_over)).demands and verdict.rule != rule:
        if all(each.amount <= reserved.get(each.counter_id, -1) for each in verdict.demands):
            return verdict
        passed_over[verdict.rule] = verdict
    asking = (each for each in passed_over.values() if each.effect is Effect.REQUIRE_APPROVAL)
    return next(asking, verdict) if verdict.effect is Effect.DENY else verdict


def judge_entries(
    entries: Iterable[CallFacts], staged: Iterable[staging.StagedEntry], rulebook: Rulebook
) -> list[JudgedEntry]:
    """Return what the rules say by now of the entries of a commit, but for those whose rule is not judged again."""
    rules = {each.call_id: each.rule for each in staged if each.approval is None or each.approval.judged_again}
    return [(each, judge_within(each, rulebook, rules[each.call_id])) for each in entries if each.call_id in rules]


def denied_entries(judged: Iterable[JudgedEntry]) -> list[JudgedEntry]:
    """Return those entries of a commit that the rules deny by now."""
    return [(each, verdict) for each, verdict in judged if verdict.effect is Effect.DENY]


def denied_with(commit: Verdict, denied: Sequence[JudgedEntry], rulebook: Rulebook) -> Verdict:
    """Return the verdict on a commit of which the rules deny these entries by now."""
    if not denied:
        return commit
    entry, verdict = denied[0]
    text = f"by now rule {verdict.rule!r} denies {entry.tool!r}, which stands in it"
    return _denied("commit-refused", text, rulebook, commit.spec)


def held_with(commit: Verdict, judged: Iterable[JudgedEntry], staged: Sequence[staging.StagedEntry]) -> Verdict:
    """Return the verdict on a commit: it does not run unasked with an entry that could not be judged."""
    failed = next((verdict for _, verdict in judged if verdict.by_error), None)
    if failed is None or commit.effect is not Effect.ALLOW:
        return commit
    approval = staging.commit_approval(failed.approval, staged, OPERATORS)
    return replace(commit, effect=Effect.REQUIRE_APPROVAL, reason=failed.reason, approval=approval, by_error=True)


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
        directory_digest=rulebook.directory.digest if rulebook.directory.digest != rulebook.digest else "",
        approval=ruling.approval,
        plan=ruling.plan,
        spec=spec,
    )


def _model_reason(ruling: Ruling) -> str:
    match ruling.effect:
        case Effect.DENY:
            return _DID_NOT_RUN + (ruling.model_reason or "a rule does not allow it.")
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
