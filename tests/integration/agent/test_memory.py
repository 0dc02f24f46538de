"""What the agent remembers of conversations: the same as it would read, and never stronger than what is stored."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from placet.agent import store
from placet.agent.conversation import Conversation
from placet.agent.memory import Memory
from placet.agent.store import Wanted
from placet.contracts.messages import ApprovalClosed, ToolCallProposed
from tests.builders import NOON, a_posted_message
from tests.support.agents import Agent, ScriptedModel, an_agent, finished, opened, says

PAY = ("pay", '{"amount": 299}')


def read(url: str, wanted: Wanted) -> dict[str, Conversation]:
    """Return conversations as the agent would read them now."""
    given: dict[str, Any] = {name: [] for name in store._NOTHING}
    given |= {"conversation_ids": sorted(wanted.conversation_ids), "call_ids": sorted(wanted.call_ids)}
    with psycopg.connect(url) as connection:
        rows = psycopg.RawCursor(connection).execute(store._READ.text, store._READ.values(given)).fetchall()
    return {name: store.conversation_of(name, state) for name, state in rows}


def comparable(found: dict[str, Conversation]) -> dict[str, Conversation]:
    """Return them without the leases, which say nothing of what is wrong; nobody takes a turn over by its memory."""
    for each in found.values():
        each.turns = {name: replace(turn, lost=False) for name, turn in each.turns.items()}
    return found


def closed(call: ToolCallProposed, revision: int = 1) -> ApprovalClosed:
    """Return approval's word that people said yes."""
    card = opened(call)
    return ApprovalClosed(
        tenant="acme",
        approval_id=card.approval_id,
        revision=revision,
        conversation_id=call.call.conversation_id,
        call_id=call.call.call_id,
        state="approved",
        decided_by="person:ada",
        closed_at=NOON,
    )


async def two_calls(first: Agent, second: Agent) -> None:
    """Have two calls in one turn held, approved and run, news of them to one agent and to the other in turn."""
    await first.post(a_posted_message(conversation_id="c-1", text="pay twice"))
    for number in (1, 2):
        call = (await first.came(ToolCallProposed, number))[-1]
        await second.post(opened(call))
        await first.post(closed(call))
        await second.post(finished(call))
    await first.ended()


async def test_what_is_remembered_is_what_would_be_read(agent_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each hop of a call, all of the conversation that the next one needs; so only its message is read."""
    compared: list[tuple[dict[str, Conversation], dict[str, Conversation]]] = []
    recall = Memory.recall

    def compare(memory: Memory, wanted: Wanted) -> dict[str, Conversation] | None:
        found = recall(memory, wanted)
        if found is not None:
            compared.append((comparable(deepcopy(found)), comparable(read(agent_url, wanted))))
        return found

    monkeypatch.setattr(Memory, "recall", compare)
    async with an_agent(agent_url, ScriptedModel([says("", PAY), says("", PAY), says("Done")])) as agent:
        await two_calls(agent, agent)
    assert 6 == len(compared)
    assert [each for _, each in compared] == [each for each, _ in compared]


async def test_news_that_come_to_two_processes_in_turn_are_all_told(agent_url: str) -> None:
    """Each remembers what the other one has changed since, finds that out, and writes by what is stored."""
    model = ScriptedModel([says("", PAY), says("", PAY), says("Done")])
    async with an_agent(agent_url, model) as one, an_agent(agent_url, model, beside=one) as other:
        await two_calls(one, other)
        dead = one.dead + other.dead
        told = [(each.type, each.what) for each in one.log("c-1")]
    async with an_agent(agent_url, ScriptedModel([says("", PAY), says("", PAY), says("Done")])) as alone:
        await alone.post(a_posted_message(conversation_id="c-2", text="pay twice"))
        for number in (1, 2):
            call = (await alone.came(ToolCallProposed, number))[-1]
            await alone.post(opened(call))
            await alone.post(closed(call))
            await alone.post(finished(call))
        await alone.ended()
        expected = [(each.type, each.what) for each in alone.log("c-2")]
    assert (expected, []) == (told, dead)


async def test_only_conversations_with_more_to_come_are_remembered(agent_url: str) -> None:
    """One whose turn is over costs no memory, and of the others the oldest is forgotten where there are too many."""
    memory = Memory()
    async with an_agent(agent_url, ScriptedModel([says("", PAY)])) as agent:
        await agent.post(a_posted_message(conversation_id="c-1"))
        (call,) = await agent.came(ToolCallProposed)
    wanted = Wanted(conversation_ids={"c-1"}, call_ids={call.call.call_id})
    found = read(agent_url, wanted)["c-1"]
    memory.keep([found])
    remembered = memory.recall(wanted)
    memory.keep([replace(found, version=found.version + 1, turn_id=None)])
    assert remembered is not None
    assert found.version + 1 == remembered["c-1"].version
    assert memory.recall(wanted) is None
    memory.keep([found])
    memory.forget(["c-1"])
    assert memory.recall(wanted) is None
