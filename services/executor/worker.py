"""Runs a claimed call: the tool or its probe under a renewed lease, then the outcome, one attempt per slot.

A tool that does not end when its time is over keeps its slot until it really ends, because a thread cannot be
stopped: a hung tool then costs a slot, and never threads without end. What it says late is kept as evidence.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from placet.contracts.canonical import parse_arguments
from placet.contracts.ids import derived_id
from placet.domain.catalog import ToolSpec
from placet.executor import rules, store
from placet.executor.committing import Committing
from placet.executor.metrics import FINDINGS, TOOL_SECONDS, count_answer
from placet.executor.redaction import redact_outcome, redact_text
from placet.executor.reporting import SILENCE_SECONDS, Progress, Reporting
from placet.executor.rules import Admission, Outcome
from placet.executor.settling import Settling
from placet.executor.staging import Stager
from placet.executor.standing import Standing
from placet.executor.states import Event, State
from placet.executor.store import Attempt, Holder, Wanted
from placet.executor.workspace_store import ConversationWorkspace
from placet.runtime import points
from placet.runtime.database import is_outage
from placet.runtime.slots import Slots, under_lease
from placet.runtime.tracing import TRACING
from placet.runtime.watchdog import leisurely
from placet.runtime.work import UnitOfWork
from placet.tools import CannotTell, DidNotRun, Finding, Ran, ToolContext, ToolError, ToolOutcomeUnknown, ToolReply
from placet.tools.registry import CRASHED, NEUTRAL_TEXT, LoadedTool

log = structlog.get_logger(__name__)

T = TypeVar("T")

#: How long a cancelled tool may take to clean up and to say how it ended, in seconds.
CANCEL_SECONDS = 2.0
#: Longest pause between two tries while the database is away, in seconds.
OUTAGE_PAUSE_MAX_SECONDS = 2.0
#: Calls of whose claims nobody knows that are remembered at most: where others were claimed since, these are let go of.
DOUBTED_MAX = 1_000
#: Stands for the outcome of an attempt that has not begun.
_LATE: Final = Outcome(Event.REFUSED)


@dataclass(frozen=True)
class Worker:
    """Runs the calls of one executor process."""

    holder: Holder
    #: The catalogue's entries of the tools that this process has, by name.
    specs: Mapping[str, ToolSpec]
    tools: Mapping[str, LoadedTool]
    units: UnitOfWork
    slots: Slots
    attempts_max: int
    settling: Settling
    stager: Stager
    committing: Committing
    standing: Standing
    #: What the tool packs opened at start; empty while the service does not run.
    resources: dict[str, object] = field(default_factory=dict)
    #: By call, when it was claimed here without an answer to the commit: it may be ours, and has not begun.
    doubted: dict[str, tuple[datetime, ...]] = field(default_factory=dict)

    @asynccontextmanager
    async def with_resources(self, opened: AbstractAsyncContextManager[Mapping[str, object]]) -> AsyncIterator[None]:
        """Hold what the tool packs open while the block runs."""
        async with opened as resources:
            self.resources.update(resources)
            yield
            self.resources.clear()

    def doubt(self, attempt: Attempt) -> None:
        """Remember a claim of which nobody knows whether it was committed."""
        call_id = attempt.call.call_id
        self.doubted[call_id] = (*self.doubted.pop(call_id, ()), attempt.begun_at)
        if len(self.doubted) > DOUBTED_MAX:
            del self.doubted[next(iter(self.doubted))]

    async def start(self, attempt: Attempt) -> None:
        """Run a claimed attempt in a slot; returns at once."""
        doing = self._commit(attempt) if attempt.mode == "commit" else self._run(attempt)
        name = f"{attempt.call.tool} {attempt.call.call_id} #{attempt.fence}"
        self.slots.spawn(doing, name=name, tenant=attempt.call.tenant)

    async def _commit(self, attempt: Attempt) -> None:
        """Commit a workspace under a lease; broken off for whatever reason, the sweeper has it gone on with."""
        doing = leisurely(self.committing.run)(attempt, self._context(attempt))
        await self._under_lease(attempt, doing)

    async def _run(self, attempt: Attempt) -> None:
        running = asyncio.create_task(self._act(attempt))
        waiting = self._wait(attempt, running, self.specs[attempt.call.tool].timeout_seconds)
        try:
            await self._under_lease(attempt, waiting)
        except asyncio.CancelledError:
            # The lease is lost or the process stops: what the tool says from here on is evidence at most.
            await self._outlive(attempt, running)
            raise
        if not has_begun(running):
            await self._ask_again(attempt)
            return
        outcome = self._outcome(attempt, running) or self._overdue(attempt)
        # Of a tool that still runs no probe could tell what it will have done.
        doubt = Event.PROBED if running.done() else Event.GAVE_UP
        if probing := await self._settle(attempt, outcome, self._what_follows(attempt, outcome, doubt)):
            await self._run(probing)
        if not running.done():
            await self._outlive(attempt, running)

    async def _under_lease(self, attempt: Attempt, doing: Coroutine[Any, Any, None]) -> None:
        every_seconds = self.holder.lease_seconds / 3
        await under_lease(doing, lambda: self._renew(attempt), every_seconds=every_seconds, ids=attempt.ids)

    async def _ask_again(self, attempt: Attempt) -> None:
        """Run an attempt whose answer came late, where it is still ours and not void; else end it without a beginning.

        What was lost before may have run: it waits as the sweeper found it.
        """
        ask = partial(self.standing.ask_again, self.units.database, attempt)
        asked = await _past_outages(attempt, "begin.waiting", ask)
        if asked is None:
            log.warning("execution.late", call_id=attempt.call.call_id, fence=attempt.fence)
            return
        attempt, void = asked
        if void is None:
            await self._run(attempt)
        elif attempt.is_repeated:
            await self._settle(attempt, Outcome(Event.GAVE_UP, error=void.reason), Event.LET_GO)
        elif attempt.mode == "staged_call":
            refused = Outcome(Event.FAILED, error=void.reason)
            end = partial(self.committing.end_call, attempt, refused, refused=True)
            await _past_outages(attempt, "settle.waiting", end)
        else:
            wanted = Wanted(attempt, self.standing.permit_of(attempt), idempotent=False)
            await _past_outages(attempt, "settle.waiting", lambda: self.turn_away(wanted, void))

    async def turn_away(self, wanted: Wanted, admission: Admission) -> None:
        """Answer for a call that was taken and whose permit was void by then."""
        attempt = wanted.attempt
        async with self.units.begin(attempt.cause) as work:
            if await store.turn_away(work, wanted, admission, worker=self.holder.worker):
                answer = rules.refused(attempt.call, admission)
                work.emit(answer)
                work.act(partial(count_answer, answer))

    def _overdue(self, attempt: Attempt) -> Outcome:
        if attempt.state is State.VERIFYING:
            return found(attempt, CannotTell())
        if attempt.mode == "stage":
            return rules.not_staged("It took too long.")
        return rules.overdue(self.specs[attempt.call.tool].timeout_seconds)

    def _what_follows(self, attempt: Attempt, outcome: Outcome, doubt: Event) -> Event:
        """Return what the outcome does; `doubt` is what overcomes doubt that must not be overcome by repeating."""
        running = attempt.state is State.RUNNING and attempt.mode != "stage"
        event = rules.what_follows(
            outcome,
            idempotent=running and self.specs[attempt.call.tool].idempotent,
            fence=attempt.fence,
            attempts_max=self.attempts_max,
            verifiable=running and self.tools[attempt.call.tool].probe is not None,
        )
        return doubt if event is Event.PROBED else event

    async def _wait(self, attempt: Attempt, running: asyncio.Task[Any], seconds: float) -> None:
        """Wait for the tool as long as it may take."""
        await asyncio.wait({running}, timeout=seconds)
        if not running.done() and self._can_be_cancelled(attempt):
            running.cancel()
            await asyncio.wait({running}, timeout=CANCEL_SECONDS)

    async def _outlive(self, attempt: Attempt, running: asyncio.Task[Any]) -> None:
        """Stay in the slot until the tool has really ended; what it says then is settled if it still counts.

        Doubt is left to the sweeper, which has the probe asked: this process may be about to stop.
        """
        if self._can_be_cancelled(attempt):
            running.cancel()
        await asyncio.wait({running})
        if outcome := self._outcome(attempt, running):
            await self._settle(attempt, outcome, self._what_follows(attempt, outcome, Event.LET_GO))

    def _outcome(self, attempt: Attempt, running: asyncio.Task[Any]) -> Outcome | None:
        """Return what the tool came to; None where it has not begun, runs, or was cancelled before it could say."""
        if not running.done() or running.cancelled() or not has_begun(running):
            return None
        if attempt.state is State.VERIFYING:
            return redact_outcome(attempt.call, found(attempt, running.result()))
        idempotent = self.specs[attempt.call.tool].idempotent
        return redact_outcome(attempt.call, said(attempt, running, idempotent=idempotent))

    def _can_be_cancelled(self, attempt: Attempt) -> bool:
        """Tell whether cancelling stops the tool; a thread would go on unseen, and its outcome would be lost."""
        if attempt.mode == "stage":
            return True
        tool = self.tools[attempt.call.tool]
        probe = tool.probe if attempt.state is State.VERIFYING else None
        return inspect.iscoroutinefunction((probe or tool).function)

    async def _act(self, attempt: Attempt) -> ToolReply | Finding | Outcome:
        """Return what the attempt came to; `_LATE` where it must be asked again whether it may begin."""
        if attempt.state is State.RUNNING and self.standing.is_late(attempt):
            return _LATE
        if attempt.mode == "stage":
            # Put once however often it is tried, also where nobody heard that it was.
            context = self._context(attempt)
            return await _past_outages(attempt, "stage.waiting", lambda: self.stager.stage(attempt, context))
        tool, arguments = self.tools[attempt.call.tool], parse_arguments(attempt.call.arguments)
        if attempt.state is State.VERIFYING:
            return await tool.probe.find(arguments, self._context(attempt)) if tool.probe else CannotTell()
        reporting = Reporting(partial(self._tell, attempt))
        if attempt.held:
            # Whoever said yes, and whoever waited for it, sees that it was heard.
            reporting.tell_of_silence(SILENCE_SECONDS)
        try:
            with TOOL_SECONDS.labels(attempt.call.tool).time(), _span(attempt):
                points.reached("executor.claimed")
                said = await tool.run(arguments, replace(self._context(attempt), reporter=reporting.report))
                points.reached("executor.acted")
                return said
        finally:
            reporting.end()

    async def _tell(self, attempt: Attempt, progress: Progress) -> None:
        """Tell how far the tool is, as long as its attempt counts."""
        text = redact_text(attempt.call, progress.text)
        async with self.units.begin(attempt.cause) as work:
            if await store.is_ours(work.connection, attempt):
                work.emit(rules.progressed(attempt.call, progress.fraction, text, fence=attempt.fence))

    def _context(self, attempt: Attempt) -> ToolContext:
        call = attempt.call
        return ToolContext(
            tenant=call.tenant,
            conversation_id=call.conversation_id,
            call_id=call.call_id,
            idempotency_key=derived_id("idempotency", call.call_id),
            fence=attempt.fence,
            requester=call.requester,
            message_id=call.message_id,
            language=call.language,
            agent=call.agent,
            deadline=datetime.now(UTC) + timedelta(seconds=self.specs[call.tool].timeout_seconds),
            resources=self.resources,
            workspace=ConversationWorkspace(
                self.units.database, tenant=call.tenant, conversation_id=call.conversation_id, base=call.base
            ),
        )

    async def _renew(self, attempt: Attempt) -> bool:
        async with self.units.database.transaction() as connection:
            return await store.renew(connection, attempt, self.holder)

    async def _settle(self, attempt: Attempt, outcome: Outcome, event: Event) -> Attempt | None:
        """Write the outcome, again and again while the database is away: nobody else knows it.

        Return the probe's attempt where the outcome is doubt and a probe is to look.
        """
        return await _past_outages(attempt, "settle.waiting", lambda: self._settle_once(attempt, outcome, event))

    async def _settle_once(self, attempt: Attempt, outcome: Outcome, event: Event) -> Attempt | None:
        if event is Event.LET_GO:
            async with self.units.begin(attempt.cause) as work:
                await store.let_go(work, attempt, outcome, worker=self.holder.worker)
            return None
        if event is Event.PROBED:
            async with self.units.begin(attempt.cause) as work:
                return await store.probe(work, attempt, outcome, self.holder)
        if attempt.mode == "staged_call":
            await self.committing.end_call(attempt, outcome)
        else:
            await self.settling.settle(attempt, outcome)
        return None


async def _past_outages(attempt: Attempt, event: str, do: Callable[[], Awaitable[T]]) -> T:
    """Return what is done, again and again while the database is away."""
    pause, told = 0.1, False
    while True:
        try:
            return await do()
        except Exception as error:
            if not is_outage(error):
                raise
            if not told:
                log.warning(event, **attempt.ids, error=type(error).__name__)
            told = True
        await asyncio.sleep(pause)
        pause = min(pause * 2, OUTAGE_PAUSE_MAX_SECONDS)


def _span(attempt: Attempt) -> AbstractContextManager[str]:
    call = attempt.call
    ids = {"tenant": call.tenant, "conversation_id": call.conversation_id, "call_id": call.call_id}
    return TRACING.span(f"tool {call.tool}", attempt.cause.traceparent, "client", **ids, fence=attempt.fence)


def has_begun(running: asyncio.Task[Any]) -> bool:
    """Tell of what acts whether it has begun, as far as that can be told."""
    return not running.done() or running.cancelled() or running.exception() is not None or running.result() is not _LATE


def said(attempt: Attempt, running: asyncio.Task[ToolReply | Outcome], *, idempotent: bool) -> Outcome:
    """Return the outcome of a tool that has ended, or of a call that was to be staged."""
    try:
        reply = running.result()
    except ToolOutcomeUnknown as doubt:
        return rules.in_doubt(doubt.text, doubt.data)
    except ToolError as error:
        if error.code == CRASHED:
            return rules.crashed(error.text, error.data, error.code, idempotent=idempotent)
        return Outcome(Event.FAILED, error.data, error.text, code=error.code)
    except Exception:  # a tool is foreign code: whatever it raises ends this call only
        log.exception("tool.broken", tool=attempt.call.tool, call_id=attempt.call.call_id)
        return rules.crashed(NEUTRAL_TEXT, None, CRASHED, idempotent=idempotent)
    return reply if isinstance(reply, Outcome) else _succeeded(reply)


def found(attempt: Attempt, finding: Finding) -> Outcome:
    """Return the outcome that a probe's finding means; where it cannot tell, the doubt remains that led to it."""
    match finding:
        case Ran():
            outcome = _succeeded(ToolReply(data=finding.data, ui_blocks=finding.ui_blocks))
        case DidNotRun():
            outcome = Outcome(Event.FAILED, error=rules.NOT_RUN_TEXT, code=rules.NOT_RUN)
        case CannotTell():
            outcome = rules.in_doubt(finding.text) if finding.text else Outcome(Event.GAVE_UP, error=attempt.doubt)
    FINDINGS.labels(attempt.call.tool, rules.kind_of(outcome)).inc()
    return outcome


def _succeeded(reply: ToolReply) -> Outcome:
    return Outcome(Event.SUCCEEDED, reply.data, ui_blocks=reply.to_json()["ui_blocks"], handover=reply.handover)
