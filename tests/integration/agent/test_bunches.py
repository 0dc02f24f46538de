"""Steps of several turns settled by one statement: each as if it were alone, and none at the cost of another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from services.agent import rules, store
from services.agent.assembly import ModelAnswer
from services.agent.bunches import Bunches
from services.agent.rules import Behaviour, Claim
from services.agent.store import Arriving
from services.agent.store.together import ClockReading
from shared.database import Database
from shared.in_process import InProcessBus
from shared.messages import MessagePosted
from shared.outbox import Outbox
from shared.work import UnitOfWork
from tests.builders import NOON, a_posted_message
from tests.support.agents import PATIENCE_SECONDS, SHOP, rows, says

LEASE = timedelta(seconds=30)
CHAT = Behaviour(instructions="", steps_max=10, final_answer=False)
PAY = ("pay", '{"amount": 299}')
TURNS = "SELECT turn_id, state FROM agent.turns ORDER BY turn_id"


@pytest.fixture
async def units(agent_url: str) -> AsyncIterator[UnitOfWork]:
    """Lend units of work on the agent's tables; nothing is sent anywhere."""
    database = Database(agent_url, service="agent")
    yield UnitOfWork(database, Outbox(database, InProcessBus()))
    await database.close()


@pytest.fixture
def bunches(units: UnitOfWork) -> Bunches:
    """Lend bunches as a worker has them."""
    return Bunches(units, LEASE)


def a_message(name: str, **changes: str) -> MessagePosted:
    """Return a message to the conversation `c-<name>`."""
    return a_posted_message(conversation_id=f"c-{name}", **changes)


def a_claim(message: MessagePosted, turn_id: str) -> Claim:
    """Return the claim of the first step of a new turn."""
    author = message.author.model_dump()
    return Claim(message.tenant, message.conversation_id, turn_id, 1, 1, message.message_id, author, {"id": turn_id})


async def begun(units: UnitOfWork, *names: str) -> list[Claim]:
    """Store a message and its turn `t-<name>` in the conversation `c-<name>` of each name; return their claims."""
    claims = []
    async with units.begin() as work:
        for name in names:
            message = a_message(name, text=f"I am {name}")
            claims.append(a_claim(message, f"t-{name}"))
            await store.take_in(work, [Arriving(message, claims[-1])], LEASE)
    return claims


async def settle(bunches: Bunches, claim: Claim, answer: ModelAnswer, *, alone: bool = False) -> bool:
    """Settle what a model answered."""
    talk = await bunches.load(claim.conversation_id)
    return await bunches.settle(claim, rules.settle(answer, claim, SHOP, CHAT), (answer, talk), alone=alone)


async def settle_all(bunches: Bunches, *steps: tuple[Claim, ModelAnswer]) -> list[bool]:
    """Settle steps at the same moment."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await asyncio.gather(*(settle(bunches, *step) for step in steps))


async def test_steps_of_a_bunch_are_stored_each_with_its_own(
    units: UnitOfWork, bunches: Bunches, agent_url: str
) -> None:
    """One turn ends and one waits for its call; history and messages say so, in the order they happened."""
    ada, bob = await begun(units, "ada", "bob")
    assert [True, True] == await settle_all(bunches, (ada, says("Hi")), (bob, says("Let me", PAY, ("nope", "{}"))))
    assert [("t-ada", "finished"), ("t-bob", "waiting")] == rows(agent_url, TURNS)
    assert [("c-ada", None), ("c-bob", "t-bob")] == rows(
        agent_url, "SELECT conversation_id, turn_id FROM agent.conversations ORDER BY 1"
    )
    assert [("t-bob", "c-bob", "pay", "open"), ("t-bob", "c-bob", "nope", "answered")] == rows(
        agent_url, "SELECT turn_id, conversation_id, tool, state FROM agent.tool_calls ORDER BY position"
    )
    assert [("t-ada", "Hi"), ("t-bob", "Let me")] == rows(
        agent_url, "SELECT turn_id, raw->>'content' FROM agent.steps ORDER BY 1"
    )
    assert [("turn", "answered"), ("turn", "calls_proposed"), ("tool_call", "proposed"), ("tool_call", "proposed")] == (
        rows(agent_url, "SELECT machine, event FROM agent.history ORDER BY id")
    )
    assert [("assistant_message", "t-ada"), ("turn_ended", "t-ada")] == rows(
        agent_url,
        "SELECT event::jsonb->'data'->>'kind', event::jsonb->'data'->>'turn_id' FROM agent.outbox"
        " WHERE event::jsonb->'data'->>'conversation_id' = 'c-ada' ORDER BY id",
    )


async def test_what_a_bunch_says_carries_the_clock_of_the_database(
    units: UnitOfWork, bunches: Bunches, agent_url: str
) -> None:
    """It is told with the conversation and goes on from there; the host's own clock may be wrong."""
    (ada,) = await begun(units, "ada")
    talk = replace(await bunches.load("c-ada"), clock=ClockReading(NOON, time.monotonic()))
    answer = says("Hi")
    assert await bunches.settle(ada, rules.settle(answer, ada, SHOP, CHAT), (answer, talk), alone=False)
    (told,) = rows(agent_url, "SELECT DISTINCT (event::jsonb->>'time')::timestamptz FROM agent.outbox")
    assert timedelta(0) <= told[0] - NOON < timedelta(seconds=PATIENCE_SECONDS)


