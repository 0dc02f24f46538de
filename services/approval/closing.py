"""What follows when an approval closes, in the same transaction: history, the card's end, and a permit or a refusal.

One place for all five endings, so that no approval can close without its call being either permitted or refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from services.approval import notices
from services.approval.rules import Approval, Vote
from services.approval.states import MACHINE, Event, State
from shared.messages import Message, ToolCallPermitted
from shared.permit import issue_permit
from shared.signed import signed
from shared.signing import Signer
from shared.work import Cause, Change, Work


def close(
    work: Work,
    approval: Approval,
    event: Event,
    *,
    actor: str,
    signer: Signer,
    votes: Sequence[Vote] = (),
    **more: Any,
) -> None:
    """Record that a pending approval was closed by `event`, and tell everybody, also how each person voted."""
    record(work, approval, event, actor=actor, before=State.PENDING, **more)
    tell(work, approval, _end_of_call(approval, signer), notices.closed(approval, votes))
    tell(work, approval, *(signed(each, signer) for each in notices.watched(approval)))


def tell(work: Work, approval: Approval, *messages: Message) -> None:
    """Send messages in the thread of the call, whoever changed its approval."""
    with _thread_of(work, approval):
        work.emit(*messages)


def record(
    work: Work,
    approval: Approval,
    event: str,
    *,
    actor: str,
    before: State | None,
    outcome: str | None = None,
    **more: Any,
) -> None:
    """Hand over a history row; where `before` is the state now, nothing moved and `outcome` says why."""
    detail: dict[str, Any] = {
        "outcome": outcome,
        "revision": approval.revision,
        "digest": approval.call.digest,
        "result_kind": approval.result_kind,
        "answer_kind": approval.answer_kind,
        "reason": approval.decision_reason,
        **more,
    }
    work.record(
        Change(
            tenant=approval.call.tenant,
            machine=MACHINE.name,
            subject_id=approval.approval_id,
            event=event,
            from_state=before,
            to_state=approval.state,
            actor=actor,
            call_id=approval.call.call_id,
            detail={name: value for name, value in detail.items() if value},
        )
    )


def _end_of_call(approval: Approval, signer: Signer) -> Message:
    if approval.state is not State.APPROVED:
        return notices.refused(approval)
    if approval.closed_at is None:
        raise ValueError(f"approval {approval.approval_id} is not closed")
    permit = issue_permit(
        signer,
        approval.call,
        pool=approval.pool,
        reference=approval.approval_id,
        now=approval.closed_at,
        lifetime_seconds=approval.permit_expires_after_seconds,
    )
    return ToolCallPermitted(tenant=approval.call.tenant, pool=approval.pool, call=approval.call, permit=permit)


@contextmanager
def _thread_of(work: Work, approval: Approval) -> Iterator[None]:
    """Let what is emitted in the block go on in the thread of the call, whoever closed its approval."""
    before = work.cause
    work.cause = Cause(before.id, approval.correlation_id, approval.traceparent)
    try:
        yield
    finally:
        work.cause = before
