"""Agents of a file, with the real database: whose tools they have, and what ends when their budget does."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from placet.agent.budgets import REASONS
from placet.agent.rules import NO_AGENT
from placet.contracts.messages import CallsWithdrawn, ToolCallProposed
from tests.builders import a_posted_message
from tests.support.agents import ENDS, Pause, ScriptedModel, an_agent, finished, opened, rows, says

FILE = """\
version: 1
agents:
  default: {}
  finder: {instructions: You find things., tools: [search], labels: {desk: front, shop: all}}
  hasty: {pending: supersede}
  eager: {while_pending: continue}
  theirs: {tenants: [globex]}
  frugal: {budget: {tokens_per_conversation: 10}}
  daily: {budget: {tokens_per_day: 10}}
  dear:
    model: scripted/model
    price: {input_per_million: 100, output_per_million: 1000}
    budget: {cost_per_conversation: 0.006}
"""


@pytest.fixture
def agents_file(tmp_path: Path) -> Path:
    """The file of agents."""
    path = tmp_path / "agents.yaml"
    path.write_text(FILE)
    return path


def leave_default_alone(path: Path) -> None:
    """Take every other agent out of the file."""
    path.write_text("version: 1\nagents: {default: {}}\n")


def spent(limit: str) -> float:
    """Return how many turns a limit has ended in this process."""
    return REGISTRY.get_sample_value("placet_agent_budget_stops_total", {"limit": limit}) or 0.0


async def test_each_agent_has_its_own_words_and_tools(agent_url: str, agents_file: Path) -> None:
    """The model is told and offered what the conversation's agent has, also when a later message names another."""
    model = ScriptedModel([says("Hi"), says("Yes"), says("Hm")])
    async with an_agent(agent_url, model, agents=agents_file) as agent:
        await agent.post(a_posted_message(conversation_id="c1", agent="finder"))
        await agent.ended(1)
        await agent.post(a_posted_message(conversation_id="c1", agent="default"))
        await agent.ended(2)
        await agent.post(a_posted_message(conversation_id="c2", agent="default"))
        await agent.ended(3)
    assert [["search"], ["search"], ["search", "pay"]] == [
        [tool["function"]["name"] for tool in asked.tools] for asked in model.asked
    ]
    told = [asked.messages[0]["content"].startswith("You find things.\n\nSome calls") for asked in model.asked]
    assert [True, True, False] == told


async def test_a_tool_that_an_agent_is_not_given_is_never_proposed(agent_url: str, agents_file: Path) -> None:
    """A call of it is answered `invalid` at once, in words that name the agent's own tools alone."""
    model = ScriptedModel([says("", ("pay", '{"amount": 3}')), says("I cannot")])
    async with an_agent(agent_url, model, agents=agents_file) as agent:
        await agent.post(a_posted_message(agent="finder"))
        await agent.ended()
    assert [] == agent.of(ToolCallProposed)
    assert "there is no tool 'pay'; the tools are: search" in model.asked[1].messages[-1]["content"]


@pytest.mark.parametrize("name", ["nobody", "theirs"])
async def test_a_message_to_an_unknown_agent_is_a_dead_letter(agent_url: str, agents_file: Path, name: str) -> None:
    """Nothing is stored and no model asked, be the name nobody's or another tenant's; its neighbour goes on."""
    model = ScriptedModel([says("Hello")])
    async with an_agent(agent_url, model, agents=agents_file) as agent:
        wrong = a_posted_message(conversation_id="c1", agent=name)
        await agent.post(wrong, a_posted_message(conversation_id="c2"))
        await agent.ended()
    assert [f"poison: tenant acme has no agent {name}"] == agent.dead
    assert (1, [("c2",)]) == (len(model.asked), agent.rows("SELECT conversation_id FROM agent.conversations"))


