"""What a verdict sets in motion: a permit, a request to people, or a typed result. Exactly one message per call."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from placet.contracts.messages import (
    AbandonCall,
    ApprovalRequested,
    ApprovalRule,
    Message,
    ToolCall,
    ToolCallPermitted,
    ToolCallRefused,
)
from placet.contracts.permit import issue_permit
from placet.contracts.signed import signed
from placet.contracts.signing import Signer
from placet.domain.catalog import ToolSpec, render_summary, shown_text
from placet.policy.rules.call import CallFacts
from placet.policy.rules.model import Effect
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


def outcome(judged: Judged, signer: Signer, now: datetime) -> Message:
    """Return the message that answers a proposal; raise ValueError for an incomplete verdict, so that nothing runs.

    What people are shown of the call is rendered here, because the proposer is not believed about it.
    """
    match judged.verdict:
        case Verdict(effect=Effect.ALLOW, spec=ToolSpec() as spec):
            return _permitted(judged, spec, signer, now)
        case Verdict(effect=Effect.REQUIRE_APPROVAL, spec=ToolSpec() as spec, approval=ApprovalRule() as approval):
            return signed(_held(judged, spec, approval), signer)
        case Verdict(effect=Effect.DENY | Effect.STAGE):
            return _refused(judged)
        case verdict:
            raise ValueError(f"the verdict of rule {verdict.rule!r} on call {judged.call.call_id} is incomplete")


def abandoned(message: AbandonCall, verdict: Verdict) -> ToolCallRefused:
    """Return the result of a call that was given up before it was judged."""
    return ToolCallRefused(
        tenant=message.tenant,
        call_id=message.call_id,
        conversation_id=message.conversation_id,
        tool=message.tool,
        kind="failed",
        reason=verdict.model_reason,
    )


def given_up(message: AbandonCall) -> ToolCallRefused:
    """Return the result of an approved call that was given up before it was judged again."""
    return ToolCallRefused(
        tenant=message.tenant,
        call_id=message.call_id,
        conversation_id=message.conversation_id,
        tool=message.tool,
        kind="failed",
        reason="The call did not run: it could not be judged again, and an operator gave it up.",
    )


def denied_by_now(call: ToolCall, verdict: Verdict) -> ToolCallRefused:
    """Return the result of a call that people approved and that the rules of today deny."""
    return ToolCallRefused(
        tenant=call.tenant,
        call_id=call.call_id,
        conversation_id=call.conversation_id,
        tool=call.tool,
        kind="refused",
        reason=verdict.model_reason,
    )


def _permitted(judged: Judged, spec: ToolSpec, signer: Signer, now: datetime) -> ToolCallPermitted:
    permit = issue_permit(
        signer,
        judged.call,
        pool=spec.pool,
        reference=judged.verdict_id,
        now=now,
        lifetime_seconds=judged.permit_expires_after_seconds,
    )
    return ToolCallPermitted(tenant=judged.call.tenant, pool=spec.pool, call=_shown(judged, spec), permit=permit)


def _held(judged: Judged, spec: ToolSpec, approval: ApprovalRule) -> ApprovalRequested:
    verdict, call = judged.verdict, _shown(judged, spec)
    return ApprovalRequested(
        tenant=call.tenant,
        call=call,
        category=spec.category,
        pool=spec.pool,
        permit_expires_after_seconds=judged.permit_expires_after_seconds,
        summary=render_summary(spec, dict(judged.facts.arguments), call.language),
        rule=verdict.rule,
        rulebook_digest=verdict.rulebook_digest,
        reason=verdict.reason,
        approval=approval,
    )


def _shown(judged: Judged, spec: ToolSpec) -> ToolCall:
    shown = shown_text(spec, judged.call.arguments, dict(judged.facts.arguments))
    return judged.call.model_copy(update={"shown_arguments": shown})


def _refused(judged: Judged) -> ToolCallRefused:
    call = judged.call
    return ToolCallRefused(
        tenant=call.tenant,
        call_id=call.call_id,
        conversation_id=call.conversation_id,
        tool=call.tool,
        kind="refused",
        reason=judged.verdict.model_reason,
    )
