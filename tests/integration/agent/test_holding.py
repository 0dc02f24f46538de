"""Conversations that people hold: no model is asked, nothing is lost, the model reads what was said (mission A8)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from placet.agent.provider_messages import provider_messages
from placet.agent.transcript import OPERATOR_MARK
from placet.contracts.ids import new_id
from placet.contracts.messages import CallsWithdrawn, HolderChanged, MessagePosted, OperatorSpoke, ToolCallProposed
from tests.builders import a_posted_message
from tests.support.agents import Pause, ScriptedModel, an_agent, finished, says
from tests.support.openai_rules import openai_fault

PAY = ("pay", '{"amount": 299}')


def changed(revision: int, holder: Any = "operator") -> HolderChanged:
    """Return the word that somebody else answers now."""
    first = a_posted_message()
    event = {"agent": "released", "waiting": "escalated", "operator": "taken"}[holder]
    return HolderChanged.model_validate(
        {
            "tenant": first.tenant,
            "conversation_id": first.conversation_id,
            "holder": holder,
            "revision": revision,
            "event": event,
            "by": "person:ada",
        }
    )


def spoke(text: str, seen: int | None = None) -> OperatorSpoke:
    """Return what an operator said who had seen the log up to a number, or all of it."""
    first = a_posted_message()
    place = {"tenant": first.tenant, "conversation_id": first.conversation_id}
    return OperatorSpoke(**place, message_id=new_id(), text=text, operator="person:ada", seen=seen)


def shown(asked: Any) -> list[str]:
    """Return what a model was shown of people, each operator's word as `ada: …`."""
    return [_spoken(str(each["content"])) for each in asked.messages if each["role"] == "user"]


def _spoken(text: str) -> str:
    if not text.startswith(OPERATOR_MARK):
        return text
    said = json.loads(text.splitlines()[2])
    return f"{said['operator'].removeprefix('person:')}: {said['said']}"


def written(number: int, held: int = 0) -> MessagePosted:
    """Return a visitor's message."""
    return a_posted_message(text=f"text {number}", message_id=f"m{number}", held_revision=held)


async def test_what_an_operator_did_not_answer_is_answered_by_the_model(agent_url: str) -> None:
    """While they hold it no model is asked; afterwards it answers the rest, and has read what was said, in order."""
    model = ScriptedModel([says("First"), says("Last")])
    async with an_agent(agent_url, model) as agent:
        await agent.post(written(1))
        await agent.ended()
        await agent.post(changed(1))
        await agent.post(written(2))
        await agent.post(spoke("hello"))
        await agent.post(written(3))
        await agent.post(spoke("unseen", seen=0))
        assert (1, [(None, 1, True)]) == (
            len(model.asked),
            agent.rows("SELECT turn_id, queued, held FROM agent.conversations"),
        )
        await agent.post(changed(2, "agent"))
        await agent.ended(2)
    assert ["text 1", "text 2", "ada: hello", "ada: unseen", "text 3"] == shown(model.asked[1])
    sent = provider_messages(model.asked[1].messages, provider="openai", model="m")
    assert openai_fault({"model": "m", "messages": sent}) is None
    assert [(None, 0, False)] == agent.rows("SELECT turn_id, queued, held FROM agent.conversations")


async def test_nothing_left_begins_no_turn_and_is_read_with_the_next_message(agent_url: str) -> None:
    """A conversation that an operator has answered comes back quietly."""
    model = ScriptedModel([says("First"), says("Last")])
    async with an_agent(agent_url, model) as agent:
        await agent.post(written(1))
        await agent.ended()
        await agent.post(changed(1))
        await agent.post(written(2))
        await agent.post(spoke("done"))
        await agent.post(changed(2, "agent"))
        assert 1 == len(model.asked)
        await agent.post(written(3))
        await agent.ended(2)
    assert ["text 1", "text 2", "ada: done", "text 3"] == shown(model.asked[1])


async def test_a_running_turn_goes_on_to_its_end_and_hears_nothing_new(agent_url: str) -> None:
    """What comes while it runs waits for the operator, not for the turn's end."""
    pause = Pause(says("First"))
    model = ScriptedModel([pause, says("Second")])
    async with an_agent(agent_url, model) as agent:
        await agent.post(written(1))
        await pause.reached()
        await agent.post(written(2), changed(1))
        await agent.post(written(3, held=1))
        pause.release()
        await agent.ended()
        assert [(None, 2)] == agent.rows("SELECT turn_id, queued FROM agent.conversations")
        ((seen,),) = agent.rows("SELECT seq FROM agent.log WHERE data ->> 'message_id' = 'm2'")
        await agent.post(spoke("for both", seen))
        await agent.post(changed(2, "agent"))
        await agent.ended(2)
    assert ["text 1", "text 2", "ada: for both", "text 3"] == shown(model.asked[1])


async def test_a_message_that_overtakes_the_takeover_starts_no_model(agent_url: str) -> None:
    """The message itself says that people hold the conversation; the takeover that comes late has no effect."""
    model = ScriptedModel([says("First"), says("Second")])
    async with an_agent(agent_url, model) as agent:
        await agent.post(written(1))
        await agent.ended()
        await agent.post(written(2, held=1))
        await agent.post(changed(1))
        assert 1 == len(model.asked)
        await agent.post(changed(2, "agent"))
        await agent.ended(2)
        await agent.post(changed(1))
        assert [(False, 2)] == agent.rows("SELECT held, holder_revision FROM agent.conversations")


async def test_a_waiting_call_is_decided_while_an_operator_answers(agent_url: str) -> None:
    """The turn goes on with its result; no message withdraws it meanwhile, and those wait until the release."""
    model = ScriptedModel([says("", PAY), says("Paid"), says("Last")])
    async with an_agent(agent_url, model) as agent:
        await agent.post(written(1))
        (call,) = await agent.came(ToolCallProposed)
        await agent.post(changed(1))
        await agent.post(written(2))
        assert [] == agent.of(CallsWithdrawn)
        await agent.post(finished(call))
        await agent.ended()
        assert (2, [(None, 1)]) == (
            len(model.asked),
            agent.rows("SELECT turn_id, queued FROM agent.conversations"),
        )
        await agent.post(changed(2, "agent"))
        await agent.ended(2)
    assert ["text 1", "text 2"] == shown(model.asked[2])


async def test_messages_that_meet_a_release_are_each_answered_once(agent_url: str) -> None:
    """Whatever comes first: afterwards nothing waits, and the model has read every message exactly once."""
    model = ScriptedModel([says(f"Answer {number}") for number in range(12)])
    async with an_agent(agent_url, model) as agent:
        await agent.post(written(1))
        await agent.ended()
        await agent.post(changed(1))
        posts = [agent.post(written(number, held=number % 2)) for number in range(2, 8)]
        await asyncio.gather(*posts[:3], agent.post(changed(2, "agent")), *posts[3:])
        await agent.until(lambda: not agent.rows("SELECT 1 FROM agent.messages WHERE turn_id IS NULL"))
        await agent.until(lambda: not agent.rows("SELECT 1 FROM agent.conversations WHERE turn_id IS NOT NULL"))
    assert sorted(f"text {number}" for number in range(1, 8)) == sorted(shown(model.asked[-1]))
