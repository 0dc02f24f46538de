"""The approval as a value, and how it opens and ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from placet.approval.states import MACHINE, Event, State
from placet.contracts.canonical import NotStrictJson, parse_arguments
from placet.contracts.errors import SecurityAlert
from placet.contracts.messages import ApprovalRequested, ApprovalRule, StagedCall, ToolCall
from placet.contracts.messages.tool_calls import AnswerKind, Category
from placet.contracts.permit import check_digest
from placet.contracts.transitions import ExpectedRace
from placet.domain.card_text import is_redaction
from placet.domain.deciders import Delegation, Seats, Step, steps

#: How a call ends that an approval does not let run.
RefusedKind = Literal["denied", "answered", "expired", "cancelled", "superseded"]


class Today(NamedTuple):
    """What policy judges by: digests of the rulebook and of the newest people of their own; each may be empty."""

    rulebook: str = ""
    directory: str = ""
    #: Whether these people came after that rulebook.
    people_since: bool = False

    def differs(self, approval: Approval) -> bool:
        """Tell whether an approval's call was judged by anything else.

        One that was judged by the people of its rulebook knows no others, unless these came later.
        """
        then, now = approval.directory_digest, "" if self.directory == self.rulebook else self.directory
        others = bool(self.directory) and now != then and (bool(then) or self.people_since)
        return self.rulebook not in {"", approval.rulebook_digest} or others


#: Nobody knows what policy judges by, so nothing differs from it.
UNKNOWN = Today()


@dataclass(frozen=True, slots=True)
class Approval:
    """One held call, waiting for people or closed."""

    approval_id: str
    call: ToolCall
    category: Category
    pool: str
    permit_expires_after_seconds: int
    summary: str
    rule: str
    rulebook_digest: str
    #: Of the people that policy judged it with; empty where they stand in the rulebook.
    directory_digest: str
    reason: str
    approval_rule: ApprovalRule
    state: State
    #: Number of the card: each change that people can see makes a new one. It binds nobody; the digest does.
    revision: int
    created_at: datetime
    expires_at: datetime
    #: The thread that the call belongs to.
    correlation_id: str
    traceparent: str
    #: Person whose decision ended it.
    decided_by: str | None = None
    #: Their words, or why it was withdrawn.
    decision_reason: str | None = None
    result_kind: RefusedKind | None = None
    #: What these words are for the model where a person answered instead.
    answer_kind: AnswerKind | None = None
    closed_at: datetime | None = None
    #: Whether whoever denies it ends the turn with it; known while it closes, and kept by the agent.
    ends_turn: bool = False
    #: Number of the arguments: an edit makes the next, and votes for earlier ones are void.
    arguments_revision: int = 1
    #: Reminders and escalations that were done, and when the next is due.
    steps_done: int = 0
    next_step_at: datetime | None = None
    #: Who said "I'm on it", and until when that holds.
    claimed_by: str | None = None
    claimed_until: datetime | None = None
    delegations: tuple[Delegation, ...] = ()
    #: What each vote on the arguments as they are counted for when votes were last counted; None where none was.
    seats: Seats | None = None
    #: Who voted on the arguments as they are, as they count once, each with the API key that they did it with, or None.
    voters: Mapping[str, str | None] = field(default_factory=dict)
    #: Who has nothing to decide here for now, though they are named, in the same form.
    closed_to: Mapping[str, str | None] = field(default_factory=dict)
    #: Of `commit_changes`: its staged calls as they were proposed, in order.
    staged: tuple[StagedCall, ...] = ()

    @property
    def ended_at(self) -> datetime:
        """When it was closed; ValueError where it is not."""
        if self.closed_at is None:
            raise ValueError(f"approval {self.approval_id} is not closed")
        return self.closed_at

    @property
    def permitted_calls(self) -> tuple[StagedCall, ...]:
        """The staged calls that are still part of it: people may have left some out."""
        if not self.staged:
            return ()
        kept = set(parse_arguments(self.call.arguments)["entries"])
        return tuple(each for each in self.staged if each.call_id in kept)


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """Why the conversation does not want a call any more."""

    kind: Literal["cancelled", "superseded"]
    reason: str
    #: What becomes of a superseded call whose rule does not say.
    by_default: Literal["wait", "supersede"] = "supersede"

    @property
    def is_lasting(self) -> bool:
        """Tell whether it is meant for calls too that are not held yet."""
        return self.kind == "cancelled" or self.by_default == "supersede"

    def takes(self, approval: Approval) -> bool:
        """Tell whether it closes a pending approval: its rule says what a message of the user does meanwhile."""
        ruled = approval.approval_rule.on_message_while_pending
        return self.kind == "cancelled" or (ruled or self.by_default) == "supersede"


def check_request(requested: ApprovalRequested) -> None:
    """Raise SecurityAlert unless the digest is the one of exactly this call: people approve what the bytes say.

    What they are shown is the same value with some of it masked, and never anything else.
    """
    call = requested.call
    check_digest(call, requested.tenant)
    if call.edited is not None:
        raise SecurityAlert(f"call {call.call_id} claims to be edited before anybody saw it")
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
        category=requested.category,
        pool=requested.pool,
        permit_expires_after_seconds=requested.permit_expires_after_seconds,
        summary=requested.summary,
        rule=requested.rule,
        rulebook_digest=requested.rulebook_digest,
        directory_digest=requested.directory_digest,
        reason=requested.reason,
        approval_rule=requested.approval,
        state=MACHINE.initial,
        revision=1,
        created_at=at,
        expires_at=at + timedelta(seconds=requested.approval.expires_after_seconds),
        correlation_id=correlation_id,
        traceparent=traceparent,
        next_step_at=first_step_at(requested.approval, at),
        closed_to=excluded(requested.call.requester, requested.approval),
        staged=tuple(requested.staged),
    )


def excluded(requester: str, rule: ApprovalRule) -> dict[str, str | None]:
    """Return whom four eyes exclude whatever happens, in the form of `Approval.closed_to`."""
    return {requester: None} if "requester" in rule.exclude else {}


def expired(approval: Approval, now: datetime) -> Approval:
    """Return the approval as the deadline leaves it."""
    state = MACHINE.next_state(approval.state, Event.TIME_OUT)
    return replace(approval, state=state, closed_at=now, result_kind="expired")


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
        case State.APPROVED | State.DENIED | State.ANSWERED:
            return f"It was {approval.state} by {approval.decided_by} at {at}."
        case State.EXPIRED:
            return f"It expired at {at}: nobody decided in time."
        case _:
            return f"It was withdrawn at {at}: the call is {approval.result_kind}."


def first_step_at(rule: ApprovalRule, opened_at: datetime) -> datetime | None:
    """Return when the first step is due; None where the rule has none."""
    return next((opened_at + timedelta(seconds=step.after_seconds) for step in steps(rule)), None)


def take_step(approval: Approval) -> tuple[Approval, Step]:
    """Return the approval after its next reminder or escalation, and that step.

    Those that follow keep their distance to it. Each is done once: how many were moves under the row's lock.
    """
    planned = steps(approval.approval_rule)
    step, following = planned[approval.steps_done], planned[approval.steps_done + 1 : approval.steps_done + 2]
    due = approval.next_step_at
    if due is None:
        raise ValueError(f"approval {approval.approval_id} has no step due")
    gaps = [timedelta(seconds=each.after_seconds - step.after_seconds) for each in following]
    at = due + gaps[0] if gaps else None
    return replace(approval, steps_done=approval.steps_done + 1, next_step_at=at, revision=approval.revision + 1), step
