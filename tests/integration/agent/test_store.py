"""Transactions that meet in a conversation: the second sees what the first one did, and numbers have no gap."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from placet.agent import store
from placet.agent.conversation import Conversation
from placet.agent.rules import Behaviour, Claim
from placet.agent.store import Wanted
from placet.agent.turns import Said
from placet.runtime.database import Database
from placet.runtime.in_process import InProcessBus
from placet.runtime.outbox import Outbox
from placet.runtime.work import UnitOfWork
from tests.builders import a_posted_message
from tests.support.agents import SHOP, lose_leases, rows, says, wait_for_a_blocked_statement

LEASE = timedelta(seconds=30)
CHAT = Behaviour(instructions="", steps_max=10, final_answer=False)
FREE = "SELECT conversation_id FROM agent.conversations FOR UPDATE SKIP LOCKED"
SECOND_LIVE_TURN = """
    INSERT INTO agent.turns (
        turn_id, tenant, conversation_id, state, step, fence, takeovers, open_calls, paused, lease_until, cause,
        message_id, author, reason, final_answer, started_at, ended_at)
    SELECT 'turn-2', tenant, conversation_id, state, step, fence, takeovers, open_calls, paused, lease_until, cause,
           message_id, author, reason, final_answer, started_at, ended_at
    FROM agent.turns
"""
SECOND_CALL_AT_ONE_PLACE = """
    INSERT INTO agent.tool_calls (call_id, tenant, conversation_id, turn_id, message_id, step, position,
                                  provider_call_id, tool, arguments, shown_arguments, digest, state, approval_revision,
                                  undecided)
    SELECT 'call-2', tenant, conversation_id, turn_id, message_id, step, position, provider_call_id, tool, arguments,
           shown_arguments, digest, state, 0, false
    FROM agent.tool_calls
"""


@pytest.fixture
async def units(agent_url: str) -> AsyncIterator[UnitOfWork]:
    """Lend units of work on the agent's tables; nothing is sent anywhere."""
    database = Database(agent_url, service="agent")
    yield UnitOfWork(database, Outbox(database, InProcessBus()))
    await database.close()


async def locked(work: Any, *names: str) -> dict[str, Conversation]:
    """Lock conversations; those that are not there begin."""
    return await store.lock(work.connection, Wanted(dict.fromkeys(names, "acme"), set(names)))


async def write_in(units: UnitOfWork, name: str, text: str = "hi", number: int = 0) -> Conversation:
    """Take a message in; return the conversation."""
    async with units.begin() as work:
        conversation = (await locked(work, name))[name]
        message = a_posted_message(conversation_id=name, message_id=f"m{number}", text=text)
        conversation.take_message(message, CHAT, {})
        conversation.finish()
        await store.write(work.connection, [conversation], LEASE)
    return conversation


async def read(units: UnitOfWork, name: str = "c1") -> Conversation:
    """Return a conversation as a worker reads it."""
    async with units.database.single() as connection:
        return (await store.load(connection, [name]))[name].conversation()


async def written(units: UnitOfWork, *conversations: Conversation) -> list[str]:
    """Store what happened without a lock; return in which conversations it counts."""
    chosen, values = store.effect(conversations, LEASE)
    async with units.once() as work:
        return [row["key"] for row in await work.execute_once(chosen, **values)]


def settle(conversation: Conversation, claim: Claim, *calls: tuple[str, str]) -> None:
    """Let the model answer."""
    conversation.settle(claim, Said(says("Hm", *calls), False, False, SHOP, CHAT))  # noqa: FBT003
    conversation.finish()


async def test_numbers_have_no_gap_whoever_writes_at_the_same_moment(units: UnitOfWork, agent_url: str) -> None:
    """Twenty messages at once, some of them the first of their conversation."""
    await asyncio.gather(*(write_in(units, f"c{number % 2}", number=number) for number in range(20)))
    numbers = rows(agent_url, "SELECT conversation_id, array_agg(seq ORDER BY seq), max(seq) FROM agent.log GROUP BY 1")
    assert {name: list(range(1, last + 1)) for name, _, last in numbers} == {name: seqs for name, seqs, _ in numbers}
    assert [(20, 2)] == rows(agent_url, "SELECT count(*), count(DISTINCT conversation_id) FROM agent.messages")
    assert [(2,)] == rows(agent_url, "SELECT count(*) FROM agent.turns")