async def test_conversation_is_loaded_with_the_clock_of_the_database(units: UnitOfWork, bunches: Bunches) -> None:
    """With the statement that is made anyway."""
    await begun(units, "ada")
    async with units.begin() as work:
        before = work.now
    read_at = (await bunches.load("c-ada")).clock.at
    async with units.begin() as work:
        assert before <= read_at <= work.now


async def test_turn_with_a_message_behind_it_does_not_end_in_a_bunch(
    units: UnitOfWork, bunches: Bunches, agent_url: str
) -> None:
    """Whoever waits is given a turn in a transaction; the neighbour is settled at once."""
    ada, bob = await begun(units, "ada", "bob")
    async with units.begin() as work:
        message = a_message("ada")
        await store.take_in(work, [Arriving(message, a_claim(message, "t-next"))], LEASE)
    assert [False, True] == await settle_all(bunches, (ada, says("Hi")), (bob, says("Ho")))
    assert [("t-ada", "thinking"), ("t-bob", "finished")] == rows(agent_url, TURNS)


async def test_calls_wait_for_nobody_unless_they_must_be_alone(
    units: UnitOfWork, bunches: Bunches, agent_url: str
) -> None:
    """A message behind the turn stops calls only where it would supersede them."""
    (ada,) = await begun(units, "ada")
    async with units.begin() as work:
        message = a_message("ada")
        await store.take_in(work, [Arriving(message, a_claim(message, "t-next"))], LEASE)
    assert not await settle(bunches, ada, says("", PAY), alone=True)
    assert await settle(bunches, ada, says("", PAY))
    assert [("t-ada", "waiting")] == rows(agent_url, TURNS)


async def test_lost_claim_leaves_nothing_beside_the_good_one(
    units: UnitOfWork, bunches: Bunches, agent_url: str
) -> None:
    """An old and a new claim of one turn in one bunch: only what the new one brought is stored and sent."""
    (old,) = await begun(units, "ada")
    new = replace(old, fence=2)
    rows(agent_url, "UPDATE agent.turns SET fence = 2")
    assert [False, True] == await settle_all(bunches, (old, says("Late", PAY)), (new, says("In time")))
    assert [("In time",)] == rows(agent_url, "SELECT raw->>'content' FROM agent.steps")
    assert [] == rows(agent_url, "SELECT call_id FROM agent.tool_calls")
    assert [(2,)] == rows(agent_url, "SELECT count(*) FROM agent.outbox")
    assert [("2",)] == rows(agent_url, "SELECT detail->>'fence' FROM agent.history")


async def test_conversation_that_somebody_holds_is_passed_over(
    units: UnitOfWork, bunches: Bunches, agent_url: str
) -> None:
    """A bunch waits for no lock: the neighbours of a conversation that is being written to are settled."""
    ada, bob = await begun(units, "ada", "bob")
    async with units.begin() as work:
        message = a_message("ada")
        await store.take_in(work, [Arriving(message, a_claim(message, "t-next"))], LEASE)
        assert [False, True] == await settle_all(bunches, (ada, says("Hi")), (bob, says("Ho")))
    assert [("t-ada", "thinking"), ("t-bob", "finished")] == rows(agent_url, TURNS)


async def test_step_that_cannot_be_stored_spoils_no_other(units: UnitOfWork, bunches: Bunches, agent_url: str) -> None:
    """The statement fails as a whole, so nothing of it is stored, and each step can be settled by itself."""
    ada, bob = await begun(units, "ada", "bob")
    rows(
        agent_url,
        "INSERT INTO agent.steps (turn_id, step, tenant, conversation_id, message_id, raw, model, input_tokens,"
        " output_tokens) VALUES ('t-bob', 1, 'acme', 'c-bob', 'm', '{}', '', 0, 0)",
    )
    assert [False, False] == await settle_all(bunches, (ada, says("Hi")), (bob, says("Ho")))
    assert [("t-ada", "thinking"), ("t-bob", "thinking")] == rows(agent_url, TURNS)
    assert await settle(bunches, ada, says("Hi"))


async def test_conversations_are_loaded_each_with_its_own(units: UnitOfWork, bunches: Bunches) -> None:
    """Loaded at the same moment, conversations do not mix; one that is not there is nobody else's error."""
    await begun(units, "ada", "bob")
    names = ("bob", "nobody", "ada", "bob")
    found = await asyncio.gather(*(bunches.load(f"c-{name}") for name in names), return_exceptions=True)
    texts = [type(talk) if isinstance(talk, BaseException) else talk.history.messages[0].text for talk in found]
    assert ["I am bob", LookupError, "I am ada", "I am bob"] == texts
