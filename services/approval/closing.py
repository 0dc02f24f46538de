"""What follows when an approval closes, in the same transaction: history, the card's end, and a permit or a refusal.

One place for all five endings, so that no approval can close without its call being either permitted or refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from placet.approval import notices
from placet.approval.rules import UNKNOWN, Approval, Today, Vote
from placet.approval.states import MACHINE, Event, State
from placet.contracts.canonical import parse_arguments, shown_digest
from placet.contracts.messages import COMMIT_TOOL, CallApproved, Message, StagedCallPermitted, ToolCallPermitted
from placet.contracts.permit import NOBODYS, Consent, issue_permit, issue_staged_permit
from placet.contracts.signed import signed
from placet.contracts.signing import Signer
from placet.runtime.work import Cause, Change, Work


def close(
    work: Work,
    approval: Approval,
    event: Event,
    *,
    actor: str,
    signer: Signer,
    votes: Sequence[Vote],
    **more: Any,
) -> None:
    """Record that a pending approval was closed by `event`, and tell everybody, also how each person voted.

    The end of its call is handed over before, by `end_call`: whoever waits for it waits longest.
    """
    record(work, approval, event, actor=actor, before=State.PENDING, **more)
    tell(work, approval, notices.closed(approval, votes))
    tell(work, approval, *(signed(each, signer, work.now) for each in notices.watched(approval)))


def close_all(
    work: Work,
    ended: Sequence[Approval],
    event: Event,
    *,
    actor: str,
    signer: Signer,
    votes: Mapping[str, Sequence[Vote]],
) -> None:
    """End the calls of approvals that `event` has closed, and tell everybody; `votes` are those on each, by its id."""
    for approval in ended:
        end_call(work, approval, signer)
        close(work, approval, event, actor=actor, signer=signer, votes=votes.get(approval.approval_id, ()))


def end_call(
    work: Work, approval: Approval, signer: Signer, consent: Consent = NOBODYS, *, today: Today = UNKNOWN
) -> None:
    """Permit or refuse the call of an approval that is over.

    Where policy judges by other rules or people `today`, the permit goes to it and not to an executor. With a commit
    its staged calls are permitted too, each after the one before it: none begins where that was not carried out.
    """
    end = _end_of_call(approval, signer, consent)
    changed = approval.approval_rule.judged_again and today.differs(approval)
    if changed and isinstance(end, ToolCallPermitted):
        end = CallApproved(
            **end.model_dump(include={"tenant", "pool", "permit"}), call=approval.call, rule=approval.rule
        )
    tell(work, approval, end)
    if approval.staged and approval.state is State.APPROVED:
        tell(work, approval, *_staged_permits(approval, signer, consent))


def tell(work: Work, approval: Approval, *messages: Message) -> None:
    """Send messages in the thread of the call, whoever changed its approval."""
    with _thread_of(work, approval):
        work.emit(*messages)


def record_opening(work: Work, opening: Approval) -> None:
    """Hand over the history row of a call that is held, with the verdict behind it: what a receipt shows is sealed."""
    verdict = {"rule": opening.rule, "rulebook_digest": opening.rulebook_digest}
    record(work, opening, "opened", actor="policy", before=None, **verdict)


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
        # What people saw of redacted arguments, so that a receipt can show it.
        "shown": shown_digest(approval.call.shown_arguments, approval.call.arguments),
        "result_kind": approval.result_kind,
        "answer_kind": approval.answer_kind,
        "reason": approval.decision_reason,
        **more,
    }
    about: dict[str, Any] = {"conversation_id": approval.call.conversation_id, "rule": approval.rule}
    if approval.closed_at is not None:
        about["waited_seconds"] = round((approval.closed_at - approval.created_at).total_seconds(), 3)
        about["edited"] = approval.call.edited is not None
    with _thread_of(work, approval):
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
                about=about,
            )
        )


def _end_of_call(approval: Approval, signer: Signer, consent: Consent) -> Message:
    if approval.state is not State.APPROVED:
        return notices.refused(approval)
    call = approval.call
    alone = call.step and not approval.approval_rule.independent
    permit = issue_permit(
        signer,
        call,
        pool=approval.pool,
        reference=approval.approval_id,
        now=approval.ended_at,
        lifetime_seconds=approval.permit_expires_after_seconds,
        consent=replace(
            consent,
            answer=f"{call.turn_id}:{call.step}" if alone else "",
            position=call.position if alone else 0,
            rule=approval.rule,
            rulebook=approval.rulebook_digest,
        ),
        mode="commit" if call.tool == COMMIT_TOOL else "run",
    )
    return ToolCallPermitted(tenant=call.tenant, pool=approval.pool, call=call.bare(), permit=permit)


def _staged_permits(approval: Approval, signer: Signer, consent: Consent) -> Iterator[Message]:
    call, after = approval.call, approval.call.call_id
    workspace_id = parse_arguments(call.arguments)["workspace_id"]
    for staged in approval.permitted_calls:
        permit = issue_staged_permit(
            signer,
            staged,
            commit=call,
            reference=approval.approval_id,
            now=approval.ended_at,
            lifetime_seconds=approval.permit_expires_after_seconds,
            after=after,
            consent=consent,
        )
        after = staged.call_id
        yield StagedCallPermitted(
            tenant=call.tenant,
            pool=staged.pool,
            call_id=staged.call_id,
            conversation_id=call.conversation_id,
            workspace_id=workspace_id,
            permit=permit,
        )


@contextmanager
def _thread_of(work: Work, approval: Approval) -> Iterator[None]:
    """Let what is emitted in the block go on in the thread of the call, whoever closed its approval."""
    before = work.cause
    work.cause = Cause(before.id, approval.correlation_id, approval.traceparent)
    try:
        yield
    finally:
        work.cause = before
