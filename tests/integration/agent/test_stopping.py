"""A turn that a person stops: it ends at once, and nothing is claimed of its calls that is not true."""

from __future__ import annotations

import json

from placet.agent.provider_messages import provider_messages
from placet.agent.transcript import OUTCOME_MARK, STOPPED_HEAD
from placet.contracts.messages import CallsWithdrawn, MessagePosted, StopTurn, ToolCallProposed
from tests.builders import a_posted_message
from tests.support.agents import (
    ENDS,
    Agent,
    Pause,
    ScriptedModel,
    an_agent,
    finished,
    lose_leases,
    opened,
    refused,
    says,
)
from tests.support.openai_rules import openai_fault

PAY = ("pay", '{"amount": 299}')
SEARCH = ("search", '{"text": "shoes"}')
STOPPED_BY_ADA = {"state": "stopped", "reason": "Stopped by person:ada."}


def stop_of(agent: Agent, posted: MessagePosted, turn: int = 0) -> StopTurn:
    """Return ada's word to stop a turn that began."""
    turn_id = agent.items("turn", "started")[turn].data["turn_id"]
    return StopTurn(tenant=posted.tenant, conversation_id=posted.conversation_id, turn_id=turn_id, by="person:ada")


async def test_a_model_that_is_stopped_is_not_waited_for(agent_url: str) -> None:
    """The turn ends while the model still thinks; what it says is never told, and the next message is answered."""
    pause = Pause(says("Never told", PAY))
    model = ScriptedModel([pause, says("Hello again")])
    async with an_agent(agent_url, model) as agent:
        first = a_posted_message(text="one")
        await agent.post(first)
        await pause.reached()
        await agent.post(stop_of(agent, first))
        (end,) = await agent.ended()
        pause.release()
        await agent.post(a_posted_message(text="two"))
        await agent.ended(2)
    assert STOPPED_BY_ADA == end.end
    assert ["Hello again"] == [event.data["text"] for event in agent.items("message", "assistant")]
    assert [] == agent.of(ToolCallProposed) + agent.of(CallsWithdrawn)
    roles = [message["role"] for message in model.asked[1].messages if message["role"] != "system"]
    assert ["user", "user", "user"] == roles
    assert STOPPED_HEAD in model.asked[1].messages[-2]["content"]


async def test_another_replica_gives_a_stopped_turn_up_too(agent_url: str) -> None:
    """The stop reaches a replica that does not ask the model: the one that does settles nothing any more."""
    pause = Pause(says("Never told"))
    model = ScriptedModel([pause, says("Hello again")])
    async with an_agent(agent_url, model) as here, an_agent(agent_url, model, beside=here) as there:
        first = a_posted_message(text="one")
        await here.post(first)
        await pause.reached()
        await there.post(stop_of(there, first))
        pause.release()
        await here.post(a_posted_message(text="two"))
        await here.ended(2)
    assert ["stopped", "finished"] == [end.data["state"] for end in here.items("turn", *ENDS)]
    assert ["Hello again"] == [event.data["text"] for event in here.items("message", "assistant")]


