"""Judging an edit: may people approve this call with other arguments? Pure.

An edit may not leave the people who were asked: the changed call must fit the tool's schema, and the rulebook as it is
now must hold it by the same rule for the same people, or let it run without asking anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from services.policy.rules import CallFacts, Effect, Rulebook, Verdict, judge_within
from shared.canonical import NotStrictJson
from shared.catalog import render_summary, shown_text, validate_arguments
from shared.messages import ApprovalRule, EditJudged, EditProposed
from shared.permit import check_digest

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


def judged(
    proposed: EditProposed, asked: ApprovalRule | None, rulebook: Rulebook, history: Mapping[str, Any]
) -> EditJudged:
    """Return policy's answer to an edit; raise SecurityAlert where the digest is not the one of exactly this call.

    `asked` is whom the verdict on the call asked, None where nobody knows any more; `history` is what conditions may
    ask about earlier calls, empty where no rule does.
    """
    call = proposed.call
    check_digest(call, proposed.tenant)
    try:
        facts = replace(CallFacts.of(call), history=history)
    except NotStrictJson as error:
        return _answer(proposed, rulebook, problem=f"The arguments are not strict JSON: {error}.")
    verdict = judge_within(facts, rulebook, proposed.rule)
    if problem := _problem(proposed, asked, facts, verdict):
        return _answer(proposed, rulebook, problem=problem)
    spec = rulebook.tools[call.tool]
    arguments = dict(facts.arguments)
    summary = render_summary(spec, arguments, call.language)
    return _answer(proposed, rulebook, summary=summary, shown=shown_text(spec, call.arguments, arguments))


def _problem(proposed: EditProposed, asked: ApprovalRule | None, facts: CallFacts, verdict: Verdict) -> str:
    """Return why the changed call may not be approved; empty where it may."""
    spec = verdict.spec
    if spec is not None and (errors := validate_arguments(spec, dict(facts.arguments))):
        return f"The arguments do not fit the tool: {errors[0].pointer or '/'}: {errors[0].detail}."
    match verdict.effect:
        case Effect.ALLOW:
            return ""
        case Effect.REQUIRE_APPROVAL:
            return _held_elsewhere(proposed, asked, verdict)
        case _:
            return f"Rule {verdict.rule!r} does not let such a call run: {verdict.reason}"


def _held_elsewhere(proposed: EditProposed, asked: ApprovalRule | None, verdict: Verdict) -> str:
    if verdict.rule != proposed.rule:
        return f"The call would fall under rule {verdict.rule!r} then, so others would have to decide."
    if _same_people(asked, verdict.approval):
        return ""
    if verdict.by_error:
        return f"{verdict.reason}. The people of 'fallback' would have to decide."
    return f"By rule {verdict.rule!r}, others than those who are asked here would have to decide."


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
