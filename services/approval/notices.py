"""What the world is told about an approval, as messages. Every word to the model says plainly that nothing ran."""

from __future__ import annotations

from typing import cast

from services.approval.rules import Answer, Approval, RefusedKind
from shared.messages import (
    AbandonCall,
    ApprovalClosed,
    ApprovalOpened,
    DecideApproval,
    DecisionAnswered,
    ToolCallRefused,
)
from shared.messages.approvals import ClosedState

_WHY: dict[RefusedKind, str] = {
    "denied": "a person denied it",
    "expired": "nobody decided on it in time",
    "cancelled": "it was cancelled",
    "superseded": "something newer took its place",
}
#: What the model is told of a call that an operator gave up.
ABANDONED = "The call did not run: people could not be asked, and an operator gave it up."


def opened(approval: Approval) -> ApprovalOpened:
    """Return the news that a call waits for people."""
    return ApprovalOpened(
        tenant=approval.call.tenant,
        approval_id=approval.approval_id,
        revision=approval.revision,
        call=approval.call,
        summary=approval.summary,
        rule=approval.rule,
        reason=approval.reason,
        approval=approval.approval_rule,
        expires_at=approval.expires_at,
    )


def closed(approval: Approval) -> ApprovalClosed:
    """Return the news that a closed approval is over."""
    if approval.closed_at is None:
        raise ValueError(f"approval {approval.approval_id} is not closed")
    return ApprovalClosed(
        tenant=approval.call.tenant,
        approval_id=approval.approval_id,
        revision=approval.revision,
        conversation_id=approval.call.conversation_id,
        call_id=approval.call.call_id,
        state=cast("ClosedState", approval.state.value),
        decided_by=approval.decided_by or "",
        reason=approval.decision_reason or "",
        closed_at=approval.closed_at,
    )


def refused(approval: Approval) -> ToolCallRefused:
    """Return the call's result: it will never run, and why."""
    if approval.result_kind is None:
        raise ValueError(f"approval {approval.approval_id} refuses nothing")
    return ToolCallRefused(
        tenant=approval.call.tenant,
        call_id=approval.call.call_id,
        conversation_id=approval.call.conversation_id,
        tool=approval.call.tool,
        kind=approval.result_kind,
        reason=_reason(approval, approval.result_kind),
        decided_by=approval.decided_by or "",
    )


def given_up(message: AbandonCall) -> ToolCallRefused:
    """Return the result of a call that was given up before it had an approval."""
    return ToolCallRefused(
        tenant=message.tenant,
        call_id=message.call_id,
        conversation_id=message.conversation_id,
        tool=message.tool,
        kind="failed",
        reason=ABANDONED,
    )


def _reason(approval: Approval, kind: RefusedKind) -> str:
    words = approval.decision_reason
    if kind == "denied" and words:
        return f'The call did not run: a person denied it and said: "{words}".'
    # Who withdraws a call is the agent, and it says to the model in its own words why.
    return words or f"The call did not run: {_WHY[kind]}."


def answered(asked: DecideApproval, approval: Approval | None, answer: Answer) -> DecisionAnswered:
    """Return the answer to the gateway that asked; a stranger to the approval learns nothing about it."""
    told = approval if answer.outcome not in {"not_found", "not_allowed"} else None
    return DecisionAnswered(
        tenant=asked.tenant,
        approval_id=asked.approval_id,
        decision_id=asked.decision_id,
        answer_to=asked.answer_to,
        outcome=answer.outcome,
        state=told.state if told else "",
        revision=told.revision if told else 0,
        digest=told.call.digest if told else "",
        decided_by=(told.decided_by or "") if told else "",
        decided_at=told.closed_at if told else None,
        detail=answer.detail,
    )
