"""Asks models: claimed in the handler's transaction, acknowledged, asked here under a lease, settled by one statement.

A claim whose lease runs out is taken over by any replica, with a higher fence; whoever comes back with the old fence
is refused. Asking a model again is safe: nothing of an answer counts before it is settled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TypeVar

import structlog
from prometheus_client import Counter, Gauge

from placet.agent import attempts, budgets, rules, store
from placet.agent.budgets import PriceOf, Stop
from placet.agent.changes import Saving, hand_over, save, telling
from placet.agent.conversation import Conversation
from placet.agent.deltas import Deltas, pause_among
from placet.agent.llm import ModelUnavailable
from placet.agent.origins import Before, may_name_secrets
from placet.agent.profiles import Profile, Profiles
from placet.agent.pseudonymizing import Readable, pseudonymize
from placet.agent.rules import Claim, Settlement
from placet.agent.staging import with_propose
from placet.agent.states import Event
from placet.agent.store import ConversationSnapshot, Wanted
from placet.agent.transcript import transcript
from placet.agent.turns import Said
from placet.runtime import points
from placet.runtime.batcher import Batcher
from placet.runtime.database import is_outage
from placet.runtime.slots import Room, Slots, under_lease
from placet.runtime.tracing import TRACING
from placet.runtime.work import Act, Cause, UnitOfWork

log = structlog.get_logger(__name__)

BUDGET_STOPS = Counter("placet_agent_budget_stops_total", "Turns that ended because a limit is reached.", ["limit"])
TURNS_WAITING = Gauge("placet_agent_turns_waiting", "Turns of this agent that wait for a model call of their tenant.")

T = TypeVar("T")

_FAILED = Settlement(Event.MODEL_FAILED, reason=rules.NO_MODEL)
_TOO_LONG = Settlement(Event.MODEL_FAILED, reason=rules.TOO_LONG)
_RESTORED = Settlement(Event.MODEL_FAILED, reason=rules.RESTORED)
_NO_AGENT = Settlement(Event.MODEL_FAILED, reason=rules.NO_AGENT)

#: Tries of one piece of database work before a claim is left to the sweeper.
TRIES_MAX = 20
#: Longest pause between two of them, in seconds.
PAUSE_MAX_SECONDS = 2.0


class Worker:
    """Works on claims, each in a slot."""

    def __init__(
        self, units: UnitOfWork, slots: Slots, room: Room, profiles: Profiles, *, price_of: PriceOf, lease: timedelta
    ) -> None:
        self._units = units
        #: Turns that this process has claimed.
        self._slots = slots
        #: Those of them whose model is asked; the others wait until it is their agent's turn.
        self._room = room
        self._profiles = profiles
        self._price_of = price_of
        self._lease = lease
        self.saving = Saving(self, units.outbox.announce, lease)
        self._loads = Batcher[str, ConversationSnapshot](self._load)
        self._settles = Batcher[Conversation, datetime | None](self._settle_together, isolate=True)
        #: The questions under way, by their turns.
        self._asking: dict[str, asyncio.Future[None]] = {}

    def asking(self, claim: Claim) -> Act:
        """Return the act that begins to work on a claim."""

        async def begin() -> None:
            self._slots.spawn(self._run(claim), name=f"turn {claim.turn_id}", tenant=claim.tenant)

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
        """Take over turns whose worker never came back, as many as models could be asked for; return how many."""
        TURNS_WAITING.set(self._room.waiting)
        free = self._room.size - self._slots.busy
        if free <= 0:
            return 0
        async with self._units.database.single() as connection:
            lost = dict(await store.lost_turns(connection, free))
        if lost:
            async with self._units.begin() as work:
                found = await store.lock(work.connection, Wanted(conversation_ids=set(lost)))
                for conversation_id, conversation in found.items():
                    if not conversation.take_over(lost[conversation_id]):
                        log.error("turn.given_up", turn_id=lost[conversation_id])
                await save(work, list(found.values()), self.saving)
        return len(lost)

    async def _run(self, claim: Claim) -> None:
        """Work on a claim and on what follows from it in the same conversation, until others must act."""
        following: Claim | None = claim
        while following is not None:
            claim = following
            try:
                following = await self._under_lease(claim)
            except asyncio.CancelledError:
                # Nobody should wait for the end of a lease whose holder is being stopped.
                async with self._units.database.single() as connection:
                    await store.give_back(connection, claim)
                raise

    async def _under_lease(self, claim: Claim) -> Claim | None:
        following: list[Claim | None] = []

        async def act() -> None:
            # What it used is stored before another one in this slot looks at the budget.
            async with self._room.enter(claim.tenant, claim.agent):
                following.append(await self._step(claim))

        async def renew() -> bool:
            async with self._units.database.single() as connection:
                return await store.renew(connection, claim, self._lease)

        asking = asyncio.ensure_future(act())
        self._asking[claim.turn_id] = asking
        try:
            await under_lease(asking, renew, every_seconds=self._lease.total_seconds() / 3, ids=claim.ids)
        finally:
            if self._asking.get(claim.turn_id) is asking:
                del self._asking[claim.turn_id]
        return following[0]

    async def _step(self, claim: Claim) -> Claim | None:
        """Ask for one step and settle it; a turn that nothing can come of ends, and the conversation goes on."""
        ending = _FAILED
        try:
            snapshot = await self._through_outages(lambda: self._loads.submit(claim.conversation_id))
            if not snapshot.has_turn(claim.turn_id):
                # Stopped, or withdrawn, before its model was asked.
                return None
            profile = self._profiles.find(claim.tenant, snapshot.agent)
            if profile is None:
                log.warning("agent.unknown", agent=snapshot.agent, tenant=claim.tenant, turn_id=claim.turn_id)
                await self._end(claim, _NO_AGENT)
                return None
            if (spent := await self._not_asked(claim, snapshot, profile)) is not None:
                await self._end(claim, spent)
                return None
            points.reached("agent.asking")
            said = await self._ask_for(claim, snapshot, profile)
            points.reached("agent.answered")
            return await self._through_outages(lambda: self._settle(claim, said, snapshot))
        except ModelUnavailable as error:
            log.warning("model.unavailable", turn_id=claim.turn_id, step=claim.step, reason=str(error))
            ending = _TOO_LONG if error.too_long else _FAILED
        except Exception as error:
            if is_outage(error):
                raise
            log.exception("turn.bug", turn_id=claim.turn_id, step=claim.step)
        await self._end(claim, ending)
        return None

    async def _load(self, conversation_ids: list[str]) -> list[ConversationSnapshot | Exception]:
        async with self._units.database.single() as connection:
            found = await store.load(connection, conversation_ids)
        none = LookupError("there is no such conversation")
        return [found.get(each, none) for each in conversation_ids]

    async def _not_asked(self, claim: Claim, snapshot: ConversationSnapshot, profile: Profile) -> Settlement | None:
        """Return the end of a turn that has nothing left to use up, or was broken off; None where it goes on."""
        if await self._through_outages(lambda: self._is_broken_off(claim.turn_id)):
            return _RESTORED
        limits = profile.behaviour.limits
        if not limits:
            return None

        async def spent() -> Stop | None:
            place = {"tenant": claim.tenant, "agent": snapshot.agent, "conversation_id": claim.conversation_id}
            async with self._units.database.single() as connection:
                used = await store.load_used(connection, [limit.scope for limit in limits], **place)
            return budgets.reached(limits, used, self._price_of)

        if (stop := await self._through_outages(spent)) is None:
            return None
        BUDGET_STOPS.labels(stop.limit.name).inc()
        log.warning("budget.spent", limit=stop.limit.name, turn_id=claim.turn_id, unpriced=stop.unpriced)
        return Settlement(Event.BUDGET_SPENT, reason=stop.reason, limit=stop.limit.name)

    async def _is_broken_off(self, turn_id: str) -> bool:
        """Tell whether a turn, or what it answers, is from before a restore: what it did since would be done again."""
        restored = self._units.database.restored
        if restored is None:
            return False
        async with self._units.database.single() as connection:
            return await store.is_from_before(connection, turn_id, restored.at)

    async def _ask_for(self, claim: Claim, snapshot: ConversationSnapshot, profile: Profile) -> Said:
        told = snapshot.history
        aside = told.aside_in(claim.turn_id)
        pause = pause_among(self._room.busy)
        deltas = Deltas(claim, self.saving.announce, gather_seconds=pause, while_waiting=aside)
        behaviour = profile.behaviour
        last = claim.step >= behaviour.steps_max
        attempt = snapshot.attempt
        tools = profile.tools if attempt is None else attempts.offered(profile.tools, attempt)
        ask = profile.ask if attempt is None else profile.ask_as(attempt.variant)
        readable = await self._readable(claim, snapshot, profile)
        heard = None if readable is None else readable.listening(deltas.add, deltas.start_over)
        reader = heard or deltas
        tools = with_propose(tools) if snapshot.has_staged and attempt is None else tools
        told_last = last and claim.step > 1 and bool(tools)
        words = rules.LAST_STEP if attempt is None else attempts.LAST_STEP
        instructions = f"{behaviour.instructions}\n\n{words}".strip() if told_last else behaviour.instructions
        messages = transcript(instructions, told if readable is None else readable.history)
        try:
            with TRACING.span("model", claim.cause.get("traceparent", ""), "client", **claim.ids):
                answer = await ask(
                    messages,
                    tools.as_openai_tools(),
                    tool_choice="none" if last and attempt is None else "auto",
                    on_text=reader.add,
                    on_reset=reader.start_over,
                )
                used = {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens}
                TRACING.describe(f"model {answer.model}", **used)
            if heard is not None:
                await heard.close()
        except (Exception, asyncio.CancelledError):
            await deltas.start_over()
            raise
        deltas.flush()
        counts = bool(behaviour.limits) or attempt is not None
        answer = budgets.counted(answer, messages) if counts else answer
        answer = answer if readable is None else readable.restored(answer)
        cost = None if attempt is None else budgets.cost_of(answer, self._price_of)
        called = [*(each.name for each in answer.calls), *told.tools_in(claim.turn_id)] if answer.calls else []
        place, secret = (claim.author["id"], claim.turn_id), may_name_secrets(tools, called)
        before = Before.of(told, *place, behaviour.instructions, secret=secret) if called else None
        return Said(answer, told.spoken_in(claim.turn_id), aside, tools, behaviour, cost, before)

    async def _readable(self, claim: Claim, snapshot: ConversationSnapshot, profile: Profile) -> Readable | None:
        """Return the conversation with pseudonyms in it; None where its model reads everything as it is."""
        if (personal := profile.personal) is None:
            return None
        database, instructions = self._units.database, profile.behaviour.instructions
        return await self._through_outages(lambda: pseudonymize(database, claim, snapshot, personal, instructions))

    async def _settle(self, claim: Claim, said: Said, snapshot: ConversationSnapshot) -> Claim | None:
        """Settle a step as the conversation was when the model was asked, or else as it is now."""
        conversation = snapshot.conversation()
        conversation.cause = Cause(**claim.cause)
        conversation.settle(claim, said)
        conversation.finish()
        moment = await self._settles.submit(conversation)
        if moment is None:
            await self._settle_locked(claim, said)
            return None
        await telling(conversation, moment, self.saving.announce)()
        return conversation.begun[-1] if conversation.begun else None

    async def _settle_together(self, conversations: list[Conversation]) -> list[datetime | None]:
        """Store steps that nothing came between; return the moments, None for the others."""
        async with self._units.once() as work:
            for conversation in conversations:
                hand_over(conversation, work)
            chosen, values = store.effect(conversations, self._lease)
            moments = {row["key"]: row["at"] for row in await work.execute_once(chosen, **values)}
        self.saving.memory.keep(each for each in conversations if each.conversation_id in moments)
        return [moments.get(each.conversation_id) for each in conversations]

    async def _settle_locked(self, claim: Claim, said: Said | Settlement) -> None:
        async with self._units.begin(Cause(**claim.cause)) as work:
            found = await store.lock(
                work.connection, Wanted(conversation_ids={claim.conversation_id}, turn_ids={claim.turn_id})
            )
            conversation = found[claim.conversation_id]
            conversation.cause = work.cause
            conversation.settle(claim, said)
            await save(work, [conversation], self.saving)

    async def _end(self, claim: Claim, ending: Settlement) -> None:
        """End a turn without an answer of a model."""
        await self._through_outages(lambda: self._settle_locked(claim, ending))

    async def _through_outages(self, do: Callable[[], Awaitable[T]]) -> T:
        """Do database work, waiting while the database is away: an answer of a model is too dear to throw away."""
        for attempt in range(TRIES_MAX):
            try:
                return await do()
            except Exception as error:
                if not is_outage(error):
                    raise
                self._units.database.tell_lost(error=type(error).__name__)
            await asyncio.sleep(min(0.05 * 2**attempt, PAUSE_MAX_SECONDS))
            await self._units.database.wait_ready()
        return await do()