async def test_what_waited_for_the_lock_sees_what_its_holder_did(units: UnitOfWork, agent_url: str) -> None:
    """The first message begins a turn; the one that waited behind it finds that turn, and queues."""
    await write_in(units, "c1", number=1)
    async with units.begin() as work:
        first = (await locked(work, "c1"))["c1"]
        task = asyncio.create_task(write_in(units, "c1", number=3))
        await asyncio.to_thread(wait_for_a_blocked_statement, agent_url)
        settle(first, first.of(first.turns[first.turn_id or ""]))
        await store.write(work.connection, [first], LEASE)
    second = await task
    assert first.turn_id is None
    assert [second.turn_id] == [claim.turn_id for claim in second.begun]
    assert [("finished",), ("thinking",)] == rows(agent_url, "SELECT state FROM agent.turns ORDER BY started_at")


async def test_a_step_that_something_came_between_is_not_stored(units: UnitOfWork, agent_url: str) -> None:
    """Its neighbour in the same statement is; nothing of the other is there, nor is it sent."""
    claims = {name: (await write_in(units, name, number=1)).begun[0] for name in ("c1", "c2")}
    read_before = [await read(units, name) for name in claims]
    await write_in(units, "c1", number=2)
    for conversation, claim in zip(read_before, claims.values(), strict=True):
        settle(conversation, claim, ("pay", '{"amount": 1}'))
    assert ["c2"] == await written(units, *read_before)
    assert [("c2",)] == rows(agent_url, "SELECT conversation_id FROM agent.tool_calls")
    assert [("c2",)] == rows(agent_url, "SELECT conversation_id FROM agent.steps")


async def test_a_step_that_is_settled_twice_counts_once(units: UnitOfWork, agent_url: str) -> None:
    """Where the answer to a COMMIT was lost, the settle comes again: the first one stands."""
    (claim,) = (await write_in(units, "c1")).begun
    one, other = await read(units), await read(units)
    for each in (one, other):
        settle(each, claim, ("pay", '{"amount": 1}'))
    assert [["c1"], []] == [await written(units, one), await written(units, other)]
    again = await read(units)
    settle(again, claim)
    assert ([], ["late_settle"]) == (again.items, [change.event for change, _ in again.changes])
    assert [("waiting", 1)] == rows(agent_url, "SELECT state, open_calls FROM agent.turns")


async def test_what_another_holds_is_not_waited_for_by_its_neighbours(units: UnitOfWork) -> None:
    """A worker's statement passes a conversation over that somebody has locked."""
    claims = {name: (await write_in(units, name)).begun[0] for name in ("c1", "c2")}
    conversations = [await read(units, name) for name in claims]
    for conversation, claim in zip(conversations, claims.values(), strict=True):
        settle(conversation, claim)
    async with units.begin() as work:
        await locked(work, "c1")
        assert ["c2"] == await written(units, *conversations)


async def test_conversations_are_locked_in_one_order(units: UnitOfWork, agent_url: str) -> None:
    """A batch that waits for the first conversation holds no later one, so two batches cannot lock each other out."""
    for name in ("c1", "c2"):
        await write_in(units, name)

    async def lock_both() -> list[str]:
        async with units.begin() as work:
            return list(await locked(work, "c2", "c1"))

    async with units.begin() as work:
        await locked(work, "c1")
        task = asyncio.create_task(lock_both())
        await asyncio.to_thread(wait_for_a_blocked_statement, agent_url)
        assert [("c2",)] == rows(agent_url, FREE)
    assert {"c1", "c2"} == set(await task)


async def test_renewal_keeps_a_lease_until_a_newer_fence_is_given(units: UnitOfWork, agent_url: str) -> None:
    """A worker learns from its renewal that another one has the turn."""
    (claim,) = (await write_in(units, "c1")).begun
    async with units.begin() as work:
        assert await store.renew(work.connection, claim, LEASE)
        assert [] == await store.lost_turns(work.connection, 5)
    lose_leases(agent_url)
    async with units.begin() as work:
        assert [("c1", claim.turn_id)] == await store.lost_turns(work.connection, 5)
        conversation = (await locked(work, "c1"))["c1"]
        assert conversation.take_over(claim.turn_id)
        await store.write(work.connection, [conversation], LEASE)
        assert not await store.renew(work.connection, claim, LEASE)
        assert await store.renew(work.connection, conversation.begun[0], LEASE)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE agent.turns SET state = 'nonsense'",
        "UPDATE agent.turns SET state = 'finished'",
        "UPDATE agent.turns SET open_calls = 0",
        "UPDATE agent.turns SET lease_until = now()",
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
    (claim,) = (await write_in(units, "c1")).begun
    conversation = await read(units)
    settle(conversation, claim, ("pay", '{"amount": 1}'))
    assert ["c1"] == await written(units, conversation)
    with pytest.raises((psycopg.errors.CheckViolation, psycopg.errors.UniqueViolation)):
        rows(agent_url, change)
