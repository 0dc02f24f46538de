"""Judging an edit: may people approve this call with other arguments? Pure.

An edit may not leave the rule that held the call: the changed call must fit the tool's schema, and the rulebook as it
is now must hold it by the same rule or let it run without asking anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from services.policy.rules import CallFacts, Effect, Rulebook, Verdict, judge
from shared.canonical import NotStrictJson
from shared.catalog import render_summary, shown_text, validate_arguments
from shared.messages import EditJudged, EditProposed
from shared.permit import check_digest


def judged(proposed: EditProposed, rulebook: Rulebook, history: Mapping[str, Any]) -> EditJudged:
    """Return policy's answer to an edit; raise SecurityAlert where the digest is not the one of exactly this call.

    `history` is what conditions may ask about earlier calls; empty where no rule does.
    """
    call = proposed.call
    check_digest(call, proposed.tenant)
    try:
        facts = replace(CallFacts.of(call), history=history)
    except NotStrictJson as error:
        return _answer(proposed, rulebook, problem=f"The arguments are not strict JSON: {error}.")
    verdict = judge(facts, rulebook)
    if problem := _problem(proposed, facts, verdict):
        return _answer(proposed, rulebook, problem=problem)
    spec = rulebook.tools[call.tool]
    arguments = dict(facts.arguments)
    summary = render_summary(spec, arguments, call.language)
    return _answer(proposed, rulebook, summary=summary, shown=shown_text(spec, call.arguments, arguments))


def _problem(proposed: EditProposed, facts: CallFacts, verdict: Verdict) -> str:
    """Return why the changed call may not be approved; empty where it may."""
    spec = verdict.spec
    if spec is not None and (errors := validate_arguments(spec, dict(facts.arguments))):
        return f"The arguments do not fit the tool: {errors[0].pointer or '/'}: {errors[0].detail}."
    match verdict.effect:
        case Effect.ALLOW:
            return ""
        case Effect.REQUIRE_APPROVAL if verdict.rule == proposed.rule:
            return ""
        case Effect.REQUIRE_APPROVAL:
            return f"The call would fall under rule {verdict.rule!r} then, so others would have to decide."
        case _:
            return f"Rule {verdict.rule!r} does not let such a call run: {verdict.reason}"


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
