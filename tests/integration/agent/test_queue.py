"""One turn at a time: what people write meanwhile is never lost, and answered in its order."""

from __future__ import annotations

import asyncio
import json

from placet.contracts.messages import Author, CallsWithdrawn, ConversationEnded, ToolCallProposed
from tests.builders import a_posted_message, an_event
from tests.support.agents import Asked, Pause, ScriptedModel, an_agent, finished, refused, says

SEARCH = ("search", '{"text": "shoes"}')
PAY = ("pay", '{"amount": 299}')
BOB = Author(kind="person", id="bob")


def said(asked: Asked) -> list[str]:
    """Return what a model was shown, one word per message: the user's text, or who else speaks."""
    return [
        str(message["content"]) if message["role"] == "user" else str(message["role"])
        for message in asked.messages
        if message["role"] != "system"
    ]


async def test_messages_during_a_turn_become_the_next_one(agent_url: str) -> None:
    """Two messages that come while the model thinks are one turn with two user messages, once this one ends."""
    pause = Pause(says("First answer"))
    model = ScriptedModel([pause, says("Second answer")])
    async with an_agent(agent_url, model) as agent:
        await agent.post(a_posted_message(text="one", message_id="m1"))
        await pause.reached()
        await agent.post(a_posted_message(text="two", message_id="m2"))
        await agent.post(a_posted_message(text="three", message_id="m3"))
        assert [(2,)] == agent.rows("SELECT queued FROM agent.conversations")
        pause.release()
        await agent.ended(2)
    assert ["one", "assistant", "two", "three"] == said(model.asked[1])
    assert ["m1", "m3"] == [event.data["message_id"] for event in agent.items("turn", "started")]
    assert [(None, 0)] == agent.rows("SELECT turn_id, queued FROM agent.conversations")


async def test_next_turn_is_in_the_thread_of_its_own_message(agent_url: str) -> None:
    """What a queued message causes later goes back to that message, though another transaction picked it up."""
    pause = Pause(says("First"))
    second = an_event(a_posted_message(text="two"))
    async with an_agent(agent_url, ScriptedModel([pause, says("Second")])) as agent:
        await agent.post(a_posted_message(text="one"))
        await pause.reached()
        await agent.post_events(second)
        pause.release()
        await agent.ended(2)
    last = agent.seen[-1]
    assert (second.correlation_id, second.id) == (last.correlation_id, last.causation_id)


async def test_three_messages_in_one_envelope_are_two_turns(agent_url: str) -> None:
    """The first begins a turn, the others wait for it, all in one transaction."""
    model = ScriptedModel([says("First"), says("Second")])
    async with an_agent(agent_url, model) as agent:
        await agent.post(*(a_posted_message(text=text) for text in ("one", "two", "three")))
        await agent.ended(2)
    assert [["one"], ["one", "assistant", "two", "three"]] == [said(asked) for asked in model.asked]


async def test_message_while_calls_wait_is_answered_after_the_turn(agent_url: str) -> None:
    """By default a message waits for the calls: it stands behind the turn's answer."""
    model = ScriptedModel([says("", PAY), says("Paid"), says("And more")])
    async with an_agent(agent_url, model) as agent:
        await agent.post(a_posted_message(text="pay"))
        (pay,) = await agent.came(ToolCallProposed)
        await agent.post(a_posted_message(text="more"))
        await agent.post(finished(pay))
        await agent.ended(2)
    assert ["pay", "assistant", "tool"] == said(model.asked[1])
    assert ["pay", "assistant", "tool", "assistant", "more"] == said(model.asked[2])
    assert ["wait"] == [withdrawn.by_default for withdrawn in agent.of(CallsWithdrawn)]


async def test_message_joins_the_turn_where_a_rule_lets_it_supersede(agent_url: str) -> None:
    """The agent waits by default, and approval withdraws all the same: the model sees the call's end and the message.

    A second copy of the message asks for nothing more.
    """
    model = ScriptedModel([says("", PAY), says("As you wish")])
    async with an_agent(agent_url, model) as agent:
        await agent.post(a_posted_message(text="pay", message_id="m1"))
        (pay,) = await agent.came(ToolCallProposed)
        again = a_posted_message(text="no, wait", message_id="m2")
        await agent.post(again)
        await agent.post(again)
        (withdrawn,) = await agent.came(CallsWithdrawn)
        await agent.post(refused(pay, kind="superseded", reason=withdrawn.reason))
        await agent.ended()
    assert [("wait", [pay.call.call_id])] == [(each.by_default, each.call_ids) for each in agent.of(CallsWithdrawn)]
    assert ["pay", "assistant", "tool", "no, wait"] == said(model.asked[1])
    assert [(1, 0)] == agent.rows("SELECT count(*), (SELECT queued FROM agent.conversations) FROM agent.turns")