async def test_a_conversation_whose_agent_is_gone_ends_its_turns_and_says_so(agent_url: str, agents_file: Path) -> None:
    """After a restart without the agent its waiting turn fails with a reason; nothing answers in its place."""
    async with an_agent(agent_url, ScriptedModel([says("", ("search", '{"text": "a"}'))]), agents=agents_file) as agent:
        await agent.post(a_posted_message(agent="finder"))
        (proposed,) = await agent.came(ToolCallProposed)
    leave_default_alone(agents_file)
    async with an_agent(agent_url, ScriptedModel([]), agents=agents_file) as agent:
        await agent.post(finished(proposed))
        (end,) = await agent.ended()
        await agent.post(a_posted_message(conversation_id=proposed.call.conversation_id))
    assert ("failed", NO_AGENT) == (end.data["state"], end.data["reason"])
    assert ["poison: tenant acme has no agent finder"] == agent.dead


async def test_labels_of_an_agent_stand_on_its_calls(agent_url: str, agents_file: Path) -> None:
    """Rules see them; what the caller says of the same name goes first."""
    model = ScriptedModel([says("", ("search", '{"text": "a"}'))])
    async with an_agent(agent_url, model, agents=agents_file) as agent:
        await agent.post(a_posted_message(agent="finder", labels={"shop": "one"}))
        (proposed,) = await agent.came(ToolCallProposed)
    assert {"desk": "front", "shop": "one"} == proposed.call.labels


@pytest.mark.parametrize(("name", "mode"), [("hasty", "supersede"), ("default", "wait")])
async def test_what_a_message_does_meanwhile_is_its_agents_affair(
    agent_url: str, agents_file: Path, name: str, mode: str
) -> None:
    """Of two agents in one process, each withdraws waiting calls as its own entry says."""
    model = ScriptedModel([says("", ("pay", '{"amount": 3}'))])
    async with an_agent(agent_url, model, agents=agents_file) as agent:
        await agent.post(a_posted_message(agent=name))
        await agent.came(ToolCallProposed)
        await agent.post(a_posted_message(agent=name))
        (withdrawn,) = await agent.came(CallsWithdrawn)
    assert mode == withdrawn.by_default


async def test_an_agent_goes_on_at_once_where_its_entry_says_so(agent_url: str, agents_file: Path) -> None:
    """An interim result for the eager agent, none for the default one."""
    model = ScriptedModel([says("", ("pay", '{"amount": 3}')), says("", ("pay", '{"amount": 3}')), says("Meanwhile")])
    async with an_agent(agent_url, model, agents=agents_file) as agent:
        await agent.post(a_posted_message(conversation_id="c1"))
        (first,) = await agent.came(ToolCallProposed)
        await agent.post(a_posted_message(conversation_id="c2", agent="eager"))
        _, second = await agent.came(ToolCallProposed, 2)
        await agent.post(opened(first))
        await agent.post(opened(second))
        (end,) = await agent.ended()
    assert ("c2", 3) == (end.conversation_id, len(model.asked))


async def test_a_used_up_conversation_ends_truthfully_and_another_goes_on(agent_url: str, agents_file: Path) -> None:
    """Two steps of eight tokens pass a limit of ten: the third is not asked; history and metric name the limit."""
    before = spent("conversation-tokens")
    model = ScriptedModel([says("One"), says("Two"), says("Other")])
    async with an_agent(agent_url, model, agents=agents_file) as agent:
        for number in range(1, 4):
            await agent.post(a_posted_message(conversation_id="c1", agent="frugal"))
            await agent.ended(number)
        await agent.post(a_posted_message(conversation_id="c2", agent="frugal"))
        ends = await agent.ended(4)
    assert ["finished", "finished", "failed", "finished"] == [end.data["state"] for end in ends]
    assert REASONS["conversation"] == ends[2].data["reason"]
    assert (3, 1.0) == (len(model.asked), spent("conversation-tokens") - before)
    history = "SELECT to_state, detail->>'limit' FROM agent.history WHERE event = 'budget_spent'"
    assert [("failed", "conversation-tokens")] == agent.rows(history)


