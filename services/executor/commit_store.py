"""SQL of commits: what a decision lets through of a workspace, how far it is, and the turns of its staged calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic_core import to_json

from placet.contracts.permit import Permit
from placet.executor.plans import LEFT_TEXT, Decision, Entry, Step
from placet.executor.rules import Outcome
from placet.executor.states import MACHINE, WORKSPACE_MACHINE, Event, State, WorkspaceEvent, WorkspaceState
from placet.executor.store import Attempt, Holder, Sweep, attempt_of, record
from placet.executor.tables import Journal
from placet.executor.workspace_store import QUERIES, record_workspace
from placet.runtime.sql import Connection
from placet.runtime.work import Work


def _entry(row: Mapping[str, Any]) -> Entry:
    return Entry(**{name: row[name] for name in Entry.__slots__})


async def committed_entries(work: Work, workspace: str, commit: str) -> list[Entry]:
    """Return the entries that a commit let through or left out, in order."""
    rows = await work.run(QUERIES.committed_entries, workspace_id=workspace, commit_call_id=commit)
    return [_entry(row) for row in rows]


async def entries_of(work: Work, workspace: str) -> list[Entry]:
    """Return all entries of a workspace, in order."""
    return [_entry(row) for row in await work.run(QUERIES.entries, workspace_id=workspace)]


async def begin_commit(work: Work, attempt: Attempt, workspace: str, decision: Decision) -> None:
    """Let a commit run what was decided of a workspace, which is locked and open."""
    commit = attempt.call.call_id
    state = WORKSPACE_MACHINE.next_state(WorkspaceState.OPEN, WorkspaceEvent.DECIDED)
    await work.run(QUERIES.begin_commit, workspace_id=workspace, commit_call_id=commit, state=state.value)
    states = {entry.call_id: "kept" for entry in decision.kept}
    out = [entry.call_id for entry in (*decision.left_out, *decision.fallen)]
    errors = {entry.call_id: LEFT_TEXT for entry in decision.fallen}
    await mark(work, workspace, commit, states | dict.fromkeys(out, "left_out"), errors)
    call = attempt.call
    place = {"tenant": call.tenant, "conversation_id": call.conversation_id, "workspace_id": workspace}
    moved = (WorkspaceEvent.DECIDED, (WorkspaceState.OPEN, state))
    record_workspace(work, place, *moved, call_id=commit, about=attempt.asked_by)


async def mark(
    work: Work, workspace: str, commit: str, states: Mapping[str, str], errors: Mapping[str, str] | None = None
) -> None:
    """Write what became of entries of a commit, by call."""
    await work.run(
        QUERIES.mark_entries,
        workspace_id=workspace,
        commit_call_id=commit,
        call_ids=list(states),
        states=list(states.values()),
        errors=[(errors or {}).get(call_id, "") for call_id in states],
    )


async def steps_of(connection: Connection, workspace: str, commit: str) -> list[Step]:
    """Return what the entries that a commit lets through make of each key, in order."""
    rows = await connection.run(QUERIES.steps, workspace_id=workspace, commit_call_id=commit)
    return [Step(**dict(row)) for row in rows]


async def is_half_made(connection: Connection, scopes: Sequence[str], workspace: str) -> bool:
    """Tell whether another commit has begun to change what is in these scopes, and not ended."""
    return bool(await connection.run(QUERIES.half_made, scopes=list(scopes), workspace_id=workspace))


async def write_journal(
    work: Work, attempt: Attempt, workspace: str, journal: Journal, scopes: Sequence[str] = ()
) -> bool:
    """Say how far a commit is, and what it holds as long as its changes are being made.

    False where this attempt no longer counts, and then nothing may be done.
    """
    values = {"workspace_id": workspace, "commit_call_id": attempt.call.call_id, "fence": attempt.fence}
    return bool(await work.run(QUERIES.journal, **values, journal=journal.value, scopes=list(scopes)))


async def await_calls(work: Work, attempt: Attempt, worker: str) -> None:
    """Let a commit whose changes are made wait for its staged calls, without a lease."""
    state = MACHINE.next_state(State.RUNNING, Event.APPLIED)
    ours = {"call_id": attempt.call.call_id, "fence": attempt.fence}
    if await work.run(QUERIES.await_calls, **ours, state=state.value):
        record(work, attempt, Event.APPLIED, (State.RUNNING, state), worker, {"fence": attempt.fence})


async def end_commit(
    work: Work, commit: str, event: Event, error: str, *, before: State, worker: str
) -> tuple[Attempt, datetime] | None:
    """End the execution of a commit; return its attempt and when it ended, None where it had ended before."""
    state = MACHINE.next_state(before, event)
    rows = await work.run(QUERIES.end_commit, call_id=commit, state=state.value, error=error)
    if not rows:
        return None
    attempt = attempt_of(rows[0])
    record(work, attempt, event, (before, state), worker, {"fence": attempt.fence})
    return attempt, rows[0]["finished_at"]


async def lock_turn(work: Work, workspace: str, tenant: str, call_id: str) -> tuple[Any, Any] | None:
    """Lock a workspace and return it with the entry of one of its staged calls and its execution; None without one."""
    workspaces = await work.run(QUERIES.lock_turn, workspace_id=workspace, tenant=tenant)
    turns = await work.run(QUERIES.turn, call_id=call_id, workspace_id=workspace) if workspaces else []
    return (workspaces[0], turns[0]) if turns else None


async def next_call(work: Work, workspace: str, commit: str) -> Mapping[str, Any] | None:
    """Return the first staged call of a commit that has not ended; None where there is none."""
    rows = await work.run(QUERIES.next_call, workspace_id=workspace, commit_call_id=commit)
    return rows[0] if rows else None


async def keep_permit(work: Work, call_id: str, token: str, permit: Permit) -> None:
    """Keep the permit of a staged call until it is its turn."""
    await work.run(QUERIES.keep_permit, call_id=call_id, permit=token, on_failure=permit.on_failure)


async def release(
    work: Work, attempt: Attempt, permit: Permit, holder: Holder, *, token: str, idempotent: bool
) -> Attempt | None:
    """Begin a staged call under its own permit; None where it has begun before."""
    state = MACHINE.next_state(State.STAGED, Event.RELEASED)
    rows = await work.run(
        QUERIES.release,
        call_id=attempt.call.call_id,
        state=state.value,
        permit=token,
        permit_id=permit.jti,
        permit_issuer=permit.iss,
        permit_expires_at=datetime.fromtimestamp(permit.exp, UTC),
        worker=holder.worker,
        lease=holder.lease,
        idempotent=idempotent,
    )
    if not rows:
        return None
    begun = attempt_of(rows[0])
    ids = {"permit_id": permit.jti, "issuer": permit.iss, "reference": permit.reference, "fence": begun.fence}
    record(work, begun, Event.RELEASED, (State.STAGED, state), holder.worker, ids)
    return begun


async def end_call(work: Work, attempt: Attempt, outcome: Outcome, *, worker: str) -> bool:
    """End the execution of a staged call; False where this attempt no longer counts."""
    state = MACHINE.next_state(attempt.state, outcome.event)
    ours = {"call_id": attempt.call.call_id, "fence": attempt.fence}
    if not await work.run(QUERIES.end_call, **ours, state=state.value, error=outcome.error):
        return False
    detail = {"fence": attempt.fence, "code": outcome.code}
    record(work, attempt, outcome.event, (attempt.state, state), worker, detail)
    return True


async def end_entry(work: Work, call_id: str, state: str, outcome: Outcome) -> tuple[str, str] | None:
    """Write what a staged call came to; return its workspace and what its end means for those behind it."""
    rows = await work.run(
        QUERIES.end_entry,
        call_id=call_id,
        state=state,
        data=None if outcome.data is None else to_json(outcome.data).decode(),
        ui_blocks=to_json(list(outcome.ui_blocks)).decode(),
        handover=outcome.handover,
        error=outcome.error,
    )
    return (rows[0]["workspace_id"], rows[0]["on_failure"]) if rows else None


async def workspace_of(connection: Connection, call_id: str) -> str | None:
    """Return the workspace that a staged call is in."""
    rows = await connection.run(QUERIES.workspace_of, call_id=call_id)
    return rows[0]["workspace_id"] if rows else None


async def refuse_rest(work: Work, workspace: str, commit: str, error: str) -> None:
    """End the staged calls of a commit that have not run."""
    await work.run(QUERIES.refuse_rest, workspace_id=workspace, commit_call_id=commit, error=error)


async def stuck(connection: Connection, patience: timedelta) -> tuple[str, str, str] | None:
    """Return call, tenant and workspace of a staged call that should have begun long ago; None where there is none."""
    rows = await connection.run(QUERIES.stuck, patience=patience)
    return (rows[0]["call_id"], rows[0]["tenant"], rows[0]["workspace_id"]) if rows else None


async def lost_commit(connection: Connection, sweep: Sweep) -> str | None:
    """Lock a commit whose worker went silent; return its call, None where there is none."""
    rows = await connection.run(QUERIES.lost_commit, pools=list(sweep.pools))
    return rows[0]["call_id"] if rows else None


async def lock_scope(connection: Connection, scope: str) -> None:
    """Wait until no other commit touches the same; until the transaction ends none does."""
    await connection.run(QUERIES.scope, scope=scope)
