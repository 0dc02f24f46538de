"""Asks models: claimed in the handler's transaction, acknowledged, asked here under a lease, settled in a second one.

A claim whose lease runs out is taken over by any replica, with a higher fence; whoever comes back with the old fence
is refused. Asking a model again is safe: nothing of an answer counts before it is settled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, Protocol, TypeVar

import structlog

from services.agent import rules, store, turns
from services.agent.assembly import ModelAnswer
from services.agent.bunches import Bunches
from services.agent.deltas import Announce, Deltas
from services.agent.llm import ModelUnavailable
from services.agent.rules import Behaviour, Claim, Settlement
from services.agent.states import Event
from services.agent.store.together import Talk
from services.agent.transcript import transcript
from shared.catalog import Catalog
from shared.database import is_outage
from shared.slots import Slots, under_lease
from shared.work import Act, Cause, UnitOfWork, Work

log = structlog.get_logger(__name__)

T = TypeVar("T")

#: Tries of one piece of database work before a claim is left to the sweeper.
TRIES_MAX = 20
#: Longest pause between two of them, in seconds.
PAUSE_MAX_SECONDS = 2.0


class AskModel(Protocol):
    """Asks a model for one answer; `llm.ask` with its settings bound is one."""

    async def __call__(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        *,
        tool_choice: Literal["auto", "none"],
        on_text: Callable[[str], Awaitable[None]],
        on_reset: Callable[[], Awaitable[None]],
    ) -> ModelAnswer:
        """Return one whole answer, or raise ModelUnavailable."""


class Worker:
    """Works on claims, each in a slot."""

    def __init__(
        self,
        units: UnitOfWork,
        slots: Slots,
        ask: AskModel,
        *,
        tools: Catalog,
        behaviour: Behaviour,
        lease: timedelta,
    ) -> None:
        self._units = units
        self._slots = slots
        self._ask = ask
        self._announce: Announce = units.outbox.announce
        self._tools = tools
        self._behaviour = behaviour
        self._lease = lease
        self._bunches = Bunches(units, lease)

    def asking(self, claim: Claim) -> Act:
        """Return the act that begins to work on a claim."""

        async def begin() -> None:
            self._slots.spawn(self._run(claim), name=f"turn {claim.turn_id}")

        return begin

    async def sweep(self) -> int:
        """Take over turns whose worker never came back, as many as there are free slots; return how many."""
        free = self._slots.size - self._slots.busy
        if free <= 0:
            return 0
        async with self._units.begin() as work:
            found = await store.take_over(work, free, self._lease)
            for claim, takeovers in found:
                work.cause = Cause(**claim.cause)
                await self._take_over(work, claim, takeovers)
        return len(found)

    async def _take_over(self, work: Work, claim: Claim, takeovers: int) -> None:
        if takeovers <= rules.TAKEOVERS_MAX:
            turns.taken_over(work, claim, takeovers)
            work.act(self.asking(claim))
            return
        log.error("turn.given_up", turn_id=claim.turn_id, step=claim.step, takeovers=takeovers)
        given_up = Settlement(Event.GIVEN_UP, reason=rules.NO_MODEL)
        following = await turns.settle(work, claim, given_up, None, self._lease)
        if following is not None:
            work.act(self.asking(following))

    async def _run(self, claim: Claim) -> None:
        """Work on a claim and on what follows from it in the same conversation, until others must act."""
        following: Claim | None = claim
        while following is not None:
            claim = following
            try:
                following = await self._under_lease(claim)
            except asyncio.CancelledError:
                # Nobody should wait for the end of a lease whose holder is being stopped.
                await self._give_back(claim)
                raise

    async def _give_back(self, claim: Claim) -> None:
        async with self._units.database.single() as connection:
            await store.give_back(connection, claim)

    async def _under_lease(self, claim: Claim) -> Claim | None:
        following: list[Claim | None] = []

        async def act() -> None:
            following.append(await self._step(claim))

        async def renew() -> bool:
            async with self._units.database.single() as connection:
                return await store.renew(connection, claim, self._lease)

        await under_lease(act(), renew, every_seconds=self._lease.total_seconds() / 3)
        return following[0]

    async def _step(self, claim: Claim) -> Claim | None:
        """Ask for one step and settle it; a turn that nothing can come of ends, and the conversation goes on."""
        try:
            talk = await self._through_outages(lambda: self._bunches.load(claim.conversation_id))
            answer = await self._ask_for(claim, talk)
            return await self._through_outages(lambda: self._settle_answer(claim, answer, talk))
        except ModelUnavailable as error:
            log.warning("model.unavailable", turn_id=claim.turn_id, step=claim.step, reason=str(error))
        except Exception as error:
            if is_outage(error):
                raise
            log.exception("turn.bug", turn_id=claim.turn_id, step=claim.step)
        return await self._through_outages(lambda: self._settle_failure(claim))

    async def _ask_for(self, claim: Claim, talk: Talk) -> ModelAnswer:
        deltas = Deltas(claim, self._announce)
        last = claim.step >= self._behaviour.steps_max
        try:
            answer = await self._ask(
                transcript(self._behaviour.instructions, talk.history),
                self._tools.as_openai_tools(),
                tool_choice="none" if last else "auto",
                on_text=deltas.add,
                on_reset=deltas.start_over,
            )
        except Exception:
            await deltas.start_over()
            raise
        deltas.close()
        return answer

    async def _settle_answer(self, claim: Claim, answer: ModelAnswer, talk: Talk) -> Claim | None:
        settlement = rules.settle(answer, claim, self._tools, self._behaviour)
        alone = self._behaviour.supersede and bool(answer.calls)
        if await self._bunches.settle(claim, settlement, (answer, talk), alone=alone):
            return turns.next_step(claim, settlement)
        return await self._settle_by_itself(claim, answer, talk)

    async def _settle_by_itself(self, claim: Claim, answer: ModelAnswer, talk: Talk) -> Claim | None:
        """Settle in a transaction: messages wait, somebody holds the conversation, or the claim was lost.

        Calls are proposed under the conversation's lock, so that a message either sees them or is seen by them.
        """
        async with self._units.begin(Cause(**claim.cause)) as work:
            found = await turns.interrupted(work, claim) if answer.calls else None
            interrupted = None if found == "spoken" and not self._behaviour.supersede else found
            settlement = rules.settle(answer, claim, self._tools, self._behaviour, interrupted=interrupted)
            following = await turns.settle(work, claim, settlement, (answer, talk), self._lease)
            if interrupted == "spoken" and following is not None and following.turn_id == claim.turn_id:
                following = await turns.join_queued(work, following)
        return following

    async def _settle_failure(self, claim: Claim) -> Claim | None:
        async with self._units.begin(Cause(**claim.cause)) as work:
            failure = Settlement(Event.MODEL_FAILED, reason=rules.NO_MODEL)
            return await turns.settle(work, claim, failure, None, self._lease)

    async def _through_outages(self, do: Callable[[], Awaitable[T]]) -> T:
        """Do database work, waiting while the database is away: an answer of a model is too dear to throw away."""
        for attempt in range(TRIES_MAX):
            try:
                return await do()
            except Exception as error:
                if not is_outage(error):
                    raise
                log.warning("database.outage", error=type(error).__name__)
            await asyncio.sleep(min(0.05 * 2**attempt, PAUSE_MAX_SECONDS))
            await self._units.database.wait_ready()
        return await do()
