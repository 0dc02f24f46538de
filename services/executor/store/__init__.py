"""All SQL of the executor: named statements in `queries.sql`, and values instead of rows.

Every change of a state has its history row from here, in the same transaction. Times are the database's
`clock_timestamp()`, never a worker's: leases of machines whose clocks differ would otherwise end at different moments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic_core import from_json

from placet.contracts.messages import AbandonCall, ResolveCall, ToolCall, ToolCallFinished, ToolCallRefused
from placet.contracts.messages.stage import StagePlan
from placet.contracts.permit import HELD_BY, Permit, PermitMode, permit_id, reference_of
from placet.contracts.transitions import ExpectedRace
from placet.executor.rules import LOST_TEXT, NOT_STAGED_TEXT, Admission, Outcome, answer, void
from placet.executor.states import MACHINE, Event, State
from placet.runtime.queries import load_queries
from placet.runtime.sql import Connection
from placet.runtime.work import Cause, Change, Work

QUERIES = load_queries(__file__)
#: What a row has of its call as it is.
_OF_CALL = ("call_id", "tenant", "conversation_id", "tool", "schema_digest", "agent")


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
    #: The approval that they were asked by, for the log.
    approval_id: str = ""
    #: What the permit is good for, and how the call is to be staged where it is that.
    mode: PermitMode = "run"
    plan: StagePlan | None = None
    #: Of a commit that was lost: why it may not be decided any more, half a sentence; empty where it may.
    void: str = ""
    #: Whether the sweeper began it: an attempt before it may have run.
    is_repeated: bool = False
    #: When this process sent what let it begin, in seconds of its monotonic clock; long ago where nobody says so.
    asked_at: float = field(default=float("-inf"), compare=False)

    @property
    def ids(self) -> dict[str, object]:
        """What the log says of whose attempt it is."""
        ids = {"tenant": self.call.tenant, "conversation_id": self.call.conversation_id, "call_id": self.call.call_id}
        return {**ids, "fence": self.fence, **self.asked_by}

    def answer(self, outcome: Outcome, at: datetime) -> ToolCallFinished | ToolCallRefused:
        """Return the one answer to its call where it ended so at that moment."""
        times = {"started_at": self.begun_at, "finished_at": at}
        return answer(self.call, outcome, fence=self.fence, held=self.held, **times)

    @property
    def asked_by(self) -> dict[str, str]:
        """What the log says of the approval that people were asked by; nothing where nobody was."""
        return {"approval_id": self.approval_id} if self.approval_id else {}


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


async def claim(
    work: Work, wanted: Mapping[str, tuple[Wanted, Admission]], holder: Holder
) -> dict[str, Admission | None]:
    """Take the calls' rows with the state that each is admitted with, and what was handed over, by the same keys.

    Return those taken, each with what becomes of it where it may not begin after all: its permit ran out while another
    transaction was waited for, an API key works no more that somebody's yes was given with, or it is stopped.
    """
    rows = [(key, each.attempt, each.permit, each.idempotent, admission) for key, (each, admission) in wanted.items()]
    found = await work.execute_once(
        QUERIES.claim,
        keys=[key for key, *_ in rows],
        **{f"{name}s": [getattr(attempt.call, name) for _, attempt, *_ in rows] for name in _OF_CALL},
        idempotents=[idempotent for *_, idempotent, _ in rows],
        permit_ids=[permit.jti for _, _, permit, *_ in rows],
        permit_issuers=[permit.iss for _, _, permit, *_ in rows],
        permit_ends=[datetime.fromtimestamp(permit.exp, UTC) for _, _, permit, *_ in rows],
        permits=[attempt.permit for _, attempt, *_ in rows],
        calls=[_call_text(attempt.call) for _, attempt, *_ in rows],
        causes=[attempt.cause.as_json() for _, attempt, *_ in rows],
        states=[admission.state.value for *_, admission in rows],
        errors=[admission.reason for *_, admission in rows],
        modes=[None if permit.mode == "run" else permit.mode for _, _, permit, *_ in rows],
        plans=[attempt.plan and attempt.plan.model_dump_json() for _, attempt, *_ in rows],
        api_keys=[" ".join(permit.keys) for _, _, permit, *_ in rows],
        answers=[permit.answer or None for _, _, permit, *_ in rows],
        earlier=[" ".join(permit.earlier) for _, _, permit, *_ in rows],
        pool=rows[0][1].pool,
        begun_at=rows[0][1].begun_at,
        worker=holder.worker,
        lease=holder.lease,
    )
    return {row["key"]: void(stop=row["stopped"], revoked=row["revoked"], late=row["late"]) for row in found}


async def takers(connection: Connection, call_ids: Sequence[str]) -> dict[str, str]:
    """Return of calls that were taken the event that led to it; an empty text of those that are no more."""
    rows = await connection.run(QUERIES.takers, call_ids=call_ids)
    return {row["call_id"]: row["taken_by"] for row in rows}


async def unstaged(connection: Connection, call_ids: Sequence[str]) -> list[str]:
    """Return those of these calls that may be staged yet."""
    return [row["call_id"] for row in await connection.run(QUERIES.unstaged, call_ids=call_ids)]


async def turn_away(work: Work, wanted: Wanted, admission: Admission, *, worker: str) -> bool:
    """End what was taken after all before it begins; False where it is not ours any more."""
    state = MACHINE.next_state(State.RUNNING, admission.event)
    values = {**_ours(wanted.attempt), "state": state.value, "error": admission.reason}
    if not await work.connection.run(QUERIES.turn_away, **values):
        return False
    record_admission(work, wanted, admission, before=State.RUNNING, worker=worker)
    return True


def record_admission(
    work: Work, wanted: Wanted, admission: Admission, *, worker: str, before: State | None = None
) -> None:
    """Hand over the history of a call that was taken, or turned away."""
    attempt, permit = wanted.attempt, wanted.permit
    ids = {"permit_id": permit.jti, "issuer": permit.iss, "reference": permit.reference, "pool": attempt.pool}
    if admission.reason:
        ids["reason"] = admission.reason
    record(work, attempt, admission.event, (before, admission.state), worker, ids)


async def abandon(work: Work, message: AbandonCall, *, pool: str, error: str) -> bool:
    """Take the row of a call that never came, as refused; False where call or permit were seen, and nothing is done."""
    state = MACHINE.next_state(State.NEW, Event.ABANDONED)
    values = {
        name: getattr(message, name) for name in ("call_id", "tenant", "conversation_id", "tool", "schema_digest")
    }
    taken = await work.connection.run(
        QUERIES.abandon,
        **values,
        pool=pool,
        state=state.value,
        worker=message.by,
        permit_id=permit_id(message.call_id),
        cause=work.cause.as_json(),
        error=error,
    )
    if not taken:
        return False
    ids = (message.call_id, Event.ABANDONED, None, state, message.by, message.call_id)
    detail = {"pool": pool, "permit_id": permit_id(message.call_id), "reason": error}
    about = {"conversation_id": message.conversation_id, "tool": message.tool}
    work.record(Change(message.tenant, MACHINE.name, *ids, detail, about))
    return True


async def settle(work: Work, ended: Mapping[str, tuple[Attempt, Outcome]], *, worker: str) -> set[str]:
    """End executions as their outcomes say, with what was handed over by the same keys; return those that counted."""
    states = {key: MACHINE.next_state(attempt.state, outcome.event) for key, (attempt, outcome) in ended.items()}
    for key, (attempt, outcome) in ended.items():
        work.cause = attempt.cause
        detail = {"fence": attempt.fence, "code": outcome.code}
        record(work, attempt, outcome.event, (attempt.state, states[key]), worker, detail, key=key)
    rows = await work.execute_once(
        QUERIES.settle,
        keys=list(ended),
        call_ids=[attempt.call.call_id for attempt, _ in ended.values()],
        fences=[attempt.fence for attempt, _ in ended.values()],
        states=[state.value for state in states.values()],
        errors=[outcome.error for _, outcome in ended.values()],
        finished_at=work.now,
    )
    return {row["key"] for row in rows}


async def let_go(work: Work, attempt: Attempt, outcome: Outcome, *, worker: str) -> None:
    """End the lease now, so that the next attempt may begin."""
    state = MACHINE.next_state(State.RUNNING, Event.LET_GO)
    if not await work.connection.run(QUERIES.let_go, **_ours(attempt)):
        await keep_evidence(work, attempt, outcome, Event.LET_GO, worker)
        return
    detail = {"fence": attempt.fence, "error": outcome.error}
    record(work, attempt, Event.LET_GO, (State.RUNNING, state), worker, detail)


async def renew(connection: Connection, attempt: Attempt, holder: Holder) -> bool:
    """Keep the lease; False where another attempt has taken over or the call is over."""
    return bool(await connection.run(QUERIES.renew, **_ours(attempt), lease=holder.lease))


async def is_ours(connection: Connection, attempt: Attempt) -> bool:
    """Tell whether the attempt still counts."""
    return bool(await connection.run(QUERIES.is_ours, **_ours(attempt)))


async def probe(work: Work, attempt: Attempt, outcome: Outcome, holder: Holder) -> Attempt | None:
    """Begin the probe of an attempt that ended in doubt; None where the attempt no longer counts."""
    rows = await work.connection.run(QUERIES.probe, **_ours(attempt), worker=holder.worker, lease=holder.lease)
    if not rows:
        await keep_evidence(work, attempt, outcome, Event.PROBED, holder.worker)
        return None
    probing = replace(attempt_of(rows[0]), doubt=outcome.error)
    detail = {"fence": probing.fence, "error": outcome.error}
    record(work, probing, Event.PROBED, (attempt.state, probing.state), holder.worker, detail)
    return probing


async def begin_again(work: Work, call_id: str, left: State, event: Event, holder: Holder) -> Attempt:
    """Begin the next attempt, or the probe, of a call whose row is locked."""
    state = MACHINE.next_state(left, event)
    (row,) = await work.connection.run(
        QUERIES.begin_again, call_id=call_id, state=state.value, worker=holder.worker, lease=holder.lease
    )
    attempt = attempt_of(row)
    work.cause = attempt.cause
    record(work, attempt, event, (left, attempt.state), holder.worker, {"fence": attempt.fence})
    return attempt


async def find_lost(connection: Connection, sweep: Sweep, event: Event) -> Attempt | None:
    """Lock a lost attempt that is to be repeated (RECLAIMED) or waits for its probe (PROBED), if there is one."""
    values = _swept(sweep)
    if event is Event.PROBED:
        rows = await connection.run(QUERIES.to_probe, **values, timeouts=list(sweep.probed.values()))
    else:
        del values["probed"]
        rows = await connection.run(QUERIES.to_repeat, **values)
    return attempt_of(rows[0]) if rows else None


async def never_again(connection: Connection, attempt: Attempt) -> None:
    """Leave a lost attempt, whose row is locked, to its probe or to be given up, as if it were not safe to repeat."""
    await connection.run(QUERIES.never_again, call_id=attempt.call.call_id)


async def give_up(work: Work, sweep: Sweep, *, worker: str, limit: int) -> list[tuple[Attempt, datetime]]:
    """End as unknown what is lost and may not be repeated; return the last attempts and when they ended.

    Of a call that was only to be staged it is known that nothing happened: it has failed.
    """
    texts = {"error": LOST_TEXT, "not_staged": NOT_STAGED_TEXT}
    rows = await work.connection.run(QUERIES.give_up, **_swept(sweep), most=limit, **texts)
    lost = [(attempt_of(row), row["finished_at"]) for row in rows]
    for (attempt, _), row in zip(lost, rows, strict=True):
        work.cause = attempt.cause
        states = (State(row["left_state"]), State(row["state"]))
        event = Event.FAILED if attempt.state is State.FAILED else Event.GAVE_UP
        record(work, attempt, event, states, worker, {"fence": attempt.fence})
    return lost


async def resolve(work: Work, said: ResolveCall) -> Attempt | None:
    """Keep what a person says of an outcome that was answered `unknown`; None where it is not, and nothing is done."""
    words = {"said": said.outcome, "by": said.by, "note": said.note, "signed": said.signature}
    rows = await work.connection.run(QUERIES.resolve, call_id=said.call_id, tenant=said.tenant, **words)
    if not rows:
        return None
    attempt = attempt_of(rows[0])
    detail = {"outcome": said.outcome, "note": said.note}
    record(work, attempt, Event.RESOLVED, (State.UNKNOWN, attempt.state), said.by, detail)
    return attempt


async def count_unknown(connection: Connection, pools: Sequence[str]) -> dict[str, int]:
    """Return how many calls of each pool wait for a person to say whether they ran."""
    return {row["pool"]: row["calls"] for row in await connection.run(QUERIES.count_unknown, pools=list(pools))}


async def state_of(work: Work, said: ResolveCall) -> State | None:
    """Return the state of the call that a person speaks of; None where their tenant has none here."""
    rows = await work.connection.run(QUERIES.state_of, call_id=said.call_id, tenant=said.tenant)
    return State(rows[0]["state"]) if rows else None


def record_second_word(work: Work, said: ResolveCall, state: State) -> None:
    """Keep that another person had something to say of a call that is resolved: it changes nothing."""
    detail = {"late": True, "outcome": said.outcome, "note": said.note}
    ids = (said.call_id, Event.RESOLVED, state, state, said.by, said.call_id)
    work.record(Change(said.tenant, MACHINE.name, *ids, detail))


async def keep_evidence(work: Work, attempt: Attempt, outcome: Outcome, event: Event, worker: str) -> None:
    """Keep what a late attempt had to say; it changes nothing.

    A state that is exactly what the attempt wanted was written by it: the answer to that commit had been lost.
    """
    (row,) = await work.connection.run(QUERIES.standing, call_id=attempt.call.call_id)
    state = State(row["state"])
    # What a probe begins has the next fence.
    newest = attempt.fence + (event is Event.PROBED)
    if row["fence"] == newest and state is MACHINE.next_state(attempt.state, event):
        return
    with suppress(ExpectedRace):
        MACHINE.next_state(state, event)
    detail = {"late": True, "fence": attempt.fence, "newest_fence": row["fence"], "error": outcome.error}
    record(work, attempt, event, (state, state), worker, detail)


def record(
    work: Work,
    attempt: Attempt,
    event: Event,
    states: tuple[State | None, State],
    worker: str,
    detail: dict[str, Any],
    *,
    key: str | None = None,
) -> None:
    """Hand over the history of an execution."""
    call = attempt.call
    about = {"conversation_id": call.conversation_id, "tool": call.tool, **attempt.asked_by}
    lost = states[1] is State.UNKNOWN and states[0] is not State.UNKNOWN
    change = Change(call.tenant, MACHINE.name, call.call_id, event, *states, worker, call.call_id, detail, about, lost)
    work.record(change, key=key)


def _call_text(call: ToolCall) -> str:
    """Return a call as it is kept: without what stands at its default, and arguments once where people may see all."""
    repeated = {"shown_arguments"} if call.shown_arguments == call.arguments else set()
    return call.model_dump_json(exclude=repeated, exclude_defaults=True)


def attempt_of(row: Mapping[str, Any]) -> Attempt:
    """Return the newest attempt of a row."""
    kept = from_json(row["call"])
    # The row is known by its key, whatever somebody may have written into the stored call.
    told = {"shown_arguments": kept.get("arguments")} | kept | {"call_id": row["call_id"]}
    call = ToolCall.model_validate(told)
    place = (row["permit"], row["pool"], row["fence"], row["begun_at"])
    held = row["permit_issuer"] == HELD_BY
    asked = {"held": held, "approval_id": reference_of(row["permit"]) if held else ""}
    plan = StagePlan.model_validate_json(row["plan"]) if row["plan"] else None
    mode: PermitMode = row["mode"] or "run"
    return Attempt(call, *place, Cause(**row["cause"]), State(row["state"]), **asked, mode=mode, plan=plan)


def _ours(attempt: Attempt) -> dict[str, Any]:
    return {"call_id": attempt.call.call_id, "fence": attempt.fence}


def _swept(sweep: Sweep) -> dict[str, Any]:
    named = {name: list(getattr(sweep, name)) for name in ("pools", "repeatable", "probed")}
    return {**named, "attempts_max": sweep.attempts_max}