async def test_calls_that_wait_are_withdrawn_and_those_that_run_are_told_of_later(agent_url: str) -> None:
    """Their results begin no turn; the next message's model reads of both, and each call has its one result."""
    model = ScriptedModel([says("I pay.", SEARCH, PAY), says("As you wish")])
    async with an_agent(agent_url, model) as agent:
        first = a_posted_message(text="pay")
        await agent.post(first)
        search, pay = await agent.came(ToolCallProposed, 2)
        await agent.post(opened(pay))
        await agent.post(stop_of(agent, first))
        (withdrawn,) = await agent.came(CallsWithdrawn)
        await agent.post(refused(pay, kind="cancelled", reason=withdrawn.reason, decided_by=""))
        await agent.post(finished(search))
        assert 1 == len(model.asked)
        await agent.post(a_posted_message(text="go on"))
        await agent.ended(2)
    assert ("cancelled", "Not run: person:ada stopped the turn.") == (withdrawn.kind, withdrawn.reason)
    assert {search.call.call_id, pay.call.call_id} == set(withdrawn.call_ids)
    asked = model.asked[1]
    sent = provider_messages(asked.messages, provider="openai", model="m")
    assert openai_fault({"model": "m", "messages": sent, "tools": asked.tools}) is None
    told = [message for message in model.asked[1].messages if message["role"] != "system"]
    assert ["user", "assistant", "tool", "tool", "user", "user", "user", "user"] == [each["role"] for each in told]
    assert ["stopped", "stopped"] == [json.loads(each["content"])["result"] for each in told[2:4]]
    assert STOPPED_HEAD in told[4]["content"]
    late = [each["content"] for each in told[5:7]]
    assert [True, True] == [text.startswith(OUTCOME_MARK) for text in late]
    assert [True, True] == ['"result": "cancelled"' in late[0], '"result": "succeeded"' in late[1]]
    assert "go on" == told[7]["content"]
    assert [("answered",)] == agent.rows("SELECT DISTINCT state FROM agent.tool_calls")


async def test_a_result_after_the_next_turn_is_read_with_the_message_after_it(agent_url: str) -> None:
    """What the model has read once stays as it was: the outcome stands behind it."""
    model = ScriptedModel([says("", PAY), says("Two"), says("Three")])
    async with an_agent(agent_url, model) as agent:
        first = a_posted_message(text="one")
        await agent.post(first)
        (pay,) = await agent.came(ToolCallProposed)
        await agent.post(stop_of(agent, first))
        await agent.post(a_posted_message(text="two"))
        await agent.ended(2)
        await agent.post(finished(pay))
        await agent.post(finished(pay))
        await agent.post(a_posted_message(text="three"))
        await agent.ended(3)
    read = len(model.asked[1].messages)
    assert model.asked[1].messages == model.asked[2].messages[:read]
    assert 3 == len(model.asked[2].messages) - read
    assert [] == agent.dead


async def test_a_stop_comes_twice_late_and_for_a_turn_that_is_over(agent_url: str) -> None:
    """Only the turn that it names is stopped, and only once; each that came too late is in the history."""
    pause = Pause(says("Two"))
    model = ScriptedModel([says("", PAY), pause])
    async with an_agent(agent_url, model) as agent:
        first = a_posted_message(text="one")
        await agent.post(first)
        await agent.came(ToolCallProposed)
        stop = stop_of(agent, first)
        await agent.post(stop)
        await agent.post(a_posted_message(text="two"))
        await pause.reached()
        await agent.post(stop)
        pause.release()
        await agent.ended(2)
        await agent.post(stop_of(agent, first, turn=1))
    assert ["stopped", "finished"] == [end.data["state"] for end in agent.items("turn", *ENDS)]
    assert 1 == len(agent.of(CallsWithdrawn))
    late = "SELECT from_state, to_state FROM agent.history WHERE event = 'late_stop' ORDER BY id"
    assert [("stopped", "stopped"), ("finished", "finished")] == agent.rows(late)


async def test_a_message_that_waited_is_answered_when_the_turn_is_stopped(agent_url: str) -> None:
    """The conversation goes on with what was written meanwhile."""
    pause = Pause(says("Never told"))
    async with an_agent(agent_url, ScriptedModel([pause, says("Two")])) as agent:
        first = a_posted_message(text="one")
        await agent.post(first)
        await pause.reached()
        await agent.post(a_posted_message(text="two", message_id="m2"))
        await agent.post(stop_of(agent, first))
        await agent.ended(2)
    assert ["stopped", "finished"] == [end.data["state"] for end in agent.items("turn", *ENDS)]
    assert [(None, 0)] == agent.rows("SELECT turn_id, queued FROM agent.conversations")


