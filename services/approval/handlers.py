"""What approval does with each message: load, ask the rules, save, and hand over what follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from services.approval import closing, deciding, notices, rules, store
from services.approval.claims import read_claims
from services.approval.rules import Approval, Vote, Withdrawal
from services.approval.states import Event
from shared.directory import Directory
from shared.errors import Poison
from shared.ids import new_id
from shared.messages import (
    AbandonCall,
    ApprovalRequested,
    CallsWithdrawn,
    DecideApproval,
    DecisionAnswered,
    DecisionClaims,
    EditJudged,
)
from shared.signing import Signer, Verifier
from shared.work import Work


@dataclass(frozen=True)
class Deps:
    """What decisions need: approval's own key for permits, everybody's public keys, and who is who now."""

    signer: Signer
    verifier: Verifier
    directory: Callable[[], Directory]


async def open_approval(requested: ApprovalRequested, work: Work) -> None:
    """Let a call that policy holds wait for people, unless something was heard of it before."""
    rules.check_request(requested)
    opening = rules.opening(new_id(), requested, work.now, work.cause.correlation_id, work.cause.traceparent)
    approval = await store.open_approval(work.connection, opening)
    if approval is None:
        await _answer_known(opening, work)
        return
    closing.record(work, approval, "opened", actor="policy", before=None)
    work.emit(notices.opened(approval))


async def _answer_known(opening: Approval, work: Work) -> None:
    """Close at once what was withdrawn before it was held; a call that was held before keeps its approval."""
    withdrawal = await store.load_withdrawal(work.connection, opening.call)
    if withdrawal is None:
        return
    closed = rules.withdrawn(opening, withdrawal, opening.created_at)
    if await store.add_closed(work.connection, closed):
        closing.record(work, opening, "opened", actor="policy", before=None)
        closing.close(work, closed, Event.WITHDRAW, actor="agent")


async def decide_approval(message: DecideApproval, work: Work, deps: Deps) -> None:
    """Count what a person decided, or say why not. The same decision id again gets the same answer."""
    claims = read_claims(message, deps.verifier)
    approval = await store.lock_approval(work.connection, claims.tenant, claims.approval_id)
    now, earlier = await store.read_clock(work.connection, claims)
    if earlier is not None:
        work.emit(_again(message, claims, earlier))
        return
    # Read after the lock, once for everything that this transaction judges: the vote, the count and the permit.
    directory = deps.directory()
    others = await _other_votes(work, approval, claims, directory)
    answer = rules.decide(approval, claims, now, directory, others)
    made = deciding.Made(message, claims, approval, answer, now)
    if answer.proposal is None:
        await deciding.finish(work, made, deps.signer)
    else:
        await deciding.propose(work, made, answer.proposal)


async def _other_votes(
    work: Work, approval: Approval | None, claims: DecisionClaims, directory: Directory
) -> Sequence[Vote]:
    if approval is None or not rules.needs_votes(approval, claims, directory):
        return ()
    return await store.load_votes(work.connection, approval)


def _again(message: DecideApproval, claims: DecisionClaims, earlier: store.Earlier) -> DecisionAnswered:
    if not earlier.is_from(claims):
        raise Poison(f"decision id {claims.decision_id} was used for another decision before")
    return DecisionAnswered.model_validate(earlier.answer | {"answer_to": message.answer_to})


async def settle_edit(judged: EditJudged, work: Work, deps: Deps) -> None:
    """Make the edit that policy has judged, or say why not: everything about its maker is asked again."""
    approval = await store.lock_approval(work.connection, judged.tenant, judged.approval_id)
    edit = await store.load_edit(work.connection, judged.tenant, judged.edit_id)
    if approval is None or edit is None or edit.approval_id != approval.approval_id:
        raise Poison(f"edit {judged.edit_id} was never asked")
    if edit.state != "asked":
        return
    message = deciding.asked_by(edit, judged.tenant)
    claims = read_claims(message, deps.verifier)
    now = await work.clock()
    answer = rules.judge_edit(approval, edit, claims, judged, now, deps.directory())
    refusal = "" if answer.outcome == "accepted" else answer.detail
    await store.end_edit(
        work.connection, edit, judged.tenant, detail=refusal, rulebook_digest=judged.rulebook_digest, now=now
    )
    await deciding.finish(work, deciding.Made(message, claims, approval, answer, now), deps.signer)


async def withdraw_calls(message: CallsWithdrawn, work: Work) -> None:
    """Close what the conversation no longer wants and still waits; remember what is not held yet."""
    withdrawal = Withdrawal(message.kind, message.reason, message.by_default)
    await _withdraw(work, message.tenant, message.call_ids, withdrawal, actor="agent")


async def abandon_call(message: AbandonCall, work: Work) -> None:
    """End a call whose request was given up: withdraw its approval if one waits, else answer for it.

    What is remembered of it here also sees to it that a second copy of the request waits for nobody any more.
    """
    withdrawal = Withdrawal("cancelled", notices.ABANDONED)
    approvals = await _withdraw(work, message.tenant, [message.call_id], withdrawal, actor=message.by)
    if not approvals:
        work.emit(notices.given_up(message))


async def _withdraw(
    work: Work, tenant: str, call_ids: Sequence[str], withdrawal: Withdrawal, *, actor: str
) -> list[Approval]:
    """Withdraw what waits of these calls and remember what was never heard of; return the approvals that there are."""
    unheard: set[str] = set()
    if withdrawal.is_lasting:
        unheard = await store.add_tombstones(work.connection, tenant, call_ids, withdrawal)
    heard = [call_id for call_id in call_ids if call_id not in unheard]
    approvals = await store.lock_calls(work.connection, tenant, heard)
    pending, late = rules.part(approvals, Event.WITHDRAW)
    waiting = [each for each in pending if withdrawal.takes(each)]
    ends = await store.save_withdrawn(work.connection, waiting, withdrawal)
    for approval, closed_at in zip(waiting, ends, strict=True):
        closing.close(work, rules.withdrawn(approval, withdrawal, closed_at), Event.WITHDRAW, actor=actor)
    for approval in late:
        closing.record(work, approval, Event.WITHDRAW, actor=actor, before=approval.state, outcome="late")
    for approval in pending:
        if approval not in waiting:
            closing.record(work, approval, Event.WITHDRAW, actor=actor, before=approval.state, outcome="kept")
    return approvals
