"""Permits arrive, and the words of people who looked whether a call ran.

Claiming takes the calls' rows in the handler's own transaction, with one statement for all that arrived together; a
tool is started only after the commit, because what is not recorded as begun would look after a crash as if it had
never been begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from services.executor import rules, store
from services.executor.metrics import count_answer
from services.executor.states import MACHINE, Event
from services.executor.store import Attempt, Wanted
from services.executor.worker import Worker
from shared.consumer import Arrival
from shared.errors import Refused, SecurityAlert
from shared.messages import AbandonCall, ResolveCall, ToolCallPermitted
from shared.permit import Permit, verify_permit
from shared.signed import verify_signed
from shared.signing import Verifier
from shared.transitions import ExpectedRace
from shared.work import Work


async def claim_calls(arrivals: Sequence[Arrival[ToolCallPermitted]], work: Work, *, pool: str, worker: Worker) -> None:
    """Claim each permitted call for a first attempt, once, or answer why it will never run."""
    wanted = [_wanted(arrival, work, pool=pool, worker=worker) for arrival in arrivals]
    for each, ours_since in zip(wanted, await store.reserve(work, wanted, worker.holder), strict=True):
        if ours_since is None:
            call_id = each.attempt.call.call_id
            raise SecurityAlert(f"replayed permit {each.permit.jti}: call {call_id} was taken before")
        work.cause = each.attempt.cause
        await _begin(each, work, worker, now=ours_since)


async def _begin(wanted: Wanted, work: Work, worker: Worker, *, now: datetime) -> None:
    """Start the reserved call after the commit, or turn it away with its one answer."""
    call, spec = wanted.attempt.call, worker.specs.get(wanted.attempt.call.tool)
    admission = rules.admit(call, wanted.permit, spec, now=now)
    await store.admit(work, wanted, admission, worker=worker.holder.worker)
    if admission.event is Event.CLAIMED:
        work.act(partial(worker.start, wanted.attempt))
    else:
        answer = rules.refused(call, admission)
        work.emit(answer)
        work.act(partial(count_answer, answer, known=spec is not None))


def _wanted(arrival: Arrival[ToolCallPermitted], work: Work, *, pool: str, worker: Worker) -> Wanted:
    permitted = arrival.message
    permit = genuine_permit(permitted, pool=pool, worker=worker)
    spec = worker.specs.get(permitted.call.tool)
    held = permit.held
    attempt = Attempt(permitted.call, permitted.permit, pool, 1, work.now, arrival.cause, held=held)
    return Wanted(attempt, permit, idempotent=spec is not None and spec.idempotent)


async def abandon_call(message: AbandonCall, work: Work, *, pool: str) -> None:
    """Answer for a call whose permit was given up, unless an executor took it before: then its own answer stands.

    The row taken here also sees to it that a second copy of the permit begins nothing any more.
    """
    answer = rules.abandoned(message)
    if await store.abandon(work, message, pool=pool, error=answer.reason):
        work.emit(answer)


async def resolve_call(said: ResolveCall, work: Work, *, verifier: Verifier) -> None:
    """Keep what a person says of a call that was answered `unknown`, and tell the conversation; the answer stands."""
    verify_signed(verifier, said)
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
    permit = verify_permit(worker.verifier, permitted.permit, permitted.call, pool=pool)
    if (permitted.tenant, permitted.pool) != (permit.tenant, permit.aud):
        raise SecurityAlert(f"permit {permit.jti} came in the name of another tenant or pool")
    return permit
