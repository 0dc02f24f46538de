"""Permits arrive, and the words of people who looked whether a call ran.

Claiming is one statement for all that arrived together; a tool is started only after it, because what is not recorded
as begun would look after a crash as if it had never been begun.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from placet.contracts.errors import NotYet, Refused, SecurityAlert
from placet.contracts.messages import (
    COMMIT_TOOL,
    AbandonCall,
    ResolveCall,
    StagedCallPermitted,
    ToolCallPermitted,
)
from placet.contracts.permit import Permit, PermitMode, verify_permit
from placet.contracts.signed import verify_signed
from placet.contracts.signing import Verifier
from placet.contracts.transitions import ExpectedRace
from placet.domain.conditions import consent_lost
from placet.executor import commit_store, rules, store
from placet.executor.metrics import count_answer
from placet.executor.rules import Admission, Outcome
from placet.executor.standing import take_up
from placet.executor.states import MACHINE, Event, State
from placet.executor.store import Attempt, Wanted
from placet.executor.tables import Journal
from placet.executor.worker import Worker
from placet.runtime.consumer import Arrival
from placet.runtime.driver import Outage
from placet.runtime.work import Work

#: What a permit that comes with its call may be good for.
_MODES: tuple[PermitMode, ...] = ("run", "stage", "commit")
_STAGED: tuple[PermitMode, ...] = ("staged_call",)


async def claim_calls(arrivals: Sequence[Arrival[ToolCallPermitted]], work: Work, *, pool: str, worker: Worker) -> None:
    """Claim each permitted call for a first attempt, once, or answer why it will never run: one statement."""
    wanted: dict[str, tuple[Wanted, Admission]] = {}
    for arrival in arrivals:
        each = _wanted(arrival, work, pool=pool, worker=worker)
        spec = worker.specs.get(each.attempt.call.tool)
        admission = rules.admit(each.attempt.call, each.permit, spec, now=work.now, restored=work.restored_at)
        if admission.event is Event.CLAIMED and each.permit.has_consent:
            left = consent_lost(each.permit, each.attempt.call, worker.standing.directory())
            admission = rules.consent_void() if left else admission
        wanted[arrival.cause.id] = each, admission
        work.cause = arrival.cause
        store.record_admission(work, each, admission, worker=worker.holder.worker)
        if admission.event is not Event.CLAIMED:
            work.emit(rules.refused(each.attempt.call, admission))
    if len({each.attempt.call.call_id for each, _ in wanted.values()}) < len(wanted):
        raise SecurityAlert("two permits for one call came together")
    taken: Mapping[str, Admission | None] = dict.fromkeys(wanted)
    try:
        taken = await store.claim(work, wanted, worker.holder)
        await _begin(taken, wanted, work, worker)
        missed = await _why_missed({key: each for key, each in wanted.items() if key not in taken}, work, worker)
    except Outage:
        # None of them has begun, and nobody knows whether this was committed.
        for key in taken:
            worker.doubt(wanted[key][0].attempt)
        raise
    if missed:
        # What was taken begins, whatever becomes of its neighbour.
        await worker.units.finish(work)
        raise missed


async def _begin(
    taken: Mapping[str, Admission | None],
    wanted: Mapping[str, tuple[Wanted, Admission]],
    work: Work,
    worker: Worker,
) -> None:
    """Hand over what begins once this is committed, and turn away what may not begin after all."""
    for key, void in taken.items():
        each, admission = wanted[key]
        if void:
            await worker.turn_away(each, void)
        elif admission.event is Event.CLAIMED:
            work.act(partial(worker.start, each.attempt))
        else:
            answer = rules.refused(each.attempt.call, admission)
            work.act(partial(count_answer, answer, known=each.attempt.call.tool in worker.specs))


async def _why_missed(
    missed: Mapping[str, tuple[Wanted, Admission]], work: Work, worker: Worker
) -> SecurityAlert | NotYet | None:
    """Return what is wrong with one of these, which were not taken; None where they are events that came twice.

    Of a permit that nobody used the turn has not come: others of the same answer go on.
    """
    if not missed:
        return None
    takers = await store.takers(work.connection, [each.attempt.call.call_id for each, _ in missed.values()])
    wrong: SecurityAlert | NotYet | None = None
    for key, (each, admission) in missed.items():
        call_id = each.attempt.call.call_id
        if takers.get(call_id) == key:
            await _take_up(each, admission, work, worker)
        elif each.permit.answer and call_id not in takers:
            wrong = NotYet("other calls of the same answer have not ended")
        else:
            wrong = SecurityAlert(f"replayed permit {each.permit.jti}: call {call_id} was taken before")
    return wrong


async def _take_up(wanted: Wanted, admission: Admission, work: Work, worker: Worker) -> None:
    """Begin a call that this process has claimed, where the answer to that commit was lost; only it knows of it."""
    attempt = wanted.attempt
    if not (moments := worker.doubted.get(attempt.call.call_id)):
        return
    refused = None if admission.event is Event.CLAIMED else admission
    void = refused or await worker.standing.why_refused(work.connection, attempt.call, wanted.permit)
    try:
        late = await take_up(work.connection, wanted, worker.holder, moments)
        worker.doubted.pop(attempt.call.call_id, None)
        if late is None:
            return
        if void := void or (rules.too_late() if late else None):
            await worker.turn_away(wanted, void)
        else:
            await worker.start(attempt)
    except Outage:
        worker.doubt(attempt)
        raise


def _wanted(arrival: Arrival[ToolCallPermitted], work: Work, *, pool: str, worker: Worker) -> Wanted:
    permitted = arrival.message
    permit = genuine_permit(permitted, pool=pool, worker=worker)
    spec = worker.specs.get(permitted.call.tool)
    plan = permitted.plan if permit.mode == "stage" else None
    attempt = Attempt(
        permitted.call,
        permitted.permit,
        pool,
        1,
        work.now,
        arrival.cause,
        held=permit.held,
        approval_id=permit.reference if permit.held else "",
        mode=permit.mode,
        plan=plan,
        asked_at=worker.standing.monotonic(),
    )
    # Staging changes nothing outside: any call may be staged again.
    idempotent = permit.mode == "stage" or (permit.mode == "run" and spec is not None and spec.idempotent)
    return Wanted(attempt, permit, idempotent=idempotent)


async def release_call(message: StagedCallPermitted, work: Work, *, pool: str, worker: Worker) -> None:
    """Begin a staged call of a committed workspace if it is its turn; else keep its permit until it is."""
    found = await commit_store.lock_turn(work, message.workspace_id, message.tenant, message.call_id)
    if found is None:
        raise SecurityAlert(f"a permit came for call {message.call_id}, which is not staged in that workspace")
    workspace, turn = found
    attempt = store.attempt_of(turn)
    permit = verify_permit(worker.standing.verifier, message.permit, attempt.call, pool=pool, modes=_STAGED)
    state, commit = turn["entry_state"], workspace["commit_call_id"]
    if state == "waiting" or (state == "kept" and permit.commit == commit):
        await commit_store.keep_permit(work, message.call_id, message.permit, permit)
    if state != "kept" or permit.commit != commit or turn["state"] != State.STAGED:
        # Its commit has not come, or it began or ended before.
        return
    following = await commit_store.next_call(work, message.workspace_id, commit)
    if workspace["journal"] != Journal.APPLIED or following is None or following["call_id"] != message.call_id:
        return
    spec, asked_at = worker.specs.get(attempt.call.tool), worker.standing.monotonic()
    admission = await worker.standing.why_refused(work.connection, attempt.call, permit) or rules.admit(
        attempt.call, permit, spec, now=await work.clock(), restored=work.restored_at
    )
    if admission.event is not Event.CLAIMED:
        refused = Outcome(Event.FAILED, error=admission.reason)
        await worker.committing.call_ended(work, attempt, refused, refused=True)
        return
    idempotent = spec is not None and spec.idempotent
    begun = await commit_store.release(
        work, attempt, permit, worker.holder, token=message.permit, idempotent=idempotent
    )
    if begun is not None:
        work.act(partial(worker.start, replace(begun, asked_at=asked_at)))


async def abandon_call(message: AbandonCall, work: Work, *, pool: str) -> None:
    """Answer for a call whose permit was given up, unless an executor took it before: then its own answer stands.

    The row taken here also sees to it that a second copy of the permit begins nothing any more.
    """
    answer = rules.abandoned(message)
    if await store.abandon(work, message, pool=pool, error=answer.reason):
        work.emit(answer)


async def resolve_call(said: ResolveCall, work: Work, *, verifier: Verifier) -> None:
    """Keep what a person says of a call that was answered `unknown`, and tell the conversation; the answer stands."""
    verify_signed(verifier, said, work.restored_at)
    if resolved := await store.resolve(work, said):
        work.emit(rules.resolved(said, resolved.call, at=await work.clock()))
        return
    state = await store.state_of(work, said)
    if state is None:
        raise Refused("no such execution", status=404, kind="not-found")
    try:
        MACHINE.next_state(state, Event.RESOLVED)
    except ExpectedRace:
        store.record_second_word(work, said, state)


def genuine_permit(permitted: ToolCallPermitted, *, pool: str, worker: Worker) -> Permit:
    """Return the permit of this message; raise SecurityAlert where anything but its issuer could have written it."""
    permit = verify_permit(worker.standing.verifier, permitted.permit, permitted.call, pool=pool, modes=_MODES)
    if (permit.mode == "commit") != (permitted.call.tool == COMMIT_TOOL):
        raise SecurityAlert(f"permit {permit.jti} is good for another kind of call")
    if (permitted.tenant, permitted.pool) != (permit.tenant, permit.aud):
        raise SecurityAlert(f"permit {permit.jti} came in the name of another tenant or pool")
    return permit