async def test_two_people_get_a_turn_each(agent_url: str) -> None:
    """A turn has one requester: a queued message of somebody else is a turn of its own."""
    pause = Pause(says("One"))
    model = ScriptedModel([pause, says("Two"), says("", PAY), says("Four")])
    async with an_agent(agent_url, model) as agent:
        await agent.post(a_posted_message(text="a1"))
        await pause.reached()
        await agent.post(a_posted_message(text="a2"), a_posted_message(text="b1", author=BOB))
        await agent.post(a_posted_message(text="a3"))
        pause.release()
        (pay,) = await agent.came(ToolCallProposed)
        assert [(1,)] == agent.rows("SELECT queued FROM agent.conversations")
        await agent.post(refused(pay))
        model.lines.append(says("Five"))
        await agent.ended(4)
    assert ["a1", "assistant", "a2", "assistant", "b1"] == said(model.asked[2])
    assert "bob" == pay.call.requester
    assert "a3" == said(model.asked[4])[-1]


async def test_failed_turn_hands_over_to_the_queue(agent_url: str) -> None:
    """A turn that fails ends like any other: who waits is answered."""
    pause = Pause(says("", ("rm", "{}")))
    model = ScriptedModel([pause, says("Hello")])
    async with an_agent(agent_url, model, agent_max_steps=1) as agent:
        await agent.post(a_posted_message(text="one"))
        await pause.reached()
        await agent.post(a_posted_message(text="two"))
        pause.release()
        ends = await agent.ended(2)
    assert ["failed", "finished"] == [end.data["state"] for end in ends]


async def test_superseded_calls_are_withdrawn_and_the_message_joins_the_turn(agent_url: str) -> None:
    """With `supersede` the open calls are withdrawn; once they have results, the model sees those and the message."""
    model = ScriptedModel([says("", SEARCH, PAY), says("As you wish")])
    async with an_agent(agent_url, model, agent_pending="supersede") as agent:
        await agent.post(a_posted_message(text="pay", message_id="m1"))
        search, pay = await agent.came(ToolCallProposed, 2)
        await agent.post(finished(search))
        again = an_event(a_posted_message(text="no, wait", message_id="m2"))
        await agent.post_events(again)
        (withdrawn,) = await agent.came(CallsWithdrawn)
        assert 1 == len(model.asked)
        await agent.post(refused(pay, kind="superseded", reason=withdrawn.reason))
        await agent.ended()
    assert ("superseded", [pay.call.call_id]) == (withdrawn.kind, withdrawn.call_ids)
    assert "supersede" == withdrawn.by_default
    assert ["pay", "assistant", "tool", "tool", "no, wait"] == said(model.asked[1])
    assert "superseded" == json.loads(model.asked[1].messages[-2]["content"])["result"]
    assert [(1, "m2", 0)] == agent.rows(
        "SELECT count(*) OVER (), message_id, (SELECT queued FROM agent.conversations) FROM agent.turns"
    )
    assert again.correlation_id == agent.seen[-1].correlation_id


async def test_message_while_the_model_thinks_supersedes_its_calls_unproposed(agent_url: str) -> None:
    """Calls that the model makes after the user wrote again bother nobody: the model is asked anew."""
    pause = Pause(says("", PAY))
    model = ScriptedModel([pause, says("As you wish")])
    async with an_agent(agent_url, model, agent_pending="supersede") as agent:
        await agent.post(a_posted_message(text="pay"))
        await pause.reached()
        await agent.post(a_posted_message(text="no, wait"))
        pause.release()
        await agent.ended()
    assert ["pay", "assistant", "tool", "no, wait"] == said(model.asked[1])
    assert ["superseded"] == [event.data["kind"] for event in agent.items("tool_call", "success", "error")]
    assert [] == agent.of(ToolCallProposed)
    assert [] == agent.of(CallsWithdrawn)