async def test_a_stop_for_the_turn_of_another_tenant_is_a_dead_letter(agent_url: str) -> None:
    """The turn of one tenant is not another's to stop."""
    pause = Pause(says("Here"))
    async with an_agent(agent_url, ScriptedModel([pause])) as agent:
        first = a_posted_message(text="one")
        await agent.post(first)
        await pause.reached()
        await agent.post(stop_of(agent, first).model_copy(update={"tenant": "other"}))
        pause.release()
        await agent.ended()
    assert ["finished"] == [end.data["state"] for end in agent.items("turn", *ENDS)]
    assert 1 == len(agent.dead)


async def test_a_stopped_turn_is_never_taken_over(agent_url: str) -> None:
    """It has no lease that could run out."""
    pause = Pause(says("Never told"))
    async with an_agent(agent_url, ScriptedModel([pause])) as agent:
        first = a_posted_message(text="one")
        await agent.post(first)
        await pause.reached()
        await agent.post(stop_of(agent, first))
        await agent.ended()
        lose_leases(agent.url)
    assert [("stopped", None, 2)] == agent.rows("SELECT state, lease_until, fence FROM agent.turns")


async def test_a_denial_may_end_the_turn_and_the_model_reads_why_once(agent_url: str) -> None:
    """The turn is over with it, what else waits is withdrawn, and no model is asked before the next message."""
    model = ScriptedModel([says("I pay twice.", PAY, PAY), says("As you wish")])
    async with an_agent(agent_url, model) as agent:
        await agent.post(a_posted_message(text="pay"))
        one, two = await agent.came(ToolCallProposed, 2)
        await agent.post(opened(one), opened(two))
        await agent.post(refused(one, ends_turn=True, reason="Denied: an injection."))
        (end,) = await agent.ended()
        (withdrawn,) = await agent.came(CallsWithdrawn)
        await agent.post(refused(two, kind="cancelled", reason=withdrawn.reason, decided_by=""))
        assert 1 == len(model.asked)
        await agent.post(a_posted_message(text="go on"))
        await agent.ended(2)
    assert (STOPPED_BY_ADA, [two.call.call_id]) == (end.end, withdrawn.call_ids)
    read = json.dumps([message["content"] for message in model.asked[1].messages])
    assert 1 == read.count("an injection")


async def test_a_denial_ends_the_turn_that_went_on_without_it(agent_url: str) -> None:
    """What the model says by then is thrown away, and the denial is read with the next message."""
    pause = Pause(says("Never told"))
    model = ScriptedModel([says("I pay.", PAY), pause, says("As you wish")])
    async with an_agent(agent_url, model, agent_while_pending="continue") as agent:
        await agent.post(a_posted_message(text="pay"))
        (pay,) = await agent.came(ToolCallProposed)
        await agent.post(opened(pay))
        await pause.reached()
        await agent.post(refused(pay, ends_turn=True, reason="Denied: an injection."))
        (end,) = await agent.ended()
        pause.release()
        await agent.post(a_posted_message(text="go on"))
        await agent.ended(2)
    assert STOPPED_BY_ADA == end.end
    assert ["As you wish"] == [each.data["text"] for each in agent.items("message", "assistant")][-1:]
    assert "an injection" in json.dumps([message["content"] for message in model.asked[2].messages])


async def test_a_denial_that_ends_a_turn_leaves_a_later_one_alone(agent_url: str) -> None:
    """Only the turn of its own call ends with it."""
    pause = Pause(says("Two"))
    model = ScriptedModel([says("", PAY), pause])
    async with an_agent(agent_url, model) as agent:
        first = a_posted_message(text="one")
        await agent.post(first)
        (pay,) = await agent.came(ToolCallProposed)
        await agent.post(stop_of(agent, first))
        await agent.post(a_posted_message(text="two"))
        await pause.reached()
        await agent.post(refused(pay, ends_turn=True))
        pause.release()
        await agent.ended(2)
    assert ["stopped", "finished"] == [end.data["state"] for end in agent.items("turn", *ENDS)]
