"""All SQL of the executor. Every change of a state writes its history row here, in the same transaction.

Times are the database's `clock_timestamp()`, never a worker's: leases and permits of machines whose clocks differ
would otherwise end at different moments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
import structlog

from services.executor.rules import LOST_TEXT, Admission, Outcome
from services.executor.states import MACHINE, Event, State
from services.executor.store import statements
from shared.messages import AbandonCall, ResolveCall, ToolCall
from shared.permit import HELD_BY, Permit, permit_id
from shared.sql import Connection, spread
from shared.transitions import ExpectedRace
from shared.work import Cause, Change, Work

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to run a call, claimed and not settled."""

    call: ToolCall
    #: The signed permit, JWS compact form.
    permit: str
    pool: str
    #: Number of this attempt, from 1.
    fence: int
    #: When the first attempt began.
    begun_at: datetime
    cause: Cause
    #: RUNNING for the tool, VERIFYING for its probe.
    state: State = State.RUNNING
    #: Of a probe: what is told of the attempt where the probe cannot tell.
    doubt: str = LOST_TEXT
    #: Whether people were asked: approval issued the permit.
    held: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """A call that arrived with a genuine permit and wants its first attempt."""

    attempt: Attempt
    permit: Permit
    #: Whether its tool is safe to repeat.
    idempotent: bool


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds leases, and for how long without a word."""

    worker: str
    lease_seconds: float

    @property
    def lease(self) -> timedelta:
        """How long a lease lasts that begins now."""
        return timedelta(seconds=self.lease_seconds)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Which lost attempts one executor looks after, and which of them it can repeat."""

    pools: Sequence[str]
    #: Schema digests of the tools that it has and that are safe to repeat.
    repeatable: Collection[str]
    attempts_max: int
    #: Schema digests of the tools that it has and that have a probe, each with the tool's time in seconds.
    probed: Mapping[str, float] = field(default_factory=dict)


async def reserve(work: Work, wanted: Sequence[Wanted], holder: Holder) -> list[datetime | None]:
    """Take the calls' rows, as running; return the time once a row is ours, None where call or permit were seen.

    The time is the same for all, read after every wait for another transaction with one of the calls, so that no permit
    is honoured that expired while waiting.
    """
    rows = spread("wanted", statements.WANTED, map(_row, wanted))
    values = {**rows, "holder": holder.worker, "lease": holder.lease}
    taken = {row.call_id: row.at for row in await work.connection.execute(statements.RESERVE, values)}
    ours_since = max(taken.values(), default=None)
    return [ours_since if taken.pop(each.attempt.call.call_id, None) else None for each in wanted]


async def admit(work: Work, wanted: Wanted, admission: Admission, *, worker: str) -> None:
    """Give the reserved row the state it was admitted with."""
    attempt, permit = wanted.attempt, wanted.permit
    ids = {"permit_id": permit.jti, "issuer": permit.iss, "reference": permit.reference, "pool": attempt.pool}
    if admission.event is not Event.CLAIMED:
        values = {**_ours(attempt), "new_state": admission.state.value, "new_error": admission.reason}
        await work.connection.execute(statements.TURN_AWAY, values)
        ids["reason"] = admission.reason
    _record(work, attempt, admission.event, (None, admission.state), worker, ids)


async def abandon(work: Work, message: AbandonCall, *, pool: str, error: str) -> bool:
    """Take the row of a call that never came, as refused; False where call or permit were seen, and nothing is done."""
    state = MACHINE.next_state(State.NEW, Event.ABANDONED)
    values = {
        "call_id": message.call_id,
        "tenant": message.tenant,
        "conversation_id": message.conversation_id,
        "tool": message.tool,
        "schema_digest": message.schema_digest,
        "pool": pool,
        "idempotent": False,
        "state": state.value,
        "fence": 0,
        "worker": message.by,
        "permit_id": permit_id(message.call_id),
        "permit_issuer": "",
        "permit": "",
        "call": "",
        "cause": work.cause.as_json(),
        "begun_at": None,
        "error": error,
    }
    if (await work.connection.execute(statements.ABANDON, values)).first() is None:
        return False
    work.record(
        Change(
            message.tenant,
            MACHINE.name,
            message.call_id,
            Event.ABANDONED,
            None,
            state,
            actor=message.by,
            call_id=message.call_id,
            detail={"pool": pool, "reason": error},
        )
    )
    return True


