"""Asks models: claimed in the handler's transaction, acknowledged, asked here under a lease, settled in a second one.

A claim whose lease runs out is taken over by any replica, with a higher fence; whoever comes back with the old fence
is refused. Asking a model again is safe: nothing of an answer counts before it is settled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

import structlog
from prometheus_client import Counter

from services.agent import budgets, rules, store, turns
from services.agent.assembly import ModelAnswer
from services.agent.budgets import PriceOf, Stop
from services.agent.bunches import Bunches
from services.agent.deltas import Announce, Deltas, pause_among
from services.agent.llm import ModelUnavailable
from services.agent.profiles import Profile, Profiles
from services.agent.rules import Claim, Settlement
from services.agent.states import Event
from services.agent.store.spending import load_used
from services.agent.store.together import Talk
from services.agent.transcript import transcript
from services.agent.veils import Veils
from shared.database import is_outage
from shared.slots import Slots, under_lease
from shared.work import Act, Cause, UnitOfWork, Work

log = structlog.get_logger(__name__)

BUDGET_STOPS = Counter("placet_agent_budget_stops_total", "Turns that ended because a limit is reached.", ["limit"])

T = TypeVar("T")

_FAILED = Settlement(Event.MODEL_FAILED, reason=rules.NO_MODEL)
_TOO_LONG = Settlement(Event.MODEL_FAILED, reason=rules.TOO_LONG)
_NO_AGENT = Settlement(Event.MODEL_FAILED, reason=rules.NO_AGENT)

#: Tries of one piece of database work before a claim is left to the sweeper.
TRIES_MAX = 20
#: Longest pause between two of them, in seconds.
PAUSE_MAX_SECONDS = 2.0


class Worker:
    """Works on claims, each in a slot."""

    def __init__(
        self,
        units: UnitOfWork,
        slots: Slots,
        profiles: Profiles,
        *,
        price_of: PriceOf,
        lease: timedelta,
    ) -> None:
        self._units = units
        self._slots = slots
        #: Intake waits for a slot too, but one envelope may begin many turns; here is the bound of what is under way.
        self._room = asyncio.Semaphore(slots.size)
        self._profiles = profiles
        self._price_of = price_of
        self._announce: Announce = units.outbox.announce
        self._lease = lease
        self._bunches = Bunches(units, lease)
        #: The questions under way, by their turns.
        self._asking: dict[str, asyncio.Future[None]] = {}
        self._veils = Veils(units)

    def asking(self, claim: Claim) -> Act:
        """Return the act that begins to work on a claim."""

        async def begin() -> None:
            self._slots.spawn(self._run(claim), name=f"turn {claim.turn_id}")

        return begin

    def leaving(self, turn_id: str) -> Act:
        """Return the act that leaves a turn alone which is over for another reason: its model need not go on.

        A worker in another process finds out when it renews its lease.
        """

        async def leave() -> None:
            if (asked := self._asking.get(turn_id)) is not None:
                asked.cancel()

        return leave

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

        asking = asyncio.ensure_future(act())
        self._asking[claim.turn_id] = asking
        try:
            await under_lease(asking, renew, every_seconds=self._lease.total_seconds() / 3)
        finally:
            if self._asking.get(claim.turn_id) is asking:
                del self._asking[claim.turn_id]
        return following[0]

    async def _step(self, claim: Claim) -> Claim | None:
        """Ask for one step and settle it, in a slot: what it used is stored before another one looks at the budget."""
        async with self._room:
            return await self._step_now(claim)

    async def _step_now(self, claim: Claim) -> Claim | None:
        """Ask and settle; a turn that nothing can come of ends, and the conversation goes on."""
        ending = _FAILED
        try:
            talk = await self._through_outages(lambda: self._bunches.load(claim.conversation_id))
            profile = self._profiles.find(claim.tenant, talk.agent)
            if profile is None:
                log.warning("agent.unknown", agent=talk.agent, tenant=claim.tenant, turn_id=claim.turn_id)
                return await self._settle_unasked(claim, _NO_AGENT)
            if (spent := await self._not_asked(claim, talk, profile)) is not None:
                return await self._settle_unasked(claim, spent)
            answer = await self._ask_for(claim, talk, profile)
            return await self._through_outages(lambda: self._settle_answer(claim, answer, talk, profile))
        except ModelUnavailable as error:
            log.warning("model.unavailable", turn_id=claim.turn_id, step=claim.step, reason=str(error))
            ending = _TOO_LONG if error.too_long else _FAILED
        except Exception as error:
            if is_outage(error):
                raise
            log.exception("turn.bug", turn_id=claim.turn_id, step=claim.step)
        return await self._settle_unasked(claim, ending)

    async def _not_asked(self, claim: Claim, talk: Talk, profile: Profile) -> Settlement | None:
        """Return the end of a turn that has nothing left to use up; None where it goes on."""
        if not profile.behaviour.limits:
            return None
        stop = await self._through_outages(lambda: self._spent(claim, talk, profile))
        if stop is None:
            return None
        BUDGET_STOPS.labels(stop.limit.name).inc()
        log.warning("budget.spent", limit=stop.limit.name, turn_id=claim.turn_id, unpriced=stop.unpriced)
        return Settlement(Event.BUDGET_SPENT, reason=stop.reason, limit=stop.limit.name)

    async def _spent(self, claim: Claim, talk: Talk, profile: Profile) -> Stop | None:
        limits = profile.behaviour.limits
        place = {"tenant": claim.tenant, "agent": talk.agent, "conversation_id": claim.conversation_id}
        async with self._units.database.single() as connection:
            used = await load_used(connection, [limit.scope for limit in limits], **place)
        return budgets.reached(limits, used, self._price_of)

    async def _ask_for(self, claim: Claim, talk: Talk, profile: Profile) -> ModelAnswer:
        aside = talk.history.aside_in(claim.turn_id)
        pause = pause_among(self._slots.busy)
        deltas = Deltas(claim, self._announce, gather_seconds=pause, while_waiting=aside)
        behaviour = profile.behaviour
        last = claim.step >= behaviour.steps_max
        veil = await self._through_outages(lambda: self._veils.over(claim, talk, profile))
        heard = veil.listening(deltas.add, deltas.start_over)
        messages = transcript(behaviour.instructions, veil.history)
        try:
            answer = await profile.ask(
                messages,
                profile.tools.as_openai_tools(),
                tool_choice="none" if last else "auto",
                on_text=heard.add,
                on_reset=heard.start_over,
            )
            await heard.close()
        except (Exception, asyncio.CancelledError):
            await deltas.start_over()
            raise
        deltas.close()
        return veil.lifted(budgets.counted(answer, messages) if behaviour.limits else answer)

    async def _settle_answer(self, claim: Claim, answer: ModelAnswer, talk: Talk, profile: Profile) -> Claim | None:
        settlement = rules.settle(answer, claim, profile.tools, profile.behaviour)
        alone = profile.behaviour.supersede and bool(answer.calls)
        if await self._bunches.settle(claim, settlement, (answer, talk), alone=alone):
            return turns.next_step(claim, settlement)
        return await self._settle_by_itself(claim, answer, talk, profile)

    async def _settle_by_itself(self, claim: Claim, answer: ModelAnswer, talk: Talk, profile: Profile) -> Claim | None:
        """Settle in a transaction: messages wait, somebody holds the conversation, or the claim was lost.

        Calls are proposed under the conversation's lock, so that a message either sees them or is seen by them.
        """
        async with self._units.begin(Cause(**claim.cause)) as work:
            found = await turns.interrupted(work, claim) if answer.calls else None
            interrupted = None if found == "spoken" and not profile.behaviour.supersede else found
            settlement = rules.settle(answer, claim, profile.tools, profile.behaviour, interrupted=interrupted)
            following = await turns.settle(work, claim, settlement, (answer, talk), self._lease)
            if interrupted == "spoken" and following is not None and following.turn_id == claim.turn_id:
                following = await turns.join_queued(work, following)
        return following

    async def _settle_unasked(self, claim: Claim, ending: Settlement) -> Claim | None:
        """End a turn without an answer of a model."""

        async def settle() -> Claim | None:
            async with self._units.begin(Cause(**claim.cause)) as work:
                return await turns.settle(work, claim, ending, None, self._lease)

        return await self._through_outages(settle)

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
