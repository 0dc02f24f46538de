"""Looks after calls whose worker went silent: repeats them, asks the tool's probe, or gives them up, and says so once.

Repeated is what is safe to repeat, the probe is asked about what is not, given up is what has none. Only
executors of the call's own pool look after it, because only they have its tool. Any number of them may look at the same
time: a row belongs to whoever locks it first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

import structlog

from placet.contracts.errors import SecurityAlert
from placet.contracts.messages import WorkspaceExpired
from placet.contracts.permit import NOTHING_RAN
from placet.contracts.topology import executor_queue
from placet.executor import commit_store, rules, store, workspace_store
from placet.executor.metrics import count_answer
from placet.executor.rules import Admission, Outcome
from placet.executor.slot_gate import NoSlot, SlotGate
from placet.executor.states import Event, State, WorkspaceEvent
from placet.executor.store import Attempt, Sweep
from placet.executor.worker import Worker
from placet.runtime.consumer import SECURITY_ALERTS
from placet.runtime.work import Work

log = structlog.get_logger(__name__)

#: Calls given up in one transaction.
GIVE_UP_ROWS = 100
#: Workspaces ended or deleted in one transaction.
EXPIRE_ROWS = 50
#: How long the permit of a staged call may be on its way once it is its turn.
STUCK = timedelta(days=1)


@dataclass
class Sight:
    """Whether a lease that ran out says anything about its worker.

    While the database is away nobody can renew a lease, and a process that was stopped for a while sees old leases
    first. After such a gap every worker gets one lease's time to come back before it counts as lost.
    """

    lease_seconds: float
    last_seconds: float | None = None
    blind_until_seconds: float = 0.0

    def clear(self, now_seconds: float) -> bool:
        """Note that the database answers at `now_seconds` (any monotonic clock); tell whether leases count."""
        if self.last_seconds is not None and now_seconds - self.last_seconds > self.lease_seconds / 3:
            self.blind_until_seconds = now_seconds + self.lease_seconds
        self.last_seconds = now_seconds
        return now_seconds >= self.blind_until_seconds


class Sweeper:
    """Three duties of every executor process."""

    def __init__(
        self, worker: Worker, gate: SlotGate, sweep: Sweep, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._worker = worker
        self._standing = worker.standing
        self._gate = gate
        self._sweep = sweep
        self._monotonic = monotonic
        self._sight = Sight(worker.holder.lease_seconds)

    async def give_up_lost(self) -> int:
        """End as unknown what is lost and can neither be repeated nor verified; return how many."""
        if not await self._sees():
            return 0
        async with self._worker.units.begin() as work:
            lost = await store.give_up(work, self._sweep, worker=self._worker.holder.worker, limit=GIVE_UP_ROWS)
            for attempt, ended in lost:
                if attempt.mode == "staged_call":
                    outcome = Outcome(Event.GAVE_UP, error=rules.LOST_TEXT)
                    await self._worker.committing.call_ended(work, attempt, outcome)
                else:
                    self._answer_lost(work, attempt, ended)
        return len(lost)

    async def recover_commits(self) -> int:
        """Go on with one commit whose worker was lost, forward or back as its journal says; return how many."""
        if not await self._sees():
            return 0
        async with self._worker.units.database.single() as connection:
            if await commit_store.lost_commit(connection, self._sweep) is None:
                return 0
        try:
            async with self._gate.enter(), self._worker.units.begin() as work:
                return await self._recover(work)
        except NoSlot:
            # All slots may wait for this very commit: it goes on beside them.
            async with self._worker.units.begin() as work:
                return await self._recover(work)

    async def _recover(self, work: Work) -> int:
        call_id, asked_at = await commit_store.lost_commit(work.connection, self._sweep), self._standing.monotonic()
        if call_id is None:
            return 0
        attempt = await store.begin_again(work, call_id, State.RUNNING, Event.RECLAIMED, self._worker.holder)
        void = await self._standing.why_unmade(work.connection, attempt)
        await self._begin_again(work, replace(attempt, void=void, is_repeated=True, asked_at=asked_at))
        return 1

    async def expire_workspaces(self) -> int:
        """Discard what nobody decided in time, and tell their conversations; return how many workspaces."""
        async with self._worker.units.begin() as work:
            due = await workspace_store.overdue(work, EXPIRE_ROWS)
            for key, tenant in due:
                if workspace := await workspace_store.lock(work, key, tenant):
                    reason = "Nobody decided in time."
                    await workspace_store.end_workspace(work, workspace, WorkspaceEvent.EXPIRED, reason=reason)
                    place = {"tenant": tenant, "conversation_id": workspace["conversation_id"]}
                    work.emit(WorkspaceExpired(**place, workspace_id=key))
        return len(due)

    async def end_stuck_plans(self) -> int:
        """Refuse one staged call whose permit has come to nobody for a day, so its commit ends; return how many."""
        committing = self._worker.committing
        async with self._worker.units.begin() as work:
            found = await commit_store.stuck(work.connection, STUCK)
            if found is None:
                return 0
            call_id, tenant, workspace = found
            turn = await commit_store.lock_turn(work, workspace, tenant, call_id)
            if turn is None or turn[1]["entry_state"] != "kept" or turn[1]["state"] != State.STAGED:
                return 0
            outcome = Outcome(Event.FAILED, error=f"{NOTHING_RAN}its permit never came.")
            await committing.call_ended(work, store.attempt_of(turn[1]), outcome, refused=True)
        return 1

    async def purge_workspaces(self, keep: timedelta) -> int:
        """Delete workspaces that ended long ago; return how many."""
        async with self._worker.units.database.single() as connection:
            return await workspace_store.purge(connection, keep, EXPIRE_ROWS)

    def _answer_lost(self, work: Work, attempt: Attempt, ended: datetime) -> None:
        outcome = Outcome(Event.GAVE_UP, error=rules.LOST_TEXT)
        if attempt.mode == "stage":
            outcome = rules.not_staged("Its worker was lost several times.")
        answer = attempt.answer(outcome, ended)
        work.cause = attempt.cause
        work.emit(answer)
        work.act(lambda: count_answer(answer))

    async def repeat_lost(self) -> int:
        """Begin the next attempt of one lost call, waiting for a free slot like any other; return how many."""
        return await self._take_lost(Event.RECLAIMED)

    async def verify_lost(self) -> int:
        """Begin the probe of one lost call that must not be repeated, in a slot too; return how many."""
        return await self._take_lost(Event.PROBED)

    async def _take_lost(self, event: Event) -> int:
        if not await self._sees() or not await self._any_waits(event):
            return 0
        try:
            async with self._gate.enter(), self._worker.units.begin() as work:
                asked_at = self._standing.monotonic()
                lost = await store.find_lost(work.connection, self._sweep, event)
                if lost is None:
                    return 0
                if event is Event.RECLAIMED and (void := await self._why_void(work, lost)):
                    return await self._leave(work, lost, void)
                attempt = await store.begin_again(work, lost.call.call_id, lost.state, event, self._worker.holder)
                await self._begin_again(work, replace(attempt, is_repeated=True, asked_at=asked_at))
        except NoSlot:
            return 0
        return 1

    async def _why_void(self, work: Work, lost: Attempt) -> Admission | None:
        """Return why a lost call may not be repeated; None where it may, and where it is in its workspace already."""
        if lost.mode == "stage" and await workspace_store.find_placed(work.connection, lost):
            return None
        return await self._standing.why_void(work.connection, lost)

    async def _leave(self, work: Work, lost: Attempt, void: Admission) -> int:
        """Leave to its probe, or to be given up, what is repeated no more; what was stopped just now waits."""
        if void != rules.consent_void():
            return 0
        log.warning("execution.void", call_id=lost.call.call_id, reason=void.reason)
        await store.never_again(work.connection, lost)
        return 1

    async def _begin_again(self, work: Work, attempt: Attempt) -> None:
        """Start the attempt if the stored call is still the one that was signed, else give it up."""
        if doubt := self._doubt(attempt):
            SECURITY_ALERTS.labels(executor_queue(attempt.pool).name).inc()
            log.warning("security.alert", call_id=attempt.call.call_id, reason=doubt)
            outcome = Outcome(Event.GAVE_UP, error=rules.TAMPERED_TEXT)
            worker = self._worker
            settle = worker.committing.end_call if attempt.mode == "staged_call" else worker.settling.settle
            work.act(partial(settle, attempt, outcome))
        else:
            work.act(lambda: self._worker.start(attempt))

    def _doubt(self, attempt: Attempt) -> str:
        """Return why the stored call is not the signed one, or not the one its row speaks of; empty where it is."""
        try:
            self._standing.permit_of(attempt)
        except SecurityAlert as alert:
            return str(alert)
        sweep = self._sweep
        if attempt.mode in {"stage", "commit"}:
            spec = self._worker.specs.get(attempt.call.tool)
            known = spec is not None and spec.schema_digest == attempt.call.schema_digest
        else:
            digests = sweep.probed if attempt.state is State.VERIFYING else sweep.repeatable
            known = attempt.call.schema_digest in digests
        return "" if known else f"call {attempt.call.call_id} is not of the tool that its row names"

    async def _sees(self) -> bool:
        return await self._worker.units.database.ready() and self._sight.clear(self._monotonic())

    async def _any_waits(self, event: Event) -> bool:
        async with self._worker.units.database.single() as connection:
            return await store.find_lost(connection, self._sweep, event) is not None