async def test_nobody_supersedes_the_calls_of_another_person(agent_url: str) -> None:
    """A message of somebody else waits: it neither withdraws calls nor joins the turn."""
    pause = Pause(says("", PAY))
    model = ScriptedModel([pause, says("Paid"), says("Hello Bob")])
    async with an_agent(agent_url, model, agent_pending="supersede") as agent:
        await agent.post(a_posted_message(text="pay"))
        await pause.reached()
        await agent.post(a_posted_message(text="b1", author=BOB))
        pause.release()
        (pay,) = await agent.came(ToolCallProposed)
        await agent.post(a_posted_message(text="b2", author=BOB))
        await agent.post(finished(pay))
        await agent.ended(2)
    assert [] == agent.of(CallsWithdrawn)
    assert ["pay", "assistant", "tool"] == said(model.asked[1])
    assert ["b1", "b2"] == said(model.asked[2])[-2:]


async def test_two_replicas_share_one_conversation(agent_url: str) -> None:
    """Messages that reach two replicas at once are all answered, one turn after the other."""
    model = ScriptedModel([says(f"Answer {number}") for number in range(12)])
    async with an_agent(agent_url, model) as here, an_agent(agent_url, model, beside=here) as there:
        posts = [replica.post(a_posted_message(text=str(n))) for n in range(6) for replica in (here, there)]
        await asyncio.gather(*posts)
        await here.until(lambda: [(None,)] == here.rows("SELECT turn_id FROM agent.conversations"))
    overlaps = """
        SELECT count(*) FROM agent.turns a JOIN agent.turns b ON a.turn_id < b.turn_id
        WHERE a.started_at < b.ended_at AND b.started_at < a.ended_at
    """
    assert [(0,)] == here.rows(overlaps)
    assert 12 == sum(word != "assistant" for word in said(model.asked[-1]))


async def test_the_end_of_a_conversation_withdraws_what_waits_and_proposes_no_more(agent_url: str) -> None:
    """Whoever asked: open calls are withdrawn as cancelled, and what the model calls afterwards is answered so."""
    model = ScriptedModel([says("", PAY), says("", PAY), says("It is over.")])
    async with an_agent(agent_url, model) as agent:
        first = a_posted_message(text="pay", message_id="m1")
        await agent.post(first)
        (pay,) = await agent.came(ToolCallProposed)
        place = {"tenant": first.tenant, "conversation_id": first.conversation_id}
        for _ in range(2):
            await agent.post(ConversationEnded(**place, by="person:ada"))
        (withdrawn,) = await agent.came(CallsWithdrawn)
        await agent.post(refused(pay, kind="cancelled", reason=withdrawn.reason))
        await agent.ended()
    assert ([pay.call.call_id], "cancelled") == (withdrawn.call_ids, withdrawn.kind)
    assert [pay] == agent.of(ToolCallProposed)
    assert [withdrawn] == agent.of(CallsWithdrawn)
    answered = [(each.data["kind"], each.data["error"]) for each in agent.items("tool_call", "success", "error")]
    assert [("cancelled", "Not run: the conversation was ended.")] * 2 == answered


async def test_who_writes_after_the_end_gets_no_answer(agent_url: str) -> None:
    """A frontend on RabbitMQ may not have heard of the end: no turn begins, nothing is kept, no letter is written."""
    model = ScriptedModel([says("Bye")])
    async with an_agent(agent_url, model) as agent:
        first = a_posted_message(message_id="m1")
        place = {"tenant": first.tenant, "conversation_id": first.conversation_id}
        await agent.post(first)
        await agent.ended()
        await agent.post(ConversationEnded(**place, by="person:ada"))
        # Another message, and the first one again.
        await agent.post(a_posted_message(message_id="m2"), first)
        assert [("m1",)] == agent.rows("SELECT message_id FROM agent.messages")
        assert [(1,)] == agent.rows("SELECT count(*) FROM agent.turns")
        assert [(None, 0)] == agent.rows("SELECT turn_id, queued FROM agent.conversations")
    assert 1 == len(model.asked)


async def test_an_end_that_meets_the_model_thinking_lets_no_call_through(agent_url: str) -> None:
    """The model was asked before the end and answers after it: its calls never leave the agent."""
    pause = Pause(says("", PAY))
    model = ScriptedModel([pause, says("It is over.")])
    async with an_agent(agent_url, model) as agent:
        first = a_posted_message(text="pay", message_id="m1")
        await agent.post(first)
        await pause.reached()
        place = {"tenant": first.tenant, "conversation_id": first.conversation_id}
        await agent.post(ConversationEnded(**place, by="person:ada"))
        pause.release()
        await agent.ended()
    assert [] == agent.of(ToolCallProposed)
    assert ["cancelled"] == [event.data["kind"] for event in agent.items("tool_call", "success", "error")]
