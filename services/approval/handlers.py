"""What approval does with each message: load, ask the rules, save, and hand over what follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from placet.approval import closing, deciding, notices, rules, store
from placet.approval.deciding import Made, Sent
from placet.approval.quota import Quota, count_refused
from placet.approval.rules import Approval, Withdrawal, read_claims
from placet.approval.states import EDIT_MACHINE, Event
from placet.contracts.errors import Poison, Transient
from placet.contracts.ids import new_id
from placet.contracts.messages import (
    AbandonCall,
    ApprovalRequested,
    CallsWithdrawn,
    DecideApproval,
    DecisionAnswered,
    EditJudged,
    ToolCallRefused,
)
from placet.contracts.signed import refuse_void, signed, verify_signed
from placet.contracts.signing import Signer, Verifier
from placet.domain.directory import Directory
from placet.runtime.batcher import waves
from placet.runtime.consumer import Arrival
from placet.runtime.work import Cause, UnitOfWork, Work

#: Times that a decision is judged anew because its approval has changed meanwhile.
TRIES_MAX = 100
QUEUE = "approval.decisions"


@dataclass(frozen=True)
class Deps:
    """What decisions need: approval's own key for permits, everybody's public keys, and who is who now."""

    signer: Signer
    verifier: Verifier
    directory: Callable[[], Directory]
    units: UnitOfWork
    quota: Quota


async def open_approvals(arrivals: Sequence[Arrival[ApprovalRequested]], work: Work, deps: Deps) -> None:
    """Let calls that policy holds wait for people, unless something was heard of them before: one statement.

    A call of a tenant of which too many wait is refused, in a transaction of its own.
    """
    openings: dict[str, Approval] = {}
    known: list[tuple[Cause, Approval]] = []
    refused: list[tuple[Cause, Approval]] = []
    if not deps.quota.has_room(Counter(each.message.call.tenant for each in arrivals)):
        await deps.quota.count_again(deps.units.database)
    for arrival in arrivals:
        requested, cause = arrival.message, arrival.cause
        verify_signed(deps.verifier, requested, work.restored_at)
        rules.check_request(requested)
        opening = rules.opening(new_id(), requested, work.now, cause.correlation_id, cause.traceparent)
        if opening.call.call_id in {each.call.call_id for each in openings.values()}:
            known.append((cause, opening))
            continue
        if not deps.quota.take(opening.call.tenant):
            refused.append((cause, opening))
            continue
        openings[cause.id] = opening
        work.cause = cause
        closing.record_opening(work, opening)
        work.emit(notices.opened(opening))
    opened = await store.open_approvals(work, openings) if openings else set()
    causes = {arrival.cause.id: arrival.cause for arrival in arrivals}
    known += [(causes[key], opening) for key, opening in openings.items() if key not in opened]
    for cause, opening in known:
        await _answer_known(opening, cause, deps)
    for cause, opening in refused:
        await _refuse(opening, cause, deps)


async def _refuse(opening: Approval, cause: Cause, deps: Deps) -> None:
    """Answer for a call that has to wait where too many do; of one that was heard of before there is an answer."""
    async with deps.units.begin(cause) as work:
        if await store.add_tombstones(work.connection, opening.call.tenant, [opening.call.call_id], None):
            _give_up(work, notices.too_many(opening.call), deps)
            work.act(count_refused)
            return
    await _answer_known(opening, cause, deps)


async def _answer_known(opening: Approval, cause: Cause, deps: Deps) -> None:
    """Close at once what was withdrawn before it was held; a call that was held before keeps its approval."""
    async with deps.units.begin(cause) as work:
        withdrawal = await store.load_withdrawal(work.connection, opening.call)
        if withdrawal is None:
            return
        closed = rules.withdrawn(opening, withdrawal, opening.created_at)
        if await store.add_closed(work.connection, closed):
            closing.record_opening(work, opening)
            closing.close_all(work, [closed], Event.WITHDRAW, actor="agent", signer=deps.signer, votes={})


async def decide_approvals(arrivals: Sequence[Arrival[DecideApproval]], work: Work, deps: Deps) -> None:
    """Count what people decided, or say why not. The same decision id again gets the same answer."""
    sent = [Sent(each.message, read_claims(each.message, deps.verifier), each.cause) for each in arrivals]
    # One decision about an approval must be there when the next one is judged.
    runs = waves(sent, key=lambda each: each.claims.approval_id)
    if len(runs) == 1:
        await _decide_again(await _decide(sent, work, deps), deps)
        return
    for run in runs:
        async with deps.units.once(arrived=(QUEUE, [each.cause.id for each in run])) as own:
            left = await _decide(run, own, deps)
        await _decide_again(left, deps)


async def _decide_again(left: Sequence[Sent], deps: Deps) -> None:
    for _ in range(TRIES_MAX):
        if not left:
            return
        async with deps.units.once(arrived=(QUEUE, [])) as own:
            left = await _decide(left, own, deps, once=False)
    raise Transient("its approval keeps changing")


async def _decide(sent: Sequence[Sent], work: Work, deps: Deps, *, once: bool = True) -> list[Sent]:
    """Judge and answer decisions of which no two are about one approval; return those to be judged anew.

    What a decision is judged by is read without locks; the statement that keeps it keeps nothing where the approval has
    changed since, or its deadline has passed.
    """
    if len({each.key for each in sent}) < len(sent):
        raise Poison("one decision id came for several approvals")
    made: list[Made] = []
    again: list[str] = []
    for each, read in zip(
        sent, await store.read_decisions(work.connection, [each.claims for each in sent]), strict=True
    ):
        if read.earlier is not None:
            work.cause = each.cause
            work.emit(_again(each, read.earlier))
            again.append(each.cause.id)
        else:
            refuse_void(each.claims.at, work.restored_at)
            directory = deps.directory().without(read.revoked_keys)
            answer = rules.decide(read.approval, each.claims, read.now, directory, read.votes, read.newest)
            made.append(Made(each, read, directory, answer, read.before))
    voted = deciding.in_order([each for each in made if each.answer.proposal is None])
    for decision in voted:
        deciding.follow(work, decision, deps.signer)
    kept = await store.keep_decisions(work, [each.stored for each in voted], again, once=once)
    for edit in made:
        if edit.answer.proposal is not None:
            async with deps.units.once(edit.sent.cause) as own:
                if await deciding.propose(own, edit, edit.answer.proposal, deps.signer):
                    kept.add(edit.sent.cause.id)
    return [each.sent for each in made if each.sent.cause.id not in kept]


def _again(sent: Sent, earlier: store.Earlier) -> DecisionAnswered:
    if not earlier.is_from(sent.claims):
        raise Poison(f"decision id {sent.claims.decision_id} was used for another decision before")
    asked = sent.message.model_dump(include={"tenant", "approval_id", "decision_id", "answer_to"})
    return DecisionAnswered.model_validate(earlier.answer | asked)


async def settle_edit(judged: EditJudged, work: Work, deps: Deps) -> None:
    """Make the edit that policy has judged, or say why not: everything about its maker is asked again."""
    verify_signed(deps.verifier, judged, work.restored_at)
    approval = await store.lock_approval(work.connection, judged.tenant, judged.approval_id)
    edit = await store.load_edit(work.connection, judged.tenant, judged.edit_id)
    if approval is None or edit is None or edit.approval_id != approval.approval_id:
        raise Poison(f"edit {judged.edit_id} was never asked")
    # Policy's answer comes too late, because one came before.
    if edit.state in EDIT_MACHINE.final:
        return
    message = deciding.asked_by(edit, judged.tenant)
    sent = Sent(message, read_claims(message, deps.verifier), work.cause)
    refuse_void(sent.claims.at, work.restored_at)
    kept, made = False, None
    while not kept:
        # Locked: only the deadline can pass between the two statements.
        (read,) = await store.read_decisions(work.connection, [sent.claims])
        if read.earlier is not None:
            # Asked a second time behind the end of its approval, it was refused, and its maker heard so.
            answer = rules.Answer(read.earlier.answer["outcome"], read.earlier.answer["detail"], approval)
            made = None
            break
        directory = deps.directory().without(read.revoked_keys)
        answer = rules.judge_edit(approval, edit, sent.claims, judged, read.now, directory, read.newest)
        (made,) = deciding.in_order([Made(sent, replace(read, approval=approval), directory, answer, read.before)])
        kept = await store.keep_locked(work.connection, made.stored)
    await store.end_edit(work.connection, edit, judged, answer=answer, before=approval, now=read.now)
    if made is not None:
        deciding.follow(work, made, deps.signer)


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
        _give_up(work, notices.given_up(message), deps)


def _give_up(work: Work, refused: ToolCallRefused, deps: Deps) -> None:
    work.emit(refused, signed(notices.watch_given_up(refused, work.now), deps.signer, work.now))


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
    ended = [rules.withdrawn(each, withdrawal, at) for each, at in zip(waiting, ends, strict=True)]
    votes = await store.votes_on(work.connection, waiting)
    closing.close_all(work, ended, Event.WITHDRAW, actor=actor, signer=deps.signer, votes=votes)
    for outcome, left in (("late", late), ("kept", [each for each in pending if not withdrawal.takes(each)])):
        for approval in left:
            closing.record(work, approval, Event.WITHDRAW, actor=actor, before=approval.state, outcome=outcome)
    return approvals
