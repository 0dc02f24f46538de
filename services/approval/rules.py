"""The approval and its rules: who may decide it, and what a decision comes to. Pure; time is an argument.

Rights are judged before the state, so that a stranger learns nothing about an approval by trying to decide it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from services.approval.states import MACHINE, Event, State
from shared.canonical import NotStrictJson, parse_arguments
from shared.card_text import is_redaction
from shared.errors import SecurityAlert
from shared.messages import ApprovalRequested, ApprovalRule, DecisionAnswered, DecisionClaims, ToolCall
from shared.permit import check_digest
from shared.transitions import ExpectedRace

Outcome = Literal["accepted", "already_decided", "stale", "not_allowed", "not_found"]
#: How a call ends whose approval says no.
RefusedKind = Literal["denied", "expired", "cancelled", "superseded"]


@dataclass(frozen=True, slots=True)
class Approval:
    """One held call, waiting for people or closed."""

    approval_id: str
    call: ToolCall
    pool: str
    permit_expires_after_seconds: int
    summary: str
    rule: str
    rulebook_digest: str
    reason: str
    approval_rule: ApprovalRule
    state: State
    revision: int
    created_at: datetime
    expires_at: datetime
    #: The thread that the call belongs to.
    correlation_id: str
    traceparent: str
    #: Person who approved or denied.
    decided_by: str | None = None
    #: Their words, or why it was withdrawn.
    decision_reason: str | None = None
    result_kind: RefusedKind | None = None
    closed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a decision comes to."""

    outcome: Outcome
    #: What moves the approval on; None where it stays as it is.
    event: Event | None
    #: One sentence for the person.
    detail: str


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """Why the conversation does not want a call any more."""

    kind: Literal["cancelled", "superseded"]
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's decision and what became of it; kept whether it counted or not."""

    claims: DecisionClaims
    #: The claims as the gateway signed them, JWS compact form.
    signed: str
    answered: DecisionAnswered
    at: datetime


def check_request(requested: ApprovalRequested) -> None:
    """Raise SecurityAlert unless the digest is the one of exactly this call: people approve what the bytes say.

    What they are shown is the same value with some of it masked, and never anything else.
    """
    call = requested.call
    check_digest(call, requested.tenant)
    if call.shown_arguments != call.arguments and not _shows(call):
        raise SecurityAlert(f"what people would be shown of call {call.call_id} is not what it would run")


def _shows(call: ToolCall) -> bool:
    try:
        return is_redaction(parse_arguments(call.shown_arguments), parse_arguments(call.arguments))
    except NotStrictJson:
        return False


def opening(
    approval_id: str, requested: ApprovalRequested, at: datetime, correlation_id: str, traceparent: str
) -> Approval:
    """Return the approval that a request asks for, as it is at `at`."""
    return Approval(
        approval_id=approval_id,
        call=requested.call,
        pool=requested.pool,
        permit_expires_after_seconds=requested.permit_expires_after_seconds,
        summary=requested.summary,
        rule=requested.rule,
        rulebook_digest=requested.rulebook_digest,
        reason=requested.reason,
        approval_rule=requested.approval,
        state=MACHINE.initial,
        revision=1,
        created_at=at,
        expires_at=at + timedelta(seconds=requested.approval.expires_after_seconds),
        correlation_id=correlation_id,
        traceparent=traceparent,
    )


def decide(approval: Approval | None, claims: DecisionClaims, now: datetime) -> Answer:
    """Return what a person's decision comes to at `now`, which must have been read after the row was locked."""
    if approval is None:
        return Answer("not_found", None, "There is no such approval.")
    if not may_decide(approval, claims):
        return Answer("not_allowed", None, "You are not among the people who may decide this.")
    event = Event.TIME_OUT if now >= approval.expires_at else Event(claims.verb)
    try:
        MACHINE.next_state(approval.state, event)
    except ExpectedRace:
        return Answer("already_decided", None, ending(approval))
    if event is Event.TIME_OUT:
        return Answer("already_decided", event, "It expired before you decided.")
    if difference := _difference(approval, claims):
        return Answer("stale", None, f"{difference}, so your decision was not counted. Look at it again.")
    return Answer("accepted", event, f"You {'approved' if event is Event.APPROVE else 'denied'} it.")


def may_decide(approval: Approval, claims: DecisionClaims) -> bool:
    """Tell whether the person is one whom the rule asks. A conversation's token says nothing elsewhere."""
    if claims.proof == "conversation_token" and claims.conversation_id is None:
        return False
    if claims.conversation_id not in {None, approval.call.conversation_id}:
        return False
    return any(_is(approver, approval, claims) for approver in approval.approval_rule.approvers)


def _is(approver: str, approval: Approval, claims: DecisionClaims) -> bool:
    match approver:
        case "requester":
            return "requester" in claims.roles and claims.person == approval.call.requester
        case "operators":
            return "operators" in claims.roles and claims.proof != "conversation_token"
        case _:
            # A visitor's id is chosen by the chat frontend, so a conversation token never proves a named person.
            return approver == claims.person and claims.proof != "conversation_token"


def _difference(approval: Approval, claims: DecisionClaims) -> str:
    """Return how the card that the person saw differs from what would run; empty where it does not."""
    if claims.digest != approval.call.digest:
        return "The call is not the one you were shown: its digest differs"
    if claims.revision not in {None, approval.revision}:
        return f"You were shown revision {claims.revision}, and it is now revision {approval.revision}"
    return ""


def after(approval: Approval | None, answer: Answer, claims: DecisionClaims, now: datetime) -> Approval | None:
    """Return the approval as the decision leaves it."""
    if approval is None or answer.event is None:
        return approval
    state = MACHINE.next_state(approval.state, answer.event)
    if answer.event is Event.TIME_OUT:
        return replace(approval, state=state, closed_at=now, result_kind="expired")
    kind: RefusedKind | None = "denied" if answer.event is Event.DENY else None
    by, reason = claims.person, claims.reason
    return replace(approval, state=state, closed_at=now, result_kind=kind, decided_by=by, decision_reason=reason)


def withdrawn(approval: Approval, withdrawal: Withdrawal, now: datetime) -> Approval:
    """Return the approval as its withdrawal leaves it; raise ExpectedRace where it is closed already."""
    state = MACHINE.next_state(approval.state, Event.WITHDRAW)
    kind, reason = withdrawal.kind, withdrawal.reason
    return replace(approval, state=state, closed_at=now, result_kind=kind, decision_reason=reason)


def part(approvals: Iterable[Approval], event: Event) -> tuple[list[Approval], list[Approval]]:
    """Return the approvals that `event` moves on, and those for which it comes too late."""
    moved: list[Approval] = []
    late: list[Approval] = []
    for approval in approvals:
        try:
            MACHINE.next_state(approval.state, event)
            moved.append(approval)
        except ExpectedRace:
            late.append(approval)
    return moved, late


def ending(approval: Approval) -> str:
    """Return one sentence that says how the approval ended; empty while it is pending."""
    if approval.closed_at is None:
        return ""
    at = f"{approval.closed_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    match approval.state:
        case State.APPROVED | State.DENIED:
            return f"It was {approval.state} by {approval.decided_by} at {at}."
        case State.EXPIRED:
            return f"It expired at {at}: nobody decided in time."
        case _:
            return f"It was withdrawn at {at}: the call is {approval.result_kind}."
