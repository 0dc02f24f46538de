"""Leases and fences: a worker that dies holds nobody up, and one that comes back too late changes nothing."""

from __future__ import annotations

from placet.agent.model_answer import ModelAnswer
from placet.agent.rules import NO_MODEL, TAKEOVERS_MAX
from placet.agent.store import give_back_all
from placet.contracts.messages import ToolCallProposed
from placet.runtime.database import Database
from tests.builders import a_posted_message
from tests.support.agents import Pause, ScriptedModel, an_agent, finished, lose_leases, rows, says

SEARCH = ("search", '{"text": "shoes"}')


async def test_turn_of_a_dead_worker_is_taken_over_by_another_replica(agent_url: str) -> None:
    """When the lease runs out another replica asks again, and the late answer of the first one is refused."""
    pause = Pause(says("Too late", SEARCH))
    async with an_agent(agent_url, ScriptedModel([pause]), agent_sweep_seconds=3600, drain_seconds=20) as first:
        await first.post(a_posted_message())
        await pause.reached()
        lose_leases(agent_url)
        async with an_agent(agent_url, ScriptedModel([says("In time")]), beside=first) as second:
            await second.ended()
        pause.release()
    assert ["In time"] == [event.data["text"] for event in first.items("message", "assistant")]
    assert [] == first.of(ToolCallProposed)
    assert [("finished", 2)] == rows(agent_url, "SELECT state, fence FROM agent.turns")
    assert [("finished", "calls_proposed")] == rows(
        agent_url, "SELECT to_state, detail->>'refused' FROM agent.history WHERE event = 'late_settle'"
    )
    assert [("taken_over",)] == rows(agent_url, "SELECT event FROM agent.history WHERE event = 'taken_over'")


async def test_worker_that_is_stopped_gives_its_turn_back(agent_url: str) -> None:
    """A stop that cannot wait for the model lets another replica take the turn over at once."""
    pause = Pause(says("Never said"))
    async with an_agent(agent_url, ScriptedModel([pause]), agent_lease_seconds=3600) as first:
        await first.post(a_posted_message())
        await pause.reached()
    async with an_agent(agent_url, ScriptedModel([says("After the restart")])) as second:
        await second.ended()
    assert ["After the restart"] == [event.data["text"] for event in second.items("message", "assistant")]


async def test_leases_that_nobody_can_hold_end_at_once(agent_url: str) -> None:
    """Who knows that every worker is gone need not wait for their leases: each turn is taken over."""
    pause = Pause(says("Never said"))
    async with an_agent(agent_url, ScriptedModel([pause]), agent_sweep_seconds=3600, drain_seconds=20) as first:
        await first.post(a_posted_message())
        await pause.reached()
        database = Database(agent_url, service="agent", pool_size=1)
        async with database.single() as connection:
            await give_back_all(connection)
        await database.close()
        async with an_agent(agent_url, ScriptedModel([says("After the crash")]), beside=first) as second:
            await second.ended()
        pause.release()
    assert ["After the crash"] == [event.data["text"] for event in first.items("message", "assistant")]


async def test_restart_while_calls_wait_loses_nothing(agent_url: str) -> None:
    """Waiting is a row: after a restart the results find their turn."""
    async with an_agent(agent_url, ScriptedModel([says("", SEARCH)])) as first:
        await first.post(a_posted_message())
        (search,) = await first.came(ToolCallProposed)
    async with an_agent(agent_url, ScriptedModel([says("Found")])) as second:
        await second.post(finished(search))
        await second.ended()
    assert ["Found"] == [event.data["text"] for event in second.items("message", "assistant")]


async def test_turn_that_kills_its_workers_is_given_up(agent_url: str) -> None:
    """After some takeovers the turn fails with a neutral sentence, and who waits behind it is answered."""
    pause = Pause(says("Never settled"))
    model = ScriptedModel([pause])
    async with an_agent(agent_url, model, agent_sweep_seconds=3600) as first:
        await first.post(a_posted_message(text="poison"))
        await pause.reached()
        await first.post(a_posted_message(text="fine"))
        rows(agent_url, "UPDATE agent.turns SET takeovers = %s", TAKEOVERS_MAX)
        lose_leases(agent_url)
        async with an_agent(agent_url, ScriptedModel([says("Hello")]), beside=first) as second:
            ends = await second.ended(2)
    assert [("failed", NO_MODEL), ("finished", "")] == [(end.data["state"], end.data["reason"]) for end in ends]


async def test_answer_survives_the_loss_of_every_connection(agent_url: str) -> None:
    """A database that restarts while the model answers costs a moment, not the answer."""

    async def lose_connections() -> ModelAnswer:
        rows(
            agent_url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'placet-agent'",
        )
        return says("Still here")

    model = ScriptedModel([lose_connections])
    async with an_agent(agent_url, model) as agent:
        await agent.post(a_posted_message())
        await agent.ended()
    assert ["Still here"] == [event.data["text"] for event in agent.items("message", "assistant")]
    assert [(1,)] == rows(agent_url, "SELECT fence FROM agent.turns")
    assert 1 == len(model.asked)


async def test_two_sweepers_take_a_turn_over_once(agent_url: str) -> None:
    """Any number of replicas look for lost leases; each is taken by one of them."""
    pause = Pause(says("Too late"))
    model = ScriptedModel([pause, says("In time")])
    async with an_agent(agent_url, model, agent_sweep_seconds=3600) as first:
        await first.post(a_posted_message())
        await pause.reached()
        async with (
            an_agent(agent_url, model, beside=first) as second,
            an_agent(agent_url, model, beside=first),
        ):
            lose_leases(agent_url)
            await second.ended()
    assert [(2,)] == rows(agent_url, "SELECT fence FROM agent.turns")
    assert 2 == len(model.asked)
