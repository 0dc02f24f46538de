"""Messages and results that arrive together: taken with one statement, in their order, and none spoils another's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from placet.agent.rules import Behaviour
from placet.contracts.messages import Message, MessagePosted, ToolCallProposed
from tests.builders import a_posted_message, an_event
from tests.support.agents import (
    Agent,
    ScriptedModel,
    an_agent,
    finished,
    refused,
    says,
)

LEASE = timedelta(seconds=30)
CHAT = Behaviour(instructions="", steps_max=10, final_answer=False)
PAY = ("pay", '{"amount": 299}')
#: A model that wants to pay in two conversations, and then says that it did.
PAY_TWICE = [says("", PAY), says("", PAY), says("Paid"), says("Paid")]


def a_message(name: str, text: str = "pay", **changes: str) -> MessagePosted:
    """Return a message to the conversation `c-<name>`."""
    return a_posted_message(conversation_id=f"c-{name}", text=text, **changes)


async def proposed(agent: Agent, *names: str) -> dict[str, ToolCallProposed]:
    """Have a call proposed in a conversation of each name; return them by name."""
    await agent.post(*map(a_message, names))
    calls = await agent.came(ToolCallProposed, len(names))
    return {call.call.conversation_id.removeprefix("c-"): call for call in calls}


def texts(agent: Agent, name: str) -> list[str]:
    """Return what was said to the agent in a conversation, in its order."""
    found = agent.rows("SELECT conversation_id, text FROM agent.messages ORDER BY number")
    return [text for conversation_id, text in found if conversation_id == f"c-{name}"]


async def test_messages_of_one_envelope_begin_a_turn_each(agent_url: str) -> None:
    """One transaction stores them all, and each turn is in the thread of its own message."""
    events = {f"c-{name}": an_event(a_message(name)) for name in ("ada", "bob", "eve")}
    async with an_agent(agent_url, ScriptedModel([says("Hi")] * 3)) as agent:
        await agent.post_events(*events.values())
        await agent.ended(3)
        assert [(1,)] == agent.rows("SELECT count(DISTINCT xmin::text) FROM agent.messages")
        started = {each.message.conversation_id: each.causation_id for each in agent.seen}  # type: ignore[attr-defined]
    assert {name: event.id for name, event in events.items()} == started


async def test_messages_of_one_conversation_keep_their_order_among_others(agent_url: str) -> None:
    """The first of each conversation begins its turn, the second waits for the end of it."""
    messages = [a_message(name, f"{name} {number}") for number in (1, 2) for name in ("ada", "bob")]
    async with an_agent(agent_url, ScriptedModel([says("Hi")] * 4)) as agent:
        await agent.post(*messages)
        await agent.ended(4)
        assert [["ada 1", "ada 2"], ["bob 1", "bob 2"]] == [texts(agent, name) for name in ("ada", "bob")]
        started = [event.data["message_id"] for event in agent.items("turn", "started")]
    assert [messages[0].message_id, messages[1].message_id] == started[:2]
    assert {messages[2].message_id, messages[3].message_id} == set(started[2:])


async def test_message_that_comes_twice_in_an_envelope_has_one_effect(agent_url: str) -> None:
    """Whether its conversation idles or has a turn, what comes behind it is taken as if it had come once."""
    once, again, behind = a_message("ada", "one"), a_message("bob", "one"), a_message("bob", "two")
    async with an_agent(agent_url, ScriptedModel([says("Hi")] * 3)) as agent:
        await agent.post(again)
        await agent.ended()
        await agent.post(once, once, again, behind)
        await agent.ended(3)
        assert [["one"], ["one", "two"]] == [texts(agent, name) for name in ("ada", "bob")]
        assert [(None, 0)] * 2 == agent.rows("SELECT turn_id, queued FROM agent.conversations")
    assert [] == agent.dead


async def test_message_of_another_tenant_spoils_no_other_of_its_envelope(agent_url: str) -> None:
    """It is buried alone; its neighbours on both sides, of its conversation too, begin one turn each."""
    mine, foreign, other = a_message("ada"), a_message("ada", tenant="rival"), a_message("bob")
    async with an_agent(agent_url, ScriptedModel([says("Hi")] * 2)) as agent:
        await agent.post(mine, foreign, other)
        await agent.ended(2)
    assert ["poison: conversation c-ada belongs to another tenant than rival"] == agent.dead
    started = {event.data["message_id"] for event in agent.items("turn", "started")}
    assert {mine.message_id, other.message_id} == started


async def test_second_delivery_of_some_messages_takes_the_others_only(agent_url: str) -> None:
    """Events that were handled before are passed over; the new one that came with them begins its turn."""
    events = [an_event(a_message(name)) for name in ("ada", "bob", "eve")]
    async with an_agent(agent_url, ScriptedModel([says("Hi")] * 3)) as agent:
        await agent.post_events(*events[:2])
        await agent.post_events(*events)
        await agent.ended(3)
        assert [(3, 3)] == agent.rows("SELECT count(*), count(DISTINCT conversation_id) FROM agent.turns")
    assert 3 == len(agent.items("turn", "started"))


@pytest.mark.parametrize("answer", [finished, refused])
async def test_results_of_one_envelope_go_on_with_each_turn(
    agent_url: str, answer: Callable[[ToolCallProposed], Message]
) -> None:
    """Each conversation's model is asked again once, in the thread of its own result."""
    async with an_agent(agent_url, ScriptedModel([*PAY_TWICE])) as agent:
        calls = await proposed(agent, "ada", "bob")
        events = {name: an_event(answer(call)) for name, call in calls.items()}
        await agent.post_events(*events.values())
        await agent.ended(2)
        words = [each for each in agent.seen if each.causation_id in {event.id for event in events.values()}]
    ended = {(each.message.conversation_id, each.causation_id) for each in words}  # type: ignore[attr-defined]
    assert {(f"c-{name}", event.id) for name, event in events.items()} == ended


async def test_bad_result_spoils_no_other_of_its_envelope(agent_url: str) -> None:
    """A result for a call that nobody proposed is buried alone; its neighbours on both sides count."""
    async with an_agent(agent_url, ScriptedModel([*PAY_TWICE])) as agent:
        calls = await proposed(agent, "ada", "bob")
        stray = finished(calls["ada"], call_id="nobody-knows")
        await agent.post(finished(calls["ada"]), stray, finished(calls["bob"]))
        await agent.ended(2)
        assert [(2,)] == agent.rows("SELECT count(*) FROM agent.history WHERE event = 'result_came'")
    assert ["poison: call nobody-knows was never proposed in conversation c-ada"] == agent.dead


async def test_first_of_two_results_in_an_envelope_stands(agent_url: str) -> None:
    """The second one changes nothing and stays in the history; the neighbour's turn goes on."""
    async with an_agent(agent_url, ScriptedModel([*PAY_TWICE])) as agent:
        calls = await proposed(agent, "ada", "bob")
        twice = [finished(calls["ada"]), finished(calls["ada"], kind="failed", error="no")]
        await agent.post(*twice, finished(calls["bob"]))
        await agent.ended(2)
        kinds = agent.rows("SELECT result_kind FROM agent.tool_calls")
        came = agent.rows(
            "SELECT from_state, detail->>'kind', subject_id FROM agent.history WHERE event = 'result_came'"
        )
        moves = [(*move,) for *move, call_id in came if call_id == calls["ada"].call.call_id]
    assert [("succeeded",)] * 2 == kinds
    assert [("answered", "failed"), ("open", "succeeded")] == sorted(moves)
    assert [] == agent.dead
