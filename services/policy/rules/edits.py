"""Judging an edit: may people approve this call with other arguments? Pure.

An edit may not leave the people who were asked: the changed call must fit the tool's schema, and the rulebook as it is
now must hold it by the same rule for the same people, or let it run without asking anybody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from placet.contracts.canonical import NotStrictJson, parse_arguments
from placet.contracts.messages import ApprovalRule, EditJudged, EditProposed
from placet.contracts.permit import check_digest
from placet.domain.card_text import visible
from placet.domain.catalog import ToolSpec, redact_arguments, render_summary, shown_text, validate_arguments
from placet.domain.strictest import covers
from placet.domain.tool_schema import ArgumentError
from placet.policy.rules.call import CallFacts
from placet.policy.rules.model import RESERVED_NAMES, Effect, Rulebook
from placet.policy.rules.outcomes import summary_of
from placet.policy.rules.staging import StagedEntry, wanted_entries
from placet.policy.rules.verdicts import Verdict, judge_within
from placet.policy.rules.watched import Watched, terms_of

#: What of an approval says who decides, and how; the rest of it only says when and where they are asked.
_WHO = (
    "approvers",
    "approvals",
    "alternatives",
    "denials",
    "veto",
    "exclude",
    "condition",
    "reason_required",
    "min_strength",
    "edits",
    "escalations",
    "by_message",
)

#: Who and where is not told: whoever edits may be a stranger to those.
_WATCHED = "waits for others too, or people denied it lately, so they would have to decide"
_LEFT_ASKS_OTHERS = "What would be left asks others than those who are asked here, so it cannot be decided here."


@dataclass(frozen=True, slots=True)
class Held:
    """What policy knows of a held call beside the call itself."""

    #: Whom its verdict asked; None where nobody knows any more.
    asked: ApprovalRule | None
    #: What conditions may ask about earlier calls; empty where no rule does.
    history: Mapping[str, Any]
    #: What it has of limits, by counter; looked up where a veto window holds it.
    reserved: Mapping[str, Decimal] = field(default_factory=dict)
    #: Other calls that stand in the way of the changed one.
    earlier: Sequence[Watched] = ()

    def is_others(self, verdict: Verdict) -> bool:
        """Tell whether a changed call that would run unasked waits for others elsewhere, or was denied for others."""
        if verdict.effect is not Effect.ALLOW or not self.earlier:
            return False
        return self.asked is None or not covers(self.asked, terms_of(self.earlier))


def judged(proposed: EditProposed, held: Held, rulebook: Rulebook) -> EditJudged:
    """Return policy's answer to an edit; raise SecurityAlert where the digest is not the one of exactly this call."""
    call = proposed.call
    check_digest(call, proposed.tenant)
    try:
        facts = replace(CallFacts.of(call), history=held.history)
    except NotStrictJson as error:
        return _answer(proposed, rulebook, problem=f"The arguments are not strict JSON: {error}.")
    verdict = judge_within(facts, rulebook, proposed.rule, held.reserved)
    problem, spec = _problem(proposed, held, facts, verdict, rulebook), verdict.spec
    if problem or spec is None:
        return _answer(proposed, rulebook, problem=problem)
    arguments = dict(facts.arguments)
    summary = render_summary(spec, arguments, call.language)
    return _answer(proposed, rulebook, summary=summary, shown=shown_text(spec, call.arguments, arguments))


def proposed_entries(proposed: EditProposed) -> list[str]:
    """Return the entries of a commit as it was proposed, before anybody left some out."""
    edited = proposed.call.edited
    return wanted_entries(parse_arguments(edited.proposed if edited else proposed.call.arguments))


def judged_commit(
    proposed: EditProposed, held: Held, staged: tuple[StagedEntry, ...], rulebook: Rulebook
) -> EditJudged:
    """Return policy's answer to an edit of a commit: entries may be left out, and nothing else may change.

    Who was asked stays, so what is left may ask nobody else: it is judged anew. `staged` are the entries of
    the commit as it was proposed. That the tree fits the entries is for the executor to see, which has their contents.
    """
    call = proposed.call
    check_digest(call, proposed.tenant)
    try:
        facts = replace(CallFacts.of(call), history=held.history)
        before = parse_arguments(call.edited.proposed) if call.edited else {}
    except NotStrictJson as error:
        return _answer(proposed, rulebook, problem=f"The arguments are not strict JSON: {error}.")
    kept, known = wanted_entries(facts.arguments), iter(wanted_entries(before))
    chosen = tuple(entry for entry in staged if entry.call_id in kept)
    verdict = judge_within(replace(facts, staged=chosen), rulebook, proposed.rule, held.reserved)
    if verdict.effect is Effect.DENY:
        return _answer(proposed, rulebook, problem=verdict.reason)
    if facts.arguments.get("workspace_id") != before.get("workspace_id") or not all(each in known for each in kept):
        problem = "Of a commit entries can be left out; none can be added, and their order stays."
        return _answer(proposed, rulebook, problem=problem)
    if verdict.approval and (held.asked is None or not covers(held.asked, verdict.approval)):
        return _answer(proposed, rulebook, problem=_LEFT_ASKS_OTHERS)
    if held.is_others(verdict):
        return _answer(proposed, rulebook, problem=f"What would be left {_WATCHED}.")
    return _answer(proposed, rulebook, summary=summary_of(chosen, call.language), shown=call.arguments)


