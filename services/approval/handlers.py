"""What approval does with each message: load, ask the rules, save, and hand over what follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from services.approval import closing, deciding, notices, rules, store
from services.approval.claims import read_claims
from services.approval.deciding import Made, Sent
from services.approval.rules import Approval, Withdrawal
from services.approval.states import Event
from shared.consumer import Arrival
from shared.directory import Directory
from shared.errors import Poison
from shared.gathering import waves
from shared.ids import new_id
from shared.messages import (
    AbandonCall,
    ApprovalRequested,
    CallsWithdrawn,
    DecideApproval,
    DecisionAnswered,
    EditJudged,
)
from shared.signed import signed, verify_signed
from shared.signing import Signer, Verifier
from shared.work import Cause, Work


@dataclass(frozen=True)
class Deps:
    """What decisions need: approval's own key for permits, everybody's public keys, and who is who now."""

    signer: Signer
    verifier: Verifier
    directory: Callable[[], Directory]


@dataclass(frozen=True, slots=True)
class Opening:
    """An approval that a request asks for, and what its work goes back to."""

    approval: Approval
    cause: Cause


async def open_approvals(arrivals: Sequence[Arrival[ApprovalRequested]], work: Work, deps: Deps) -> None:
    """Let calls that policy holds wait for people, unless something was heard of them before."""
    for arrival in arrivals:
        verify_signed(deps.verifier, arrival.message)
    for wave in waves([_opening(each, work.now) for each in arrivals], key=lambda each: each.approval.call.call_id):
        stored = await store.open_approvals(work.connection, [each.approval for each in wave])
        for opening, approval in zip(wave, stored, strict=True):
            work.cause = opening.cause
            if approval is None:
                await _answer_known(opening.approval, work, deps)
            else:
                closing.record(work, approval, "opened", actor="policy", before=None)
                work.emit(notices.opened(approval))


def _opening(arrival: Arrival[ApprovalRequested], at: datetime) -> Opening:
    requested, cause = arrival.message, arrival.cause
    rules.check_request(requested)
    return Opening(rules.opening(new_id(), requested, at, cause.correlation_id, cause.traceparent), cause)


async def _answer_known(opening: Approval, work: Work, deps: Deps) -> None:
    """Close at once what was withdrawn before it was held; a call that was held before keeps its approval."""
    withdrawal = await store.load_withdrawal(work.connection, opening.call)
    if withdrawal is None:
        return
    closed = rules.withdrawn(opening, withdrawal, opening.created_at)
    if await store.add_closed(work.connection, closed):
        closing.record(work, opening, "opened", actor="policy", before=None)
        closing.close(work, closed, Event.WITHDRAW, actor="agent", signer=deps.signer)


async def decide_approvals(arrivals: Sequence[Arrival[DecideApproval]], work: Work, deps: Deps) -> None:
    """Count what people decided, or say why not. The same decision id again gets the same answer."""
    sent = [Sent(each.message, read_claims(each.message, deps.verifier), each.cause) for each in arrivals]
    # One decision about an approval must be there when the next one is judged.
    for wave in waves(sent, key=lambda each: each.claims.approval_id):
        await _decide(wave, work, deps)


async def _decide(sent: Sequence[Sent], work: Work, deps: Deps) -> None:
    """Judge and answer decisions of which no two are about one approval."""
    if len({each.key for each in sent}) < len(sent):
        raise Poison("one decision id came for several approvals")
    locked = await store.lock_approvals(
        work.connection, ((each.claims.tenant, each.claims.approval_id) for each in sent)
    )
    read = await store.read_clock(work.connection, [each.claims for each in sent], locked.values())
    fresh = [each for each in sent if each.key not in read.earlier]
    for each in sent:
        if each.key in read.earlier:
            work.cause = each.cause
            work.emit(_again(each, read.earlier[each.key]))
    made = await _judge(fresh, locked, read.now, work, deps.directory().without(read.revoked_keys))
    await deciding.finish(work, [each for each in made if each.answer.proposal is None], deps.signer)
    for edit in made:
        if edit.answer.proposal is not None:
            await deciding.propose(work, edit, edit.answer.proposal, deps.signer)


async def _judge(
    sent: Sequence[Sent], locked: Mapping[str, Approval], now: datetime, work: Work, directory: Directory
) -> list[Made]:
    """Return what decisions come to. Everything was read after the locks: clock, directory, keys, and now the votes."""
    asked = [(each, locked.get(each.claims.approval_id)) for each in sent]
    votes, revoked = await store.load_votes(
        work.connection,
        [approval for each, approval in asked if approval and rules.needs_votes(approval, each.claims, directory)],
    )
    directory = directory.without(revoked)
    return [
        Made(
            each,
            approval,
            rules.decide(approval, each.claims, now, directory, votes.get(each.claims.approval_id, ())),
            now,
        )
        for each, approval in asked
    ]


def _again(sent: Sent, earlier: store.Earlier) -> DecisionAnswered:
    if not earlier.is_from(sent.claims):
        raise Poison(f"decision id {sent.claims.decision_id} was used for another decision before")
    return DecisionAnswered.model_validate(earlier.answer | {"answer_to": sent.message.answer_to})


async def settle_edit(judged: EditJudged, work: Work, deps: Deps) -> None:
    """Make the edit that policy has judged, or say why not: everything about its maker is asked again."""
    verify_signed(deps.verifier, judged)
    approval = await store.lock_approval(work.connection, judged.tenant, judged.approval_id)
    edit = await store.load_edit(work.connection, judged.tenant, judged.edit_id)
    if approval is None or edit is None or edit.approval_id != approval.approval_id:
        raise Poison(f"edit {judged.edit_id} was never asked")
    if rules.edits.is_over(edit):
        return
    message = deciding.asked_by(edit, judged.tenant)
    claims = read_claims(message, deps.verifier)
    read = await store.read_clock(work.connection, [claims], [approval])
    now, directory = read.now, deps.directory().without(read.revoked_keys)
    answer = rules.judge_edit(approval, edit, claims, judged, now, directory)
    await store.end_edit(work.connection, edit, judged, answer=answer, before=approval, now=now)
    await deciding.finish(work, [Made(Sent(message, claims, work.cause), approval, answer, now)], deps.signer)


async def withdraw_calls(message: CallsWithdrawn, work: Work, deps: Deps) -> None:
    """Close what the conversation no longer wants and still waits; remember what is not held yet."""
    withdrawal = Withdrawal(message.kind, message.reason, message.by_default)
    await _withdraw(work, deps, message.tenant, message.call_ids, withdrawal, actor="agent")


async def abandon_call(message: AbandonCall, work: Work, deps: Deps) -> None:
    """End a call whose request was given up: withdraw its approval if one waits, else answer for it.

    What is remembered of it here also sees to it that a second copy of the request waits for nobody any more.
    """
    withdrawal = Withdrawal("cancelled", notices.ABANDONED)
    approvals = await _withdraw(work, deps, message.tenant, [message.call_id], withdrawal, actor=message.by)
    if not approvals:
        work.emit(notices.given_up(message), signed(notices.watch_given_up(message, work.now), deps.signer))


async def _withdraw(
    work: Work, deps: Deps, tenant: str, call_ids: Sequence[str], withdrawal: Withdrawal, *, actor: str
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
    votes = await store.votes_on(work.connection, waiting)
    for approval, closed_at in zip(waiting, ends, strict=True):
        ended, cast = rules.withdrawn(approval, withdrawal, closed_at), votes.get(approval.approval_id, ())
        closing.close(work, ended, Event.WITHDRAW, actor=actor, signer=deps.signer, votes=cast)
    for approval in late:
        closing.record(work, approval, Event.WITHDRAW, actor=actor, before=approval.state, outcome="late")
    for approval in pending:
        if approval not in waiting:
            closing.record(work, approval, Event.WITHDRAW, actor=actor, before=approval.state, outcome="kept")
    return approvals
