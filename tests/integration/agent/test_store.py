"""Transactions that meet: whoever comes second sees what the first one did, and nobody is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from services.agent import rules, store
from services.agent.rules import Behaviour, Claim, Result, Settlement
from services.agent.states import Event
from services.agent.store import Answer, Answered, Arriving, TakenIn
from shared.database import Database
from shared.in_process import InProcessBus
from shared.messages import MessagePosted
from shared.outbox import Outbox
from shared.work import Cause, UnitOfWork, Work
from tests.builders import a_posted_message
from tests.support.agents import PATIENCE_SECONDS, SHOP, lose_leases, rows, says, wait_for_a_blocked_statement

LEASE = timedelta(seconds=30)
CHAT = Behaviour(instructions="", steps_max=10, final_answer=False)
ANSWER = Settlement(Event.ANSWERED)
A_CALL = """
    INSERT INTO agent.tool_calls (call_id, tenant, conversation_id, turn_id, message_id, step, position,
                                  provider_call_id, tool, arguments, shown_arguments, digest, state)
    VALUES ('call-1', 'acme', 'conversation-1', 'turn-1', 'm', 1, 0, '', 'pay', '{}', '{}', 'd', 'open')
"""
SECOND_CALL_AT_ONE_PLACE = A_CALL.replace("call-1", "call-2")
SECOND_LIVE_TURN = """
    INSERT INTO agent.turns (
        turn_id, tenant, conversation_id, state, step, fence, takeovers, open_calls, lease_until, cause,
        message_id, author, reason, final_answer, started_at, ended_at)
    SELECT 'turn-2', tenant, conversation_id, state, step, fence, takeovers, open_calls, lease_until, cause,
           message_id, author, reason, final_answer, started_at, ended_at
    FROM agent.turns
"""


@pytest.fixture
async def units(agent_url: str) -> AsyncIterator[UnitOfWork]:
    """Lend units of work on the agent's tables; nothing is sent anywhere."""
    database = Database(agent_url, service="agent")
    yield UnitOfWork(database, Outbox(database, InProcessBus()))
    await database.close()


def a_claim(message: MessagePosted, turn_id: str) -> Claim:
    """Return the claim of the first step of a new turn."""
    author = message.author.model_dump()
    return Claim(message.tenant, message.conversation_id, turn_id, 1, 1, message.message_id, author, {"id": turn_id})


async def arrive(work: Work, turn_id: str, **changes: Any) -> TakenIn | None:
    """Take a message in."""
    message = a_posted_message(**changes)
    (arrival,) = await store.take_in(work, [Arriving(message, a_claim(message, turn_id))], LEASE)
    return arrival


async def wait_blocked(units: UnitOfWork) -> None:
    """Return when some transaction waits for another."""
    await asyncio.to_thread(wait_for_a_blocked_statement, units.database.url)


async def test_message_that_waits_for_the_end_of_a_turn_begins_its_own(units: UnitOfWork) -> None:
    """The turn ends in a transaction that holds the conversation; the message behind it finds it idle."""

    async def second() -> TakenIn | None:
        async with units.begin() as work:
            return await arrive(work, "turn-2")

    message = a_posted_message()
    async with units.begin() as work:
        await store.take_in(work, [Arriving(message, a_claim(message, "turn-1"))], LEASE)
    async with units.begin() as work:
        ended = await store.settle(
            work, a_claim(message, "turn-1"), ANSWER, says("Hi"), next_turn="turn-3", lease=LEASE
        )
        task = asyncio.create_task(second())
        await wait_blocked(units)
    assert ended == store.Settled(None)
    assert TakenIn("turn-2", "default", is_new=True) == await task


async def test_turn_that_ends_behind_a_message_picks_it_up(units: UnitOfWork) -> None:
    """The message holds the conversation; the end of the turn behind it finds it queued."""
    message = a_posted_message()
    claim = a_claim(message, "turn-1")

    async def end() -> store.Settled | None:
        async with units.begin() as work:
            return await store.settle(work, claim, ANSWER, says("Hi"), next_turn="turn-2", lease=LEASE)

    async with units.begin() as work:
        await store.take_in(work, [Arriving(message, claim)], LEASE)
    async with units.begin() as work:
        arrival = await arrive(work, "turn-9")
        task = asyncio.create_task(end())
        await wait_blocked(units)
    assert TakenIn("turn-1", "default", is_new=True) == arrival
    assert store.Settled("turn-2") == await task


async def test_last_two_results_at_the_same_time_open_the_barrier_once(units: UnitOfWork) -> None:
    """Each transaction sees its own result only; the one that waits is the one that completes the step."""
    message = a_posted_message()
    claim = a_claim(message, "turn-1")
    calls = says("", ("search", '{"text": "a"}'), ("search", '{"text": "b"}'))
    settlement = rules.settle(calls, claim, SHOP, CHAT)
    first_id, second_id = (call.call_id for call in settlement.calls)
    owner = (message.tenant, message.conversation_id)

    async def second() -> list[Answered | None]:
        async with units.begin() as work:
            return await store.answer(work, [Answer(second_id, *owner, Result("failed", error="x"), Cause())], LEASE)

    async with units.begin() as work:
        await store.take_in(work, [Arriving(message, claim)], LEASE)
        await store.settle(work, claim, settlement, calls, next_turn="turn-2", lease=LEASE)
    async with units.begin() as work:
        first = await store.answer(work, [Answer(first_id, *owner, Result("succeeded", data=1), Cause())], LEASE)
        task = asyncio.create_task(second())
        await wait_blocked(units)
    completed = await task
    assert [Answered("turn-1", None, superseded=False)] == first
    assert [(2, 2)] == [(each.claim.step, each.claim.fence) for each in completed if each and each.claim]