def _problem(proposed: EditProposed, held: Held, facts: CallFacts, verdict: Verdict, rulebook: Rulebook) -> str:
    """Return why the changed call may not be approved: the argument, and what is allowed; empty where it may."""
    spec = verdict.spec
    if spec is not None and (errors := validate_arguments(spec, dict(facts.arguments))):
        return f"The arguments do not fit the tool: {'; '.join(_unfit(error, spec) for error in errors)}."
    changed = _changed(proposed, facts, spec)
    match verdict.effect:
        case Effect.ALLOW:
            return f"With {changed}, the call {_WATCHED}." if held.is_others(verdict) else ""
        case Effect.REQUIRE_APPROVAL:
            return _held_elsewhere(proposed, held.asked, verdict, changed, rulebook)
        case _ if verdict.rule in RESERVED_NAMES:
            return verdict.reason
        case _:
            why = f"rule {verdict.rule!r} does not let such a call run ({_phrase(verdict.reason)})"
            return f"With {changed}, {why}; allowed is {_allowed(proposed.rule, rulebook)}."


def _unfit(error: ArgumentError, spec: ToolSpec) -> str:
    """Return how one argument is wrong, and which there are where it is about their names."""
    if error.pointer:
        return f"{error.pointer} {error.detail}"
    known = spec.parameters.get("properties", {})
    return f"{error.detail}, and its arguments are {', '.join(map(visible, known)) or 'none'}"


def _changed(proposed: EditProposed, facts: CallFacts, spec: ToolSpec | None) -> str:
    """Return the arguments that differ from the proposed ones, as people saw those; a hidden value names nobody."""
    edited, now = proposed.call.edited, dict(facts.arguments)
    before = parse_arguments(edited.proposed) if edited is not None else now
    shown = now if spec is None else redact_arguments(spec, now)
    names = sorted(name for name in before.keys() | shown.keys() if before.get(name) != shown.get(name))
    return f"the changed {', '.join(map(visible, names))}" if names else "these arguments"


def _held_elsewhere(
    proposed: EditProposed, asked: ApprovalRule | None, verdict: Verdict, changed: str, rulebook: Rulebook
) -> str:
    allowed = f"allowed is {_allowed(proposed.rule, rulebook)}"
    if verdict.rule != proposed.rule:
        there = f"rule {verdict.rule!r} ({_phrase(verdict.reason)})"
        return f"With {changed}, the call would fall under {there}, so others would have to decide; {allowed}."
    if _same_people(asked, verdict.approval):
        return ""
    if verdict.by_error:
        asks = "so the people of 'fallback' would have to decide"
        return f"With {changed}, {_phrase(verdict.reason, lower=True)}, {asks}; {allowed}."
    asks = "would ask others than those who are asked here"
    return f"With {changed}, rule {verdict.rule!r} {asks}; allowed is what the same people decide in the same way."


def _allowed(name: str, rulebook: Rulebook) -> str:
    """Return which changes the people of a rule may approve."""
    reason = next((rule.ruling.reason for rule in rulebook.rules if rule.name == name), "")
    return f"what stays under rule {name!r}{f' ({_phrase(reason)})' if reason else ''}"


def _phrase(sentence: str, *, lower: bool = False) -> str:
    """Return a sentence as a part of another one."""
    text = sentence.removesuffix(".")
    return f"{text[:1].lower()}{text[1:]}" if lower else text


def _same_people(asked: ApprovalRule | None, now: ApprovalRule | None) -> bool:
    """Tell whether the same people decide in the same way; where one is not known, nobody can say so."""
    if asked is None or now is None:
        return False
    return all(getattr(asked, name) == getattr(now, name) for name in _WHO)


def _answer(
    proposed: EditProposed, rulebook: Rulebook, *, problem: str = "", summary: str = "", shown: str = ""
) -> EditJudged:
    return EditJudged(
        tenant=proposed.tenant,
        edit_id=proposed.edit_id,
        approval_id=proposed.approval_id,
        digest=proposed.call.digest,
        accepted=not problem,
        detail=problem,
        summary=summary,
        shown_arguments=shown,
        rulebook_digest=rulebook.digest,
    )