async def settle(work: Work, ended: Sequence[tuple[Attempt, Outcome]], *, worker: str) -> list[datetime | None]:
    """End executions as their outcomes say; return when each ended, None for an attempt that no longer counts."""
    states = [MACHINE.next_state(attempt.state, outcome.event) for attempt, outcome in ended]
    values = {
        "call_ids": [attempt.call.call_id for attempt, _ in ended],
        "fences": [attempt.fence for attempt, _ in ended],
        "states": [state.value for state in states],
        "errors": [outcome.error for _, outcome in ended],
    }
    rows = await work.connection.execute(statements.SETTLE, values)
    moved: dict[tuple[str, int], datetime] = {(row.call_id, row.fence): row.finished_at for row in rows}
    times: list[datetime | None] = []
    for (attempt, outcome), state in zip(ended, states, strict=True):
        work.cause = attempt.cause
        times.append(moved.pop((attempt.call.call_id, attempt.fence), None))
        if times[-1] is None:
            await _keep_evidence(work, attempt, outcome, outcome.event, worker)
        else:
            detail = {"fence": attempt.fence, "code": outcome.code}
            _record(work, attempt, outcome.event, (attempt.state, state), worker, detail)
    return times


async def let_go(work: Work, attempt: Attempt, outcome: Outcome, *, worker: str) -> None:
    """End the lease now, so that the next attempt may begin."""
    state = MACHINE.next_state(State.RUNNING, Event.LET_GO)
    if not (await work.connection.execute(statements.LET_GO, _ours(attempt))).rowcount:
        await _keep_evidence(work, attempt, outcome, Event.LET_GO, worker)
        return
    detail = {"fence": attempt.fence, "error": outcome.error}
    _record(work, attempt, Event.LET_GO, (State.RUNNING, state), worker, detail)


async def renew(connection: Connection, attempt: Attempt, holder: Holder) -> bool:
    """Keep the lease; False where another attempt has taken over or the call is over."""
    return bool((await connection.execute(statements.RENEW, {**_ours(attempt), "lease": holder.lease})).rowcount)


async def is_ours(connection: Connection, attempt: Attempt) -> bool:
    """Tell whether the attempt still counts."""
    return (await connection.execute(statements.IS_OURS, _ours(attempt))).first() is not None


async def probe(work: Work, attempt: Attempt, outcome: Outcome, holder: Holder) -> Attempt | None:
    """Begin the probe of an attempt that ended in doubt; None where the attempt no longer counts."""
    values = {**_ours(attempt), "new_worker": holder.worker, "lease": holder.lease}
    row = (await work.connection.execute(statements.PROBE, values)).one_or_none()
    if row is None:
        await _keep_evidence(work, attempt, outcome, Event.PROBED, holder.worker)
        return None
    probing = replace(_attempt(row), doubt=outcome.error)
    detail = {"fence": probing.fence, "error": outcome.error}
    _record(work, probing, Event.PROBED, (attempt.state, probing.state), holder.worker, detail)
    return probing


async def any_lost(connection: Connection, sweep: Sweep, event: Event) -> bool:
    """Tell whether a lost attempt waits to be repeated (RECLAIMED) or for its tool's probe (PROBED)."""
    return bool((await connection.execute(statements.ANY_LOST[event], _swept(sweep))).scalar_one())


async def take_lost(work: Work, sweep: Sweep, event: Event, holder: Holder) -> Attempt | None:
    """Begin the next attempt (RECLAIMED) or the probe (PROBED) of one lost call; None where there is none."""
    values = {**_swept(sweep), "most": 1, "new_worker": holder.worker, "lease": holder.lease}
    row = (await work.connection.execute(statements.TAKE_LOST[event], values)).one_or_none()
    if row is None:
        return None
    attempt = _attempt(row)
    work.cause = attempt.cause
    _record(work, attempt, event, (State(row.left_state), attempt.state), holder.worker, {"fence": attempt.fence})
    return attempt


async def give_up(work: Work, sweep: Sweep, *, error: str, worker: str, limit: int) -> list[tuple[Attempt, datetime]]:
    """End as unknown what is lost and may not be repeated; return the last attempts and when they ended."""
    rows = (
        await work.connection.execute(statements.GIVE_UP, {**_swept(sweep), "most": limit, "new_error": error})
    ).all()
    lost = [(_attempt(row), row.finished_at) for row in rows]
    for (attempt, _), row in zip(lost, rows, strict=True):
        work.cause = attempt.cause
        detail = {"fence": attempt.fence}
        _record(work, attempt, Event.GAVE_UP, (State(row.left_state), State(row.state)), worker, detail)
    return lost