async def test_a_budget_that_ends_between_calls_leaves_no_call_without_a_result(
    agent_url: str, agents_file: Path
) -> None:
    """What ran has its result; the model is not asked what it makes of it, and the next message says so too."""
    call = replace(says("", ("search", '{"text": "a"}')), input_tokens=30)
    async with an_agent(agent_url, ScriptedModel([call]), agents=agents_file) as agent:
        await agent.post(a_posted_message(agent="frugal"))
        (proposed,) = await agent.came(ToolCallProposed)
        await agent.post(finished(proposed))
        (end,) = await agent.ended()
    assert REASONS["conversation"] == end.data["reason"]
    assert [("succeeded",)] == agent.rows("SELECT result_kind FROM agent.tool_calls")
    assert [(None, 0)] == agent.rows("SELECT turn_id, queued FROM agent.conversations")


async def test_a_day_has_a_budget_for_an_agent_and_for_a_tenant(agent_url: str, agents_file: Path) -> None:
    """An agent's day ends for it alone, a tenant's for all its agents; the next day both go on."""
    model = ScriptedModel([says(str(number)) for number in range(9)])
    async with an_agent(agent_url, model, agents=agents_file, agent_budget_tokens_per_day=40) as agent:

        async def state_after(tenant: str, name: str) -> tuple[str, str]:
            number = len(agent.items("turn", *ENDS)) + 1
            await agent.post(a_posted_message(tenant=tenant, conversation_id=f"c{number}", agent=name))
            end = (await agent.ended(number))[-1].end
            return end["state"], end["reason"]

        done, stopped = ("finished", ""), ("failed", REASONS["agent"])
        assert [done, done, stopped] == [await state_after("acme", "daily") for _ in range(3)]
        assert [done, done] == [await state_after(tenant, "default") for tenant in ("acme", "globex")]
        assert done == await state_after("globex", "daily")
        assert done == await state_after("acme", "default")
        assert done == await state_after("acme", "default")
        assert ("failed", REASONS["tenant"]) == await state_after("acme", "default")
        rows(agent_url, "UPDATE agent.steps SET said_at = said_at - interval '1 day'")
        assert [done, done] == [await state_after("acme", name) for name in ("default", "daily")]


async def test_a_budget_of_money_counts_what_the_prices_say(agent_url: str, agents_file: Path) -> None:
    """Three read and five written tokens cost 0.0053: one step fits into 0.006, and so does none after the second."""
    model = ScriptedModel([says("One"), says("Two")])
    async with an_agent(agent_url, model, agents=agents_file) as agent:
        for number in range(1, 4):
            await agent.post(a_posted_message(conversation_id="c1", agent="dear"))
            await agent.ended(number)
    assert ["finished", "finished", "failed"] == [end.data["state"] for end in agent.items("turn", *ENDS)]


async def test_replicas_that_spend_one_budget_pass_it_by_the_steps_under_way_and_no_more(agent_url: str) -> None:
    """Two replicas with two slots each: four models are asked at once, then none; who was late reads why."""
    steps = [Pause(says(f"Step {number}")) for number in range(4)]
    # A fifth question would find no line, and fail in another way.
    models = [ScriptedModel(list(steps[:2])), ScriptedModel(list(steps[2:]))]
    budget: dict[str, Any] = {"agent_budget_tokens_per_day": 8, "agent_slots": 2}
    async with (
        an_agent(agent_url, models[0], **budget) as one,
        an_agent(agent_url, models[1], beside=one, **budget) as other,
    ):
        # Who finds no slot waits with the message in hand.
        posting = asyncio.gather(
            *(
                replica.post(a_posted_message(conversation_id=f"c{number}-{place}"))
                for number in range(4)
                for place, replica in enumerate((one, other))
            )
        )
        await asyncio.gather(*(step.reached() for step in steps))
        for step in steps:
            step.release()
        await posting
        ends = [end.end for end in await one.ended(8)]
        await other.post(a_posted_message(conversation_id="later"))
        late = (await one.ended(9))[-1].end
    told = sorted((end["state"], end["reason"]) for end in ends)
    assert [("failed", REASONS["tenant"])] * 4 + [("finished", "")] * 4 == told
    assert ("failed", REASONS["tenant"]) == (late["state"], late["reason"])
    # Eight tokens a step: the first one reaches the limit, which is passed by the three that were under way then.
    assert [(32,)] == rows(agent_url, "SELECT sum(input_tokens + output_tokens) FROM agent.steps")
    assert [2, 2] == [len(model.asked) for model in models]
