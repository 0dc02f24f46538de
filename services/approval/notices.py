"""What the world is told about an approval, as messages. Every word to the model says plainly that nothing ran."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

from placet.approval.rules import Answer, Approval, RefusedKind, Vote
from placet.approval.states import State
from placet.contracts.messages import (
    AbandonCall,
    ApprovalClosed,
    ApprovalOpened,
    ApprovalProgressed,
    CastVote,
    DecideApproval,
    DecisionAnswered,
    DecisionClaims,
    EditProposed,
    ToolCall,
    ToolCallRefused,
    WatchedCallClosed,
)
from placet.contracts.messages.approvals import ClosedState, ProgressKind
from placet.domain.deciders import Step

_WHY: dict[RefusedKind, str] = {
    "denied": "a person denied it",
    "answered": "a person answered instead",
    "expired": "nobody decided on it in time",
    "cancelled": "it was cancelled",
    "superseded": "something newer took its place",
}
#: What the model is told of a call that an operator gave up.
ABANDONED = "The call did not run: people could not be asked, and an operator gave it up."
#: What the model is told of a call that would have waited where too many do.
TOO_MANY = "The call did not run: too many calls wait for people already. Try again once some of them are decided."
#: What people are told of each change that somebody made. A note does not carry a voter's verb.
_NOTES: dict[ProgressKind, str] = {
    "voted": "{person} voted.",
    "edited": "{person} changed the arguments; earlier votes are void.",
    "delegated": "{person} lets {to} decide in their place.",
    "claimed": "{person} is on it.",
    "released": "{person} is not on it any more.",
}


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
        category=approval.category,
    )


def progressed(approval: Approval, kind: ProgressKind, claims: DecisionClaims) -> ApprovalProgressed:
    """Return the news that somebody changed a pending approval."""
    return _changed(
        approval,
        kind,
        claims.person,
        to=claims.to,
        approvers=[claims.to] if kind == "delegated" else [],
        claimed_until=approval.claimed_until if kind == "claimed" else None,
    )


def stepped(approval: Approval, step: Step) -> ApprovalProgressed:
    """Return the news that the clock reminds people, or asks others too."""
    escalation = step.escalation
    if escalation is None:
        until = f"{approval.expires_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        return _progress(
            approval,
            kind="reminded",
            note=f"It is still waiting for a decision and expires at {until}: {approval.summary}",
        )
    return _progress(
        approval,
        kind="escalated",
        note=f"Nobody decided yet, so {', '.join(escalation.approvers)} may decide too.",
        approvers=list(escalation.approvers),
        channels=list(escalation.channels),
    )


def edit_proposed(approval: Approval, edit_id: str, call: ToolCall) -> EditProposed:
    """Return the question whether the rulebook lets a call be approved with other arguments."""
    return EditProposed(
        tenant=call.tenant, edit_id=edit_id, approval_id=approval.approval_id, rule=approval.rule, call=call
    )


def _changed(approval: Approval, kind: ProgressKind, person: str, to: str = "", **what: Any) -> ApprovalProgressed:
    if kind == "edited":
        what |= {"call": approval.call, "summary": approval.summary}
    return _progress(approval, kind=kind, note=_NOTES[kind].format(person=person, to=to), person=person, **what)


def _progress(approval: Approval, **what: Any) -> ApprovalProgressed:
    return ApprovalProgressed(**_ids(approval), expires_at=approval.expires_at, **what)


def _ids(approval: Approval) -> dict[str, Any]:
    """Return what all news about an approval says, once it was opened."""
    ids = {"approval_id": approval.approval_id, "revision": approval.revision}
    return ids | {name: getattr(approval.call, name) for name in ("tenant", "conversation_id", "call_id")}


def closed(approval: Approval, votes: Iterable[Vote] = ()) -> ApprovalClosed:
    """Return the news that a closed approval is over, how people voted, and what was edited."""
    last = approval.call.edited
    then = replace(approval, revision=last.revision or approval.revision) if last else approval
    return ApprovalClosed(
        **_ids(approval),
        state=cast("ClosedState", approval.state.value),
        decided_by=approval.decided_by or "",
        reason=approval.decision_reason or "",
        answer_kind=approval.answer_kind,
        closed_at=approval.ended_at,
        votes=[
            CastVote(person=each.voter.person, verb=each.verb)
            for each in votes
            # Somebody whose place another filled since counts for nothing.
            if (approval.seats or {}).get(each.voter.identity, True)
        ],
        edited=_changed(then, "edited", last.person) if last is not None else None,
        # What waited for people began before it ended.
        unopened=approval.state is State.WITHDRAWN and approval.ended_at == approval.created_at,
    )


def watched(approval: Approval) -> Iterator[WatchedCallClosed]:
    """Yield what policy must hear of a closed approval: nothing where its rule has no veto window."""
    if approval.approval_rule.veto_window_seconds:
        end = closed(approval)
        told = {name: getattr(end, name) for name in WatchedCallClosed.model_fields if name != "signature"}
        yield WatchedCallClosed(**told)


def refused(approval: Approval) -> ToolCallRefused:
    """Return the call's result: it will never run, and why."""
    if approval.result_kind is None:
        raise ValueError(f"approval {approval.approval_id} refuses nothing")
    return ToolCallRefused.of(
        approval.call,
        approval.result_kind,
        _reason(approval, approval.result_kind),
        decided_by=approval.decided_by or "",
        answer_kind=approval.answer_kind,
        answer=(approval.decision_reason or "") if approval.answer_kind else "",
        ends_turn=approval.ends_turn,
    )


def given_up(message: AbandonCall) -> ToolCallRefused:
    """Return the result of a call that was given up before it had an approval."""
    return ToolCallRefused.of(message, "failed", ABANDONED)


def too_many(call: ToolCall) -> ToolCallRefused:
    """Return the result of a call that nobody is asked about, because too many of its tenant wait."""
    return ToolCallRefused.of(call, "refused", TOO_MANY)


def watch_given_up(refused: ToolCallRefused, at: datetime) -> WatchedCallClosed:
    """Return what policy must hear of such a call: approval cannot know whether its rule has a veto window."""
    return WatchedCallClosed(
        tenant=refused.tenant, call_id=refused.call_id, state="withdrawn", reason=refused.reason, closed_at=at
    )


def _reason(approval: Approval, kind: RefusedKind) -> str:
    words = approval.decision_reason
    if kind == "denied" and (words or approval.call.edited):
        said = f' and said: "{words}"' if words else ""
        changed = "; its arguments had been changed before" if approval.call.edited else ""
        return f"The call did not run: {_WHY[kind]}{said}{changed}."
    if kind == "answered":
        return f"The call did not run: a person answered instead: {words}"
    # Who withdraws a call is the agent, and it says to the model in its own words why.
    return words or f"The call did not run: {_WHY[kind]}."


def answered(asked: DecideApproval, answer: Answer) -> DecisionAnswered:
    """Return the answer to the gateway that asked; a stranger to the approval learns nothing about it."""
    told = answer.after if answer.outcome not in {"not_found", "not_allowed"} else None
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