async def resolve(work: Work, said: ResolveCall) -> Attempt | None:
    """Keep what a person says of an outcome that was answered `unknown`; None where it is not, and nothing is done."""
    values = {**_place(said), "said": said.outcome, "person": said.by, "words": said.note}
    row = (await work.connection.execute(statements.RESOLVE, values)).one_or_none()
    if row is None:
        return None
    attempt = _attempt(row)
    detail = {"outcome": said.outcome, "note": said.note}
    _record(work, attempt, Event.RESOLVED, (State.UNKNOWN, attempt.state), said.by, detail)
    return attempt


async def state_of(work: Work, said: ResolveCall) -> State | None:
    """Return the state of the call that a person speaks of; None where their tenant has none here."""
    state = (await work.connection.execute(statements.STATE_OF, _place(said))).scalar_one_or_none()
    return None if state is None else State(state)


def record_second_word(work: Work, said: ResolveCall, state: State) -> None:
    """Keep that another person had something to say of a call that is resolved: it changes nothing."""
    detail = {"late": True, "outcome": said.outcome, "note": said.note}
    work.record(
        Change(
            said.tenant,
            MACHINE.name,
            said.call_id,
            Event.RESOLVED,
            state,
            state,
            actor=said.by,
            call_id=said.call_id,
            detail=detail,
        )
    )


async def _keep_evidence(work: Work, attempt: Attempt, outcome: Outcome, event: Event, worker: str) -> None:
    """Keep what a late attempt had to say; it changes nothing.

    A state that is exactly what the attempt wanted was written by it: the answer to that commit had been lost.
    """
    row = (await work.connection.execute(statements.NOW, {"ours": attempt.call.call_id})).one()
    state = State(row.state)
    # What a probe begins has the next fence.
    newest = attempt.fence + (event is Event.PROBED)
    if row.fence == newest and state is MACHINE.next_state(attempt.state, event):
        return
    try:
        MACHINE.next_state(state, event)
    except ExpectedRace as race:
        log.info("execution.late", call_id=attempt.call.call_id, reason=str(race))
    detail = {"late": True, "fence": attempt.fence, "newest_fence": row.fence, "error": outcome.error}
    _record(work, attempt, event, (state, state), worker, detail)


def _record(
    work: Work,
    attempt: Attempt,
    event: Event,
    states: tuple[State | None, State],
    worker: str,
    detail: dict[str, Any],
) -> None:
    call = attempt.call
    work.record(
        Change(
            call.tenant, MACHINE.name, call.call_id, event, *states, actor=worker, call_id=call.call_id, detail=detail
        )
    )


def _row(wanted: Wanted) -> dict[str, Any]:
    attempt, permit, call = wanted.attempt, wanted.permit, wanted.attempt.call
    return {
        "call_id": call.call_id,
        "tenant": call.tenant,
        "conversation_id": call.conversation_id,
        "tool": call.tool,
        "schema_digest": call.schema_digest,
        "pool": attempt.pool,
        "idempotent": wanted.idempotent,
        "fence": attempt.fence,
        "permit_id": permit.jti,
        "permit_issuer": permit.iss,
        "permit_expires_at": datetime.fromtimestamp(permit.exp, UTC),
        "permit": attempt.permit,
        "call": call.model_dump_json(),
        "cause": attempt.cause.as_json(),
        "begun_at": attempt.begun_at,
    }


def _attempt(row: sa.Row[Any]) -> Attempt:
    # The row is known by its key, whatever somebody may have written into the stored call.
    call = ToolCall.model_validate_json(row.call).model_copy(update={"call_id": row.call_id})
    cause, state = Cause(**row.cause), State(row.state)
    held = row.permit_issuer == HELD_BY
    return Attempt(call, row.permit, row.pool, row.fence, row.begun_at, cause, state, held=held)


def _ours(attempt: Attempt) -> dict[str, Any]:
    return {"ours": attempt.call.call_id, "our_fence": attempt.fence}


def _swept(sweep: Sweep) -> dict[str, Any]:
    return {
        "pools": list(sweep.pools),
        "repeatable": list(sweep.repeatable),
        "attempts_max": sweep.attempts_max,
        "probed": list(sweep.probed),
        "timeouts": list(sweep.probed.values()),
    }


def _place(said: ResolveCall) -> dict[str, Any]:
    return {"ours": said.call_id, "of_tenant": said.tenant}
