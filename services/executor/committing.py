"""Commits workspaces: first all changes at once, then the staged calls one after the other, then one answer.

What is about to be done is written down before it is done:

1. the decision: which entries are let through, all others stay as they are;
2. `applying`, unless such calls were stopped meanwhile: from here on every change is made, whoever has to make it;
   before it none is;
3. `applied`: staged calls may begin, each under its own permit, each when the one before has ended.

A crash before 2 leaves nothing but what the packs prepared, and the commit begins anew; after 2 it goes on. The changes
of one commit hold the locks of their packs' scopes from before they are compared until they are made; where the worker
dies in between, what is written down keeps others out until somebody has gone on with it. Staged calls hold nothing:
the plan stands in the workspace, and whoever ends a call sends the permit of the next one to its pool.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from placet.contracts.messages import StagedCallPermitted
from placet.executor import commit_store, plans, scopes, store, workspace_store
from placet.executor.metrics import EXECUTIONS, count_answer
from placet.executor.plans import Net
from placet.executor.rules import Outcome
from placet.executor.standing import Standing, half_sentence
from placet.executor.states import COMMIT_ENDS, Event, State, WorkspaceEvent, WorkspaceState
from placet.executor.store import Attempt
from placet.executor.tables import Journal
from placet.runtime.work import Cause, UnitOfWork, Work
from placet.tools import CannotApply, DecidedChange, Staging, ToolContext, ToolError
from placet.tools.replies import checked_text

log = structlog.get_logger(__name__)

Decided = Mapping[str, Sequence[DecidedChange]]
#: Raised by packs that did nothing, where trying again would not help.
_NOTHING_DONE = (CannotApply, ToolError, OSError)
_ENTRY_STATES = {Event.SUCCEEDED: "succeeded", Event.FAILED: "failed", Event.GAVE_UP: "unknown"}


def _pass(_: str) -> None:
    """Go on."""


class Committing:
    """Runs decided workspaces, and moves their plans on."""

    def __init__(
        self,
        units: UnitOfWork,
        packs: Mapping[str, Staging],
        standing: Standing,
        *,
        worker: str,
        attempts_max: int,
        patience: int,
    ) -> None:
        """`patience` is how often a commit looks whether one that is half made has ended.

        That takes until the lease of that one has run out and somebody has gone on with it.
        """
        self._patience = patience
        self._units = units
        self.packs = packs
        self.standing = standing
        self._worker = worker
        self._attempts_max = attempts_max
        #: Hears of each step; tests break off there.
        self._reached: Callable[[str], None] = _pass

    async def run(self, attempt: Attempt, context: ToolContext) -> None:
        """Bring a commit as far as it gets without its staged calls; begun before, go on where it was."""
        workspace = await self._decide(attempt)
        if workspace is None:
            return
        self._reached("decided")
        key, commit = workspace["workspace_id"], attempt.call.call_id
        async with self._units.database.single() as connection:
            steps = await commit_store.steps_of(connection, key, commit)
        nets = plans.net(steps)
        doubts: dict[str, str] = {}
        if workspace["journal"] != Journal.APPLIED:
            context = replace(context, fence=workspace["journal_fence"] or attempt.fence)
            decided = self._decided(nets, key, attempt.call.tenant)
            applying = workspace["journal"] == Journal.APPLYING
            held = partial(scopes.held, reached=self._reached, patience=self._patience)
            wanted, problem = (workspace["scopes"], "") if applying else self._scopes(attempt, decided, context)
            async with held(self._units.database, wanted, None if applying else key) as ours:
                problem = problem or (plans.HALF_MADE if ours is None else "")
                if applying and await self.standing.ask_again(self._units.database, attempt) is None:
                    return
                if not applying and not await self._prepare(attempt, context, key, decided, ours or (), problem):
                    return
                self._reached("applying")
                doubts = await self._apply(attempt, context, nets, decided)
                self._reached("made")
        async with self._units.begin(attempt.cause) as work:
            await workspace_store.lock(work, key, attempt.call.tenant)
            if await commit_store.write_journal(work, attempt, key, Journal.APPLIED):
                await self._applied(work, attempt, key, doubts)
        self._reached("applied")

    async def _decide(self, attempt: Attempt) -> Mapping[str, Any] | None:
        """Let the commit run what it names; None where it is answered, because it must not or because it did."""
        call = attempt.call
        arguments = plans.arguments_of(call.arguments)
        async with self._units.begin(attempt.cause) as work:
            workspace = await workspace_store.lock(work, arguments.workspace_id, call.tenant) if arguments else None
            if workspace is not None and workspace["commit_call_id"] == call.call_id:
                return workspace if workspace["state"] == WorkspaceState.COMMITTING else None
            problem = plans.why_closed(workspace, call.conversation_id) or attempt.void
            if workspace is not None and not problem:
                decision = plans.decide(await commit_store.entries_of(work, workspace["workspace_id"]), call)
                problem = decision.problem
                if not problem:
                    await commit_store.begin_commit(work, attempt, workspace["workspace_id"], decision)
                    return {**workspace, "journal": Journal.NONE, "journal_fence": None}
            refused = Outcome(Event.FAILED, error=f"{plans.NOT_APPLIED}{problem}.", code="not_applied")
            await self._answer(work, call.call_id, refused, before=State.RUNNING)
        return None

    def _decided(self, nets: Mapping[str, Sequence[Net]], workspace: str, tenant: str) -> Decided:
        """Return by pack what is to be made of each key; contents are loaded when they are asked for."""

        async def load(digest: str) -> bytes:
            async with self._units.database.single() as connection:
                return await workspace_store.content(connection, workspace, digest, tenant)

        async def nothing() -> bytes:
            return b""

        return {
            pack: [
                DecidedChange(
                    each.last.key,
                    base=each.first.base,
                    base_mode=each.first.base_mode,
                    after=each.last.after,
                    size=each.last.after_size,
                    mode=each.last.after_mode,
                    load=partial(load, each.last.after) if each.last.after else nothing,
                )
                for each in of_pack
            ]
            for pack, of_pack in nets.items()
        }

    def _scopes(self, attempt: Attempt, decided: Decided, context: ToolContext) -> tuple[list[str], str]:
        """Return what the packs touch, or why nothing of it may be touched, half a sentence."""
        missing = sorted(decided.keys() - self.packs.keys())
        if missing:
            return [], f"no worker of this pool has the pack {missing[0]!r}"
        if attempt.fence > self._attempts_max:
            return [], "its worker was lost or broke off several times"
        try:
            return [f"{name}:{self.packs[name].scope(context)}" for name in decided], ""
        except _NOTHING_DONE as error:
            return [], _said(error)

    async def _prepare(
        self,
        attempt: Attempt,
        context: ToolContext,
        workspace: str,
        decided: Decided,
        ours: Sequence[str],
        problem: str,
    ) -> bool:
        """Bring all packs to where nothing is left but to make the changes; False where it ended, as by a problem."""
        async with self._units.database.single() as connection:
            if not await store.is_ours(connection, attempt):
                return False
        for fence in range(1, attempt.fence):
            await self._abandon(decided, replace(context, fence=fence))
        conflicts: list[str] = []
        try:
            for name, changes in decided.items() if not problem else ():
                await self.packs[name].prepare(changes, context)
                self._reached("prepared")
                conflicts += [f"{name}:{key}" for key in await self.packs[name].conflicts(changes, context)]
        except _NOTHING_DONE as error:
            log.warning("commit.not_prepared", call_id=attempt.call.call_id, error=type(error).__name__)
            problem = _said(error)
        if not problem and not conflicts:
            self._reached("compared")
            async with self._units.begin(attempt.cause) as work:
                await workspace_store.lock(work, workspace, attempt.call.tenant)
                # It may have waited long for others; once this is known to be written nothing stops it.
                attempt = replace(attempt, asked_at=self.standing.monotonic())
                problem = await self.standing.why_unmade(work.connection, attempt)
                if not (problem or await commit_store.write_journal(work, attempt, workspace, Journal.APPLYING, ours)):
                    return False
            late = "" if problem else await self._taken_back(attempt, workspace)
            problem = problem or late or ""
            if not problem:
                return late is not None
        await self._abandon(decided, context)
        async with self._units.begin(attempt.cause) as work:
            await self._give_up(work, attempt, workspace, conflicts, problem)
        return False

    async def _taken_back(self, attempt: Attempt, workspace: str) -> str | None:
        """Return why a commit that heard late that it may make its changes makes none; empty where it makes them.

        None where it is not ours any more.
        """
        asked = await self.standing.ask_again(self._units.database, attempt)
        problem = half_sentence(asked[1]) if asked else None
        if problem:
            async with self._units.begin(attempt.cause) as work:
                await workspace_store.lock(work, workspace, attempt.call.tenant)
                if not await commit_store.write_journal(work, attempt, workspace, Journal.NONE):
                    return None
        return problem

    async def _abandon(self, decided: Decided, context: ToolContext) -> None:
        for name in decided.keys() & self.packs.keys():
            try:
                await self.packs[name].abandon(context)
            except (ToolError, OSError) as error:
                # What is left lies where no tool looks; nothing was applied all the same.
                log.warning("commit.left_behind", pack=name, error=type(error).__name__)

    async def _give_up(
        self, work: Work, attempt: Attempt, workspace: str, conflicts: Sequence[str], problem: str
    ) -> None:
        """End a commit of which nothing is applied."""
        commit = attempt.call.call_id
        locked = await workspace_store.lock(work, workspace, attempt.call.tenant)
        if locked is None or not await commit_store.write_journal(work, attempt, workspace, Journal.NONE):
            return
        entries = await commit_store.committed_entries(work, workspace, commit)
        states = {each.call_id: plans.not_applied(each, conflicts) for each in entries if each.state == "kept"}
        others = "others have changed the same as another entry"
        errors = {
            call_id: plans.CONFLICT_TEXT if state == "conflicted" else f"{plans.NOT_APPLIED}{problem or others}."
            for call_id, state in states.items()
        }
        fell = await _fallen(work, workspace, states.keys())
        await commit_store.mark(work, workspace, commit, states | dict.fromkeys(fell, "refused"), errors | fell)
        await self._end(work, locked, commit, before=State.RUNNING)

    async def _apply(
        self, attempt: Attempt, context: ToolContext, nets: Mapping[str, Sequence[Net]], decided: Decided
    ) -> dict[str, str]:
        """Make all changes; return the entries of which not all could be made, each with what is known."""
        doubts: dict[str, str] = {}
        for name, changes in decided.items():
            pack = self.packs[name]
            try:
                await pack.apply(changes, context)
            except Exception as error:
                final = isinstance(error, (CannotApply, ToolError))
                if not final and attempt.fence <= self._attempts_max:
                    raise
                log.exception("commit.in_doubt", call_id=attempt.call.call_id, pack=name)
                known = error.keys if isinstance(error, CannotApply) else {}
                words = _said(error) if final else "the tool pack broke off"
                for each, change in zip(nets[name], changes, strict=True):
                    if change.key in known if known else not await _is_made(pack, change, context):
                        doubts |= dict.fromkeys(each.call_ids, known.get(change.key, words))
        return doubts

    async def _applied(self, work: Work, attempt: Attempt, workspace: str, doubts: Mapping[str, str]) -> None:
        """Write what became of the changes, and go on with the plan."""
        commit = attempt.call.call_id
        entries = await commit_store.committed_entries(work, workspace, commit)
        made = [each for each in entries if each.state == "kept" and each.kind == "change"]
        states = {each.call_id: "failed" if each.call_id in doubts else "committed" for each in made}
        fell = await _fallen(work, workspace, doubts.keys())
        told = {**doubts, **fell}
        await commit_store.mark(work, workspace, commit, states | dict.fromkeys(fell, "refused"), told)
        if doubts:
            await commit_store.refuse_rest(work, workspace, commit, plans.STOPPED_TEXT)
        elif await commit_store.next_call(work, workspace, commit) is not None:
            await commit_store.await_calls(work, attempt, self._worker)
            await self.move_on(work, workspace, attempt.call.tenant)
            return
        locked = await workspace_store.lock(work, workspace, attempt.call.tenant)
        assert locked is not None  # noqa: S101 - its journal has just been written
        await self._end(work, locked, commit, before=State.RUNNING)

    async def move_on(self, work: Work, workspace: str, tenant: str) -> None:
        """Let the next staged call begin, or answer the commit where there is none left."""
        locked = await workspace_store.lock(work, workspace, tenant)
        if locked is None or locked["state"] != WorkspaceState.COMMITTING or locked["journal"] != Journal.APPLIED:
            return
        commit = locked["commit_call_id"]
        call = await commit_store.next_call(work, workspace, commit)
        if call is None:
            await self._end(work, locked, commit, before=State.COMMITTING)
        elif call["permit"] is not None:
            work.cause = Cause(**call["cause"])
            work.emit(
                StagedCallPermitted(
                    tenant=tenant,
                    pool=call["pool"],
                    call_id=call["call_id"],
                    conversation_id=call["conversation_id"],
                    workspace_id=workspace,
                    permit=call["permit"],
                )
            )

    async def _end(self, work: Work, workspace: Mapping[str, Any], commit: str, *, before: State) -> None:
        """Answer a commit whose entries have all ended, and end its workspace unless others wait in it."""
        key = workspace["workspace_id"]
        entries = await commit_store.committed_entries(work, key, commit)
        result = plans.result_of(entries)
        outcome = Outcome(
            plans.event_of(entries),
            result.model_dump(mode="json"),
            plans.error_of(result),
            ui_blocks=[block for each in entries for block in each.ui_blocks],
            handover=next((each.handover for each in entries if each.handover), ""),
        )
        attempt = await self._answer(work, commit, outcome, before=before)
        event = COMMIT_ENDS[result.state]
        if await workspace_store.any_waiting(work, key):
            event = WorkspaceEvent.REOPENED
        about = attempt.asked_by if attempt else {}
        await workspace_store.end_workspace(work, workspace, event, about=about)

    async def _answer(self, work: Work, commit: str, outcome: Outcome, *, before: State) -> Attempt | None:
        """Answer a commit; return it as it was answered, None where it had been."""
        ended = await commit_store.end_commit(
            work, commit, outcome.event, outcome.error, before=before, worker=self._worker
        )
        if ended is None:
            return None
        attempt, at = ended
        answer = attempt.answer(outcome, at)
        work.cause = attempt.cause
        work.emit(answer)
        work.act(partial(count_answer, answer))
        return attempt

    async def end_call(self, attempt: Attempt, outcome: Outcome, *, refused: bool = False) -> None:
        """End a staged call that ran, or that began nothing after all, and let the next one begin."""
        async with self._units.begin(attempt.cause) as work:
            workspace = await commit_store.workspace_of(work.connection, attempt.call.call_id)
            assert workspace is not None  # noqa: S101 - a staged call is in one
            await workspace_store.lock(work, workspace, attempt.call.tenant)
            if await commit_store.end_call(work, attempt, outcome, worker=self._worker):
                await self.call_ended(work, attempt, outcome, refused=refused)
            else:
                await store.keep_evidence(work, attempt, outcome, outcome.event, self._worker)

    async def call_ended(self, work: Work, attempt: Attempt, outcome: Outcome, *, refused: bool = False) -> None:
        """Write what a staged call came to, whose execution has just ended or will not begin; go on with the plan."""
        call = attempt.call
        state = "refused" if refused else _ENTRY_STATES[outcome.event]
        ended = await commit_store.end_entry(work, call.call_id, state, outcome)
        if ended is None:
            return
        workspace, on_failure = ended
        work.act(partial(_count, call.tool, state))
        if state != "succeeded" and on_failure == "stop":
            locked = await workspace_store.lock(work, workspace, call.tenant)
            assert locked is not None  # noqa: S101 - an entry is in one
            await commit_store.refuse_rest(work, workspace, locked["commit_call_id"], plans.STOPPED_TEXT)
        await self.move_on(work, workspace, call.tenant)


def _said(error: Exception) -> str:
    return checked_text(error.text if isinstance(error, ToolError) else error).removesuffix(".")


async def _count(tool: str, kind: str) -> None:
    EXECUTIONS.labels(tool, kind).inc()


async def _fallen(work: Work, workspace: str, gone: Collection[str]) -> dict[str, str]:
    """Return what waits and cannot stand without entries that are gone, each with what its call is told."""
    if not gone:
        return {}
    entries = await commit_store.entries_of(work, workspace)
    return {each.call_id: plans.FELL_TEXT for each in plans.fallen(entries, gone)}


async def _is_made(pack: Staging, change: DecidedChange, context: ToolContext) -> bool:
    """Tell whether a change was made, as far as the pack can see."""
    try:
        standing = await pack.standing(change.key, context)
    except (ToolError, OSError):
        return False
    return standing == (None if change.after is None else (change.after, change.mode))
