"""What policy does with each message: judge a proposed call, keep or revoke a grant, give back what was not used."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TypeAlias

from placet.contracts.canonical import NotStrictJson, parse_arguments
from placet.contracts.errors import SecurityAlert
from placet.contracts.ids import new_id
from placet.contracts.messages import (
    COMMIT_TOOL,
    AbandonCall,
    CallApproved,
    CallResolved,
    EditProposed,
    GrantAsked,
    RevokeGrant,
    StagedCallsDropped,
    ToolCall,
    ToolCallPermitted,
    ToolCallProposed,
    ToolCallRefused,
    WatchedCallClosed,
)
from placet.contracts.permit import check_digest, verify_permit
from placet.contracts.signed import refuse_void, signed, verify_signed
from placet.contracts.signing import Signer, Verifier
from placet.policy import judging, records, rules, store
from placet.policy.active import ActiveRulebook
from placet.policy.rules import CallFacts, Effect, Rulebook, Verdict, edits, grants, judge, judge_within
from placet.policy.rules.call import kept_text
from placet.policy.rules.limits import DID_NOT_RUN
from placet.policy.rules.outcomes import (
    Judged,
    abandoned,
    denied_by_now,
    entries_denied_by_now,
    given_up,
    outcome,
    staged_permits,
)
from placet.policy.rules.staging import staged_before, wanted_entries
from placet.policy.rules.verdicts import (
    NOTHING,
    VETO_WINDOW,
    JudgedEntry,
    denied_entries,
    denied_with,
    held_with,
    judge_entries,
)
from placet.policy.rules.watched import Watched
from placet.policy.states import GrantEvent
from placet.policy.store import grants as grant_store
from placet.policy.store import limits as limit_store
from placet.policy.store import watched as watched_store
from placet.runtime.batcher import waves
from placet.runtime.consumer import Arrival
from placet.runtime.watchdog import leisurely
from placet.runtime.work import Cause, UnitOfWork, Work

#: Of calls of an envelope, by id, whether they are staged.
Places: TypeAlias = dict[str, bool]


@dataclass(frozen=True)
class Deps:
    """What judging needs: the active rulebook, policy's own key for permits, and everybody's public keys."""

    active: ActiveRulebook
    signer: Signer
    verifier: Verifier
    units: UnitOfWork

    @property
    def rulebook(self) -> Rulebook:
        """The rulebook of this moment: ask once per transaction, it may be another one after a pause."""
        return self.active.rulebook


@dataclass(frozen=True, slots=True)
class Proposed:
    """A proposed call, and what its work goes back to."""

    call: ToolCall
    facts: CallFacts
    cause: Cause
    #: Positions of the calls before it in the model's answer.
    earlier: Sequence[int]
    #: Of a commit: what the rules say by now of its entries.
    entries: Sequence[JudgedEntry] = ()


@leisurely
async def judge_calls(arrivals: Sequence[Arrival[ToolCallProposed]], work: Work, deps: Deps) -> None:
    """Give proposed calls their one verdict each, and pass on what follows from it.

    A call that has a verdict gets no second answer. The first one was committed together with the verdict, so it is
    on its way already; and a permit signed anew would live longer than the one that people can see in the history.
    Verdicts that nothing but the rules decides are one statement; the others take limits and grants in a transaction.
    """
    proposed = [
        Proposed(each.message.call, _facts_of(each.message), each.cause, each.message.earlier) for each in arrivals
    ]
    rulebook = deps.rulebook
    plain: dict[str, Proposed] = {}
    entries: list[store.Entry] = []
    others: list[Proposed] = []
    places: Places = {}
    for each in proposed:
        # The calls of an envelope may be dear together; others have their turn between them.
        await asyncio.sleep(0)
        if each.call.tool == COMMIT_TOOL:
            others.append(each)
            continue
        verdict = judge(each.facts, rulebook)
        if each.call.call_id in plain or judging.takes_more(verdict, rulebook):
            if each.call.digest != plain.get(each.call.call_id, each).call.digest:
                raise SecurityAlert(f"call {each.call.call_id} was proposed again with other contents")
            others.append(each)
            continue
        plain[each.call.call_id] = each
        entry = store.Entry(new_id(), each.call, verdict, kept_text(each.call, each.facts))
        entries.append(entry)
        work.cause = each.cause
        after = _staged_before(each, verdict, places)
        judged = Judged(each.call, each.facts, verdict, entry.verdict_id, rulebook.permit_expires_after_seconds, after)
        work.emit(outcome(judged, deps.signer, work.now), key=each.call.call_id)
        records.record_verdict(work, each.facts, verdict, entry.verdict_id)
    if entries:
        added = await store.add_verdicts_once(work, entries)
        try:
            await _check_same(work, [entry.call for entry in entries if entry.call.call_id not in added])
        except SecurityAlert:
            # What stands is sent, whatever becomes of its neighbour.
            await deps.units.finish(work)
            raise
    if others:
        async with deps.units.begin() as own:
            await _judge_all(others, own, rulebook, deps.signer, places)


async def _judge_all(
    proposed: Sequence[Proposed], work: Work, rulebook: Rulebook, signer: Signer, places: Places
) -> None:
    counters = limit_store.Counters(work)
    if rulebook.uses_history:
        # A verdict counts for the next call's conditions.
        for each in proposed:
            facts = replace(each.facts, history=await store.load_history(work, each.call))
            known = await _with_entries(replace(each, facts=facts), work, rulebook)
            await _judge([known], counters, rulebook, signer, places)
        return
    proposed = [await _with_entries(each, work, rulebook) for each in proposed]
    for wave in waves(proposed, key=lambda each: each.call.call_id):
        await _judge(wave, counters, rulebook, signer, places)


def _staged_before(proposed: Proposed, verdict: Verdict, places: Places) -> tuple[str, ...]:
    """Return the calls that come before one that is staged, and note whether it is."""
    staged = verdict.plan is not None
    places[proposed.call.call_id] = staged
    return staged_before(proposed.call, proposed.earlier, places) if staged else ()


async def _with_entries(proposed: Proposed, work: Work, rulebook: Rulebook) -> Proposed:
    """Return a proposal; that of a commit with those of its entries that policy let its conversation stage.

    They were staged by the rules of then. What denies the commit itself says more than what denies an entry.
    """
    if proposed.call.tool != COMMIT_TOOL:
        return proposed
    facts, entries = await _judge_entries(work, proposed.call, proposed.facts, rulebook)
    if judge(facts, rulebook).effect is Effect.DENY:
        return replace(proposed, facts=facts)
    return replace(proposed, facts=facts, entries=entries)


async def _judge_entries(
    work: Work, commit: ToolCall, facts: CallFacts, rulebook: Rulebook
) -> tuple[CallFacts, Sequence[JudgedEntry]]:
    """Return the facts of a commit with its entries, and what the rules say of each entry by now.

    The rulebook that staged an entry may have counted nothing for it, so its earlier calls are counted anew.
    """
    wanted = wanted_entries(facts.arguments)
    staged = await store.load_staged(work, commit, wanted)
    entries = await store.load_staged_facts(work, commit, wanted)
    if rulebook.uses_history:
        histories = await store.load_histories(work, commit.tenant, [each.call_id for each in entries])
        entries = [replace(each, history=histories[each.call_id]) for each in entries]
    return replace(facts, staged=staged), judge_entries(entries, staged, rulebook)


async def _judge(
    proposed: Sequence[Proposed], counters: limit_store.Counters, rulebook: Rulebook, signer: Signer, places: Places
) -> None:
    """Judge calls of which no two are the same.

    All verdicts are stored before limits and grants are asked: a second proposal takes nothing of them. Where calls
    that were judged before in this transaction hold a counter, another transaction's verdict is not waited for.
    """
    work = counters.work
    entries = [
        store.Entry(
            new_id(),
            each.call,
            denied_with(judge(each.facts, rulebook), denied_entries(each.entries), rulebook),
            kept_text(each.call, each.facts),
        )
        for each in proposed
    ]
    async with counters.hardly_waiting():
        added = await store.add_verdicts(work, entries)
    await _check_same(work, [each.call for each in proposed if each.call.call_id not in added])
    for each, entry in zip(proposed, entries, strict=True):
        if each.call.call_id not in added:
            continue
        work.cause = each.cause
        verdict = await judging.settle(work, each.facts, entry.verdict, rulebook, counters)
        verdict = held_with(verdict, each.entries, each.facts.staged or ())
        if verdict is not entry.verdict:
            await store.change_verdict(work, entry, verdict)
        after = _staged_before(each, verdict, places)
        lifetime = rulebook.permit_expires_after_seconds
        denied = denied_entries(each.entries)
        judged = Judged(each.call, each.facts, verdict, entry.verdict_id, lifetime, after, denied)
        work.emit(outcome(judged, signer, work.now))
        if each.facts.staged is not None:
            work.emit(*staged_permits(judged, signer, work.now))
        records.record_verdict(work, each.facts, verdict, entry.verdict_id)


@leisurely
async def give_grant(asked: GrantAsked, work: Work, deps: Deps) -> None:
    """Keep what a person wants allowed from now on, if the rulebook of today still lets them; else say why not."""
    verify_signed(deps.verifier, asked, work.restored_at)
    check_digest(asked.call, asked.tenant)
    now, rulebook = await work.clock(), deps.rulebook
    history = await store.load_history(work, asked.call) if rulebook.uses_history else {}
    if reason := grants.refusal(asked, rulebook, rulebook.directory, now, history):
        work.record(records.grant_refused(asked, reason))
        return
    spec = rulebook.spec(asked.call.tool)
    if spec is None:
        raise SecurityAlert(f"a grant was asked for calls of {asked.call.tool!r}, which is no tool")
    entry = grants.entry_of(asked.call, spec)
    if await grant_store.add_grant(work, asked, entry, now):
        work.record(records.grant_given(asked))


async def revoke_grant(message: RevokeGrant, work: Work) -> None:
    """Let a grant cover nothing any more. What it let through before runs."""
    tenant, grant_id, by = message.tenant, message.grant_id, message.by
    revoked = await grant_store.revoke_grant(work, tenant, grant_id, by)
    if revoked is not None:
        moved, detail = (GrantEvent.REVOKE, revoked.before), {"uses_left": revoked.uses_left}
        work.record(records.of_grant((tenant, grant_id), *moved, by, None, detail))


async def give_back(refused: ToolCallRefused, work: Work) -> None:
    """Free what a call had taken of limits and grants, because it did not run.

    Nobody signs this message, so it ends no watch: that is for WatchedCallClosed.
    """
    if refused.kind in DID_NOT_RUN:
        await _free(work, refused.tenant, refused.call_id, refused.kind)


async def take_resolved(resolved: CallResolved, work: Work) -> None:
    """Free what a call of unknown outcome had taken, because a person found that it did not run."""
    if resolved.outcome == "did_not_run":
        await _free(work, resolved.tenant, resolved.call_id, resolved.outcome)


async def free_dropped(dropped: StagedCallsDropped, work: Work) -> None:
    """Free what staged calls had taken that people left out or threw away, or whose commit did not come to them."""
    for call_id in dropped.call_ids:
        await _free(work, dropped.tenant, call_id, dropped.outcome)


async def _free(work: Work, tenant: str, call_id: str, kind: str) -> None:
    await limit_store.give_back(work, tenant, call_id, kind)
    returned = await grant_store.return_use(work, tenant, call_id)
    if returned is not None:
        moved, detail = (GrantEvent.RETURN, returned.before), {"kind": kind, "uses_left": returned.uses_left}
        work.record(records.of_grant((tenant, returned.grant_id), *moved, "policy", call_id, detail))


async def remember_denial(closed: WatchedCallClosed, work: Work, deps: Deps) -> None:
    """Begin the veto window of a call that people denied; watch one that ended otherwise no more."""
    verify_signed(deps.verifier, closed, work.restored_at)
    if closed.state == "denied":
        await watched_store.deny(work, closed)
    else:
        await watched_store.forget(work, closed.tenant, closed.call_id)


@leisurely
async def judge_edit(proposed: EditProposed, work: Work, deps: Deps) -> None:
    """Say whether people may approve a held call with other arguments."""
    verify_signed(deps.verifier, proposed, work.restored_at)
    rulebook = deps.rulebook
    call = proposed.call
    history = await store.load_history(work, call) if rulebook.uses_history else {}
    asked = await store.load_approval(work, proposed.tenant, call.call_id)
    earlier: Sequence[Watched] = ()
    if rulebook.uses_veto_windows:
        # What is no strict JSON is the same as nothing, and refused.
        with suppress(NotStrictJson):
            earlier = await watched_store.find(work, CallFacts.of(call))
    held = edits.Held(asked, history, await _reserved(work, call, proposed.rule), earlier)
    if call.tool == COMMIT_TOOL:
        staged = await store.load_staged(work, call, edits.proposed_entries(proposed))
        answer = edits.judged_commit(proposed, held, staged, rulebook)
    else:
        answer = edits.judged(proposed, held, rulebook)
    if answer.accepted:
        await watched_store.add_revision(work, proposed.tenant, call.call_id, parse_arguments(call.arguments))
    work.emit(signed(answer, deps.signer, work.now))


@leisurely
async def judge_again(approved: CallApproved, work: Work, deps: Deps) -> None:
    """Hand on the permit of a call that people approved, unless the rules of today deny it.

    What holds it by now, more strictly or not, is no denial: people have been asked.
    """
    call, rulebook = approved.call, deps.rulebook
    check_digest(call, approved.tenant)
    permit = verify_permit(deps.verifier, approved.permit, call, pool=approved.pool, modes=("run", "commit"))
    refuse_void(permit.iat, work.restored_at)
    history = await store.load_history(work, call) if rulebook.uses_history else {}
    facts = replace(CallFacts.of(call), history=history)
    entries: Sequence[JudgedEntry] = ()
    if call.tool == COMMIT_TOOL:
        facts, entries = await _judge_entries(work, call, facts, rulebook)
    verdict = judge_within(facts, rulebook, approved.rule, await _reserved(work, call, approved.rule))
    denied = denied_entries(entries)
    stays = verdict.effect not in {Effect.DENY, Effect.STAGE}
    work.record(records.judged_again(facts, denied[0][1] if stays and denied else verdict))
    if not stays:
        work.emit(denied_by_now(call, verdict))
    elif denied:
        kept = wanted_entries(facts.arguments)
        proposed = wanted_entries(parse_arguments(call.edited.proposed)) if call.edited else ()
        work.emit(entries_denied_by_now(call, denied, [each for each in proposed if each not in kept]))
    else:
        what = approved.model_dump(include={"tenant", "pool", "permit"})
        work.emit(ToolCallPermitted(**what, call=call.bare()))


async def _reserved(work: Work, call: ToolCall, rule: str) -> Mapping[str, Decimal]:
    """Return what a call that `rule` held has of the limits of another rule, by counter."""
    return await limit_store.reserved(work, call.tenant, call.call_id) if rule == VETO_WINDOW else NOTHING


async def abandon_approved(message: AbandonCall, work: Work) -> None:
    """End an approved call whose permit was given up before it was judged again: nobody else has it."""
    work.emit(given_up(message))


async def abandon_call(message: AbandonCall, work: Work, deps: Deps) -> None:
    """End a call whose proposal was given up, unless it has a verdict: then what followed from that stands.

    The verdict stored here also sees to it that a second copy of the proposal is not judged any more.
    """
    verdict, verdict_id = rules.abandoned(message.by, deps.rulebook), new_id()
    async with limit_store.Counters(work).hardly_waiting():
        added = await store.add_verdicts(work, [store.Entry(verdict_id, message, verdict)])
    if added:
        work.emit(abandoned(message, verdict))
        records.record_verdict(work, message, verdict, verdict_id)


def _facts_of(proposed: ToolCallProposed) -> CallFacts:
    """Return what the rules look at; raise SecurityAlert unless the digest is the one of exactly this call."""
    call = proposed.call
    check_digest(call, proposed.tenant)
    try:
        return CallFacts.of(call)
    except NotStrictJson as error:
        raise SecurityAlert(f"the arguments of call {call.call_id} never passed the agent's door: {error}") from error


async def _check_same(work: Work, known: Sequence[ToolCall | AbandonCall]) -> None:
    """Raise SecurityAlert where a call was judged before with other contents."""
    judged = await store.load_digests(work, [call.call_id for call in known]) if known else {}
    for call in known:
        if call.digest != judged[call.call_id]:
            raise SecurityAlert(f"call {call.call_id} was proposed again with other contents")
