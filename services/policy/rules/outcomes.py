"""What a verdict sets in motion: a permit, a request to people, or a typed result. Exactly one message per call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from placet.contracts.ids import is_of_job
from placet.contracts.messages import (
    AbandonCall,
    ApprovalRequested,
    ApprovalRule,
    Message,
    StagedCall,
    StagedCallPermitted,
    StagePlan,
    ToolCall,
    ToolCallPermitted,
    ToolCallRefused,
)
from placet.contracts.permit import issue_permit, issue_staged_permit
from placet.contracts.signed import signed
from placet.contracts.signing import Signer
from placet.domain.catalog import ToolSpec, render_summary, shown_text
from placet.domain.house_tools import commit_summary
from placet.policy.rules.call import CallFacts
from placet.policy.rules.model import Effect
from placet.policy.rules.staging import StagedEntry, category_of, pool_of, while_it_waits
from placet.policy.rules.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class Judged:
    """A call with its verdict."""

    call: ToolCall
    facts: CallFacts
    verdict: Verdict
    verdict_id: str
    #: The rulebook's, for whoever signs the permit.
    permit_expires_after_seconds: int
    #: Of a call that is staged: those before it in the model's answer, whose places come first.
    after: tuple[str, ...] = ()
    #: Of a commit: its entries that the rules deny by now.
    denied: Sequence[tuple[CallFacts, Verdict]] = ()


def outcome(judged: Judged, signer: Signer, now: datetime) -> Message:
    """Return the message that answers a proposal; raise ValueError for an incomplete verdict, so that nothing runs.

    What people are shown of the call is rendered here, because the proposer is not believed about it.
    """
    match judged.verdict:
        case Verdict(effect=Effect.ALLOW, spec=ToolSpec() as spec):
            return _permitted(judged, spec, signer, now)
        case Verdict(effect=Effect.REQUIRE_APPROVAL, spec=ToolSpec() as spec, approval=ApprovalRule() as approval):
            return signed(_held(judged, spec, approval), signer, now)
        case Verdict(effect=Effect.STAGE, spec=ToolSpec() as spec, plan=StagePlan()):
            return _permitted(judged, spec, signer, now)
        case Verdict(effect=Effect.DENY):
            return _refused(judged)
        case verdict:
            raise ValueError(f"the verdict of rule {verdict.rule!r} on call {judged.call.call_id} is incomplete")


def staged_permits(judged: Judged, signer: Signer, now: datetime) -> Iterator[StagedCallPermitted]:
    """Yield the permits of the staged calls of a commit that a rule lets through, in their order."""
    if judged.verdict.effect is not Effect.ALLOW:
        return
    after = judged.call.call_id
    for staged in _staged_calls(judged):
        permit = issue_staged_permit(
            signer,
            staged,
            commit=judged.call,
            reference=judged.verdict_id,
            now=now,
            lifetime_seconds=judged.permit_expires_after_seconds,
            after=after,
        )
        after = staged.call_id
        yield StagedCallPermitted(
            tenant=judged.call.tenant,
            pool=staged.pool,
            call_id=staged.call_id,
            conversation_id=judged.call.conversation_id,
            workspace_id=judged.facts.arguments["workspace_id"],
            permit=permit,
        )


def _staged_calls(judged: Judged) -> list[StagedCall]:
    """Return the staged calls of a commit in the order of its arguments."""
    entries = {entry.call_id: entry for entry in judged.facts.staged or ()}
    chosen = [entries[call_id] for call_id in judged.facts.arguments["entries"]]
    return [entry.staged_call for entry in chosen if not entry.terms.changes]


def abandoned(message: AbandonCall, verdict: Verdict) -> ToolCallRefused:
    """Return the result of a call that was given up before it was judged."""
    return ToolCallRefused.of(message, "failed", verdict.model_reason)


def given_up(message: AbandonCall) -> ToolCallRefused:
    """Return the result of an approved call that was given up before it was judged again."""
    return ToolCallRefused.of(
        message, "failed", "The call did not run: it could not be judged again, and an operator gave it up."
    )


def denied_by_now(call: ToolCall, verdict: Verdict) -> ToolCallRefused:
    """Return the result of a call that people approved and that the rules of today deny, or would have staged."""
    staged = "The call did not run: by now such calls are staged. Propose it again."
    return ToolCallRefused.of(call, "refused", staged if verdict.plan else verdict.model_reason)


def entries_denied_by_now(
    call: ToolCall, denied: Sequence[tuple[CallFacts, Verdict]], left_out: Sequence[str]
) -> ToolCallRefused:
    """Return the result of a commit of which the rules of today deny these entries, approved or not.

    What people have left out of it goes with them; of a job's commit everything does.
    """
    whys = dict.fromkeys(f"{facts.tool}: {verdict.model_reason}" for facts, verdict in denied)
    of_job = is_of_job(call.tenant, call.conversation_id)
    gone = "all of it is" if of_job else "which is" if len(denied) == 1 else "which are"
    told = f"Nothing of it happened: by now rules deny {len(denied)} of it, {gone} thrown away. "
    rest = " What else was staged, and does not stand on that, is proposed again when your turn ends."
    return ToolCallRefused.of(
        call,
        "refused",
        told + " ".join(whys) + ("" if of_job else rest),
        entries=(*(facts.call_id for facts, _ in denied), *left_out),
    )


def _permitted(judged: Judged, spec: ToolSpec, signer: Signer, now: datetime) -> ToolCallPermitted:
    staged, plan = judged.facts.staged, judged.verdict.plan
    pool = pool_of(staged) if staged else spec.pool
    permit = issue_permit(
        signer,
        judged.call,
        pool=pool,
        reference=judged.verdict_id,
        now=now,
        lifetime_seconds=judged.permit_expires_after_seconds,
        consent=replace(
            judged.verdict.consent,
            after=judged.after,
            rule=judged.verdict.rule,
            rulebook=judged.verdict.rulebook_digest,
        ),
        mode="stage" if plan else "commit" if staged else "run",
    )
    call = _shown(judged, spec)
    return ToolCallPermitted(tenant=judged.call.tenant, pool=pool, call=call.bare(), permit=permit, plan=plan)


def _held(judged: Judged, spec: ToolSpec, approval: ApprovalRule) -> ApprovalRequested:
    verdict, call, entries = judged.verdict, _shown(judged, spec), judged.facts.staged
    return ApprovalRequested(
        tenant=call.tenant,
        call=call,
        category=category_of(entries) if entries else spec.category,
        pool=pool_of(entries) if entries else spec.pool,
        permit_expires_after_seconds=judged.permit_expires_after_seconds,
        summary=summary_of(entries, call.language)
        if entries
        else render_summary(spec, dict(judged.facts.arguments), call.language),
        rule=verdict.rule,
        rulebook_digest=verdict.rulebook_digest,
        directory_digest=verdict.directory_digest,
        reason=verdict.reason,
        approval=while_it_waits(approval, entries) if entries else approval,
        staged=_staged_calls(judged) if entries else [],
    )


def summary_of(entries: Sequence[StagedEntry], language: str) -> str:
    """Return the card's sentence of a commit of these entries."""
    changes = sum(entry.terms.changes for entry in entries)
    return commit_summary(language, changes=changes, calls=len(entries) - changes)


def _shown(judged: Judged, spec: ToolSpec) -> ToolCall:
    shown = shown_text(spec, judged.call.arguments, dict(judged.facts.arguments))
    return judged.call.model_copy(update={"shown_arguments": shown})


def _refused(judged: Judged) -> ToolCallRefused:
    if judged.denied:
        return entries_denied_by_now(judged.call, judged.denied, ())
    return ToolCallRefused.of(judged.call, "refused", judged.verdict.model_reason)