async def test_settle_that_is_repeated_changes_nothing(units: UnitOfWork, agent_url: str) -> None:
    """Where the answer to a COMMIT was lost, the settle comes again: the first one stands, its calls are there once."""
    message = a_posted_message()
    claim = a_claim(message, "turn-1")
    calls = says("", ("search", '{"text": "a"}'))
    settlement = rules.settle(calls, claim, SHOP, CHAT)
    async with units.begin() as work:
        await store.take_in(work, [Arriving(message, claim)], LEASE)
        await store.settle(work, claim, settlement, calls, next_turn="turn-2", lease=LEASE)
    async with units.begin() as work:
        assert await store.settle(work, claim, settlement, calls, next_turn="turn-3", lease=LEASE) is None
    assert [("waiting", 1, 1)] == rows(
        agent_url, "SELECT state, open_calls, (SELECT count(*) FROM agent.tool_calls) FROM agent.turns"
    )


async def test_worker_that_settles_behind_a_message_knows_of_it(units: UnitOfWork) -> None:
    """With `supersede` a worker must not propose calls past a message that is just being stored."""
    message = a_posted_message()
    claim = a_claim(message, "turn-1")

    async def queued() -> tuple[int, bool]:
        async with units.begin() as work:
            return await store.lock_queue(work, claim)

    async with units.begin() as work:
        await store.take_in(work, [Arriving(message, claim)], LEASE)
    async with units.begin() as work:
        await arrive(work, "turn-9")
        task = asyncio.create_task(queued())
        await wait_blocked(units)
    assert (1, False) == await task


async def test_turn_that_one_sweeper_takes_over_is_passed_over_by_the_other(units: UnitOfWork, agent_url: str) -> None:
    """Two sweepers at the same moment do not wait for each other, and each lost lease goes to one of them."""
    message = a_posted_message()
    async with units.begin() as work:
        await store.take_in(work, [Arriving(message, a_claim(message, "turn-1"))], LEASE)
    lose_leases(agent_url)
    async with units.begin() as one, units.begin() as other:
        assert 1 == len(await store.take_over(one, 5, LEASE))
        assert [] == await asyncio.wait_for(store.take_over(other, 5, LEASE), PATIENCE_SECONDS)


async def test_renewal_keeps_a_lease_until_a_newer_fence_is_given(units: UnitOfWork, agent_url: str) -> None:
    """A worker learns from its renewal that another one has the turn; a turn it has settled itself is not lost."""
    message = a_posted_message()
    old = a_claim(message, "turn-1")
    async with units.begin() as work:
        await store.take_in(work, [Arriving(message, old)], LEASE)
        assert await store.renew(work.connection, old, LEASE)
        assert [] == await store.take_over(work, 5, LEASE)
    lose_leases(agent_url)
    async with units.begin() as work:
        ((new, takeovers),) = await store.take_over(work, 5, LEASE)
        assert (replace(old, fence=2), 1) == (new, takeovers)
        assert not await store.renew(work.connection, old, LEASE)
        assert await store.settle(work, old, ANSWER, says("Late"), next_turn="turn-2", lease=LEASE) is None
        assert await store.settle(work, new, ANSWER, says("Hi"), next_turn="turn-2", lease=LEASE)
        assert await store.renew(work.connection, new, LEASE)
    assert [("finished", None)] == rows(agent_url, "SELECT state, lease_until FROM agent.turns")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE agent.turns SET state = 'nonsense'",
        "UPDATE agent.turns SET state = 'finished'",
        "UPDATE agent.turns SET state = 'waiting'",
        "UPDATE agent.turns SET open_calls = 1",
        "UPDATE agent.turns SET lease_until = NULL",
        "UPDATE agent.turns SET ended_at = now()",
        "UPDATE agent.conversations SET turn_id = NULL, queued = 1",
        "UPDATE agent.tool_calls SET state = 'answered'",
        "UPDATE agent.tool_calls SET state = 'answered', answered_at = now(), result_kind = 'nonsense'",
        "UPDATE agent.tool_calls SET digest = NULL",
        SECOND_CALL_AT_ONE_PLACE,
        SECOND_LIVE_TURN,
    ],
)
async def test_database_refuses_what_the_code_forgot(units: UnitOfWork, agent_url: str, change: str) -> None:
    """No row can say what the machines do not: a half-ended turn, a second live turn, a result without its time."""
    message = a_posted_message()
    async with units.begin() as work:
        await store.take_in(work, [Arriving(message, a_claim(message, "turn-1"))], LEASE)
    rows(agent_url, A_CALL)
    with pytest.raises((psycopg.errors.CheckViolation, psycopg.errors.UniqueViolation)):
        rows(agent_url, change)
