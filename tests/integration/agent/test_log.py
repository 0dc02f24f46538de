"""The conversation log as frontends get it: pushed once, stored alike, and in order whatever arrives when."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import psycopg
import pytest

from placet.contracts.messages import (
    ApprovalClosed,
    ConsentAnswered,
    ConversationDelta,
    ConversationEnded,
    ConversationItems,
    HandoverRequested,
    HolderChanged,
    Message,
    OperatorSpoke,
    ToolCallProgressed,
    ToolCallProposed,
)
from placet.contracts.messages.conversations import TakenAs
from placet.contracts.messages.tool_calls import Handover
from tests.builders import NOON, a_posted_message
from tests.support.agents import (
    Agent,
    Said,
    ScriptedModel,
    an_agent,
    finished,
    opened,
    refused,
    says,
    wait_for_a_blocked_statement,
)
from tests.support.log_rules import LogRules

PAY = ("pay", '{"amount": 299}')
PLACE = {"tenant": a_posted_message().tenant, "conversation_id": a_posted_message().conversation_id}
YES = TakenAs(approval_id="a1", decision="approve", summary="Pay 299?")


def told(agent: Agent) -> list[str]:
    """Return type and state of each item of the log."""
    return [f"{item.type} {item.what}" for item in agent.log(PLACE["conversation_id"])]


def closed(proposed: ToolCallProposed, **changes: Any) -> ApprovalClosed:
    """Return the end of a call's approval."""
    call = proposed.call
    fields: dict[str, Any] = {"revision": 5, "state": "approved", "decided_by": "person:ada", "closed_at": NOON}
    ids = {"tenant": call.tenant, "conversation_id": call.conversation_id, "call_id": call.call_id}
    return ApprovalClosed(**ids, approval_id=f"approval-{call.call_id[:8]}", **(fields | changes))


def running(proposed: ToolCallProposed) -> ToolCallProgressed:
    """Return the word that a call runs."""
    call = proposed.call
    ids = {"tenant": call.tenant, "conversation_id": call.conversation_id, "call_id": call.call_id}
    return ToolCallProgressed(**ids, tool=call.tool, attempt=1)


async def test_a_gated_call_has_one_story(agent_url: str) -> None:
    """Who reads the log from its beginning sees what happened in the order in which it did."""
    async with an_agent(agent_url, ScriptedModel([says("I ask.", PAY), says("Paid.")])) as agent:
        await agent.post(a_posted_message())
        (pay,) = await agent.came(ToolCallProposed)
        for message in (opened(pay), closed(pay), running(pay), finished(pay)):
            await agent.post(message)
        (end,) = await agent.ended()
        story = told(agent)
    assert [
        *("message user", "turn started", "message assistant", "tool_call proposed"),
        *("tool_call pending_confirmation", "approval pending", "turn paused"),
        *("approval approved", "progress executing", "tool_call success"),
        *("message assistant", "turn finished"),
    ] == story
    assert (True, []) == (end.data["idle"], end.data["open"])
    assert {1, 2} == {delta.step for delta in agent.of(ConversationDelta)}


async def test_what_is_pushed_is_what_is_stored(agent_url: str) -> None:
    """Each item leaves once, with the number, the moment and the data that the log has."""
    data = {"text": "a\x00b", "many": [1, 2.5, None], "deep": {"ü": True}}
    async with an_agent(agent_url, ScriptedModel([says("I ask.", PAY), says("Paid.")])) as agent:
        await agent.post(a_posted_message())
        (pay,) = await agent.came(ToolCallProposed)
        await agent.post(opened(pay))
        await agent.post(finished(pay, data=data))
        await agent.ended()
        stored = agent.rows("SELECT seq, type, at, data FROM agent.log ORDER BY seq")
    pushed = [item for event in agent.of(ConversationItems) for item in event.items]
    as_stored = [{"id": seq, "type": kind, "at": at.isoformat(), "data": data} for seq, kind, at, data in stored]
    assert as_stored == sorted(pushed, key=lambda item: item["id"])


@pytest.mark.parametrize("seed", range(4))
async def test_news_that_come_in_any_order_leave_the_log_in_order(agent_url: str, seed: int) -> None:
    """Of ten conversations everything arrives shuffled and twice, at once and in bunches; two replicas take it."""
    chance = random.Random(seed)  # noqa: S311 - the same every time
    names = [f"c{number}" for number in range(10)]
    lines: list[Said] = [*[says("I ask.", PAY, PAY)] * 10, *[says("Done.")] * 40]
    model = ScriptedModel(lines)
    async with an_agent(agent_url, model) as here, an_agent(agent_url, model, beside=here) as there:
        await here.post(*(a_posted_message(conversation_id=name) for name in names))
        calls = await here.came(ToolCallProposed, 20)
        news: list[Message] = [
            message for call in calls for message in (opened(call), closed(call), running(call), finished(call))
        ]
        news += [a_posted_message(conversation_id=name, text="and?") for name in names] + news
        chance.shuffle(news)
        await asyncio.gather(*(chance.choice([here, there]).post(message) for message in news))
        await here.until(lambda: all(answered(here, name) for name in names))
        for name in names:
            rules, log = LogRules(), here.log(name)
            for item in log:
                rules.take(item.type, item.data)
            assert ([], list(range(1, len(log) + 1))) == (rules.faults, [item.id for item in log])


def answered(agent: Agent, name: str) -> bool:
    """Tell whether both calls of a conversation have their results and no turn goes on."""
    items = [item for item in agent.items("tool_call", "success") if item.conversation_id == name]
    ends = [item for item in agent.items("turn", "finished") if item.conversation_id == name]
    return len(items) == 2 and bool(ends)


async def test_a_turn_pauses_again_when_one_of_two_is_decided(agent_url: str) -> None:
    """It runs while the decided call does, and waits again for the other one."""
    async with an_agent(agent_url, ScriptedModel([says("", PAY, PAY)])) as agent:
        await agent.post(a_posted_message())
        one, other = await agent.came(ToolCallProposed, 2)
        for message in (opened(one), opened(other), closed(one, state="denied"), refused(one)):
            await agent.post(message)
        log = agent.log(PLACE["conversation_id"])
    pauses = [[each["call_id"] for each in item.data["waiting"]] for item in log if item.what == "paused"]
    assert [[one.call.call_id, other.call.call_id], [other.call.call_id]] == pauses


async def test_a_turn_that_is_gone_on_with_says_so(agent_url: str) -> None:
    """A message that joins is named; one that only people can answer says that it waits."""
    goes_on, waits = {"on_message_while_pending": "continue"}, {"on_message_while_pending": "wait"}
    async with an_agent(agent_url, ScriptedModel([says("", PAY), says("Still waiting.", PAY)])) as agent:
        await agent.post(a_posted_message(message_id="m1"))
        (pay,) = await agent.came(ToolCallProposed)
        await agent.post(opened(pay, **goes_on))
        await agent.post(a_posted_message(message_id="m2"))
        _, other = await agent.came(ToolCallProposed, 2)
        await agent.post(opened(other, **waits))
        await agent.post(a_posted_message(message_id="m3"))
        log = agent.log(PLACE["conversation_id"])
    (went_on,) = (item for item in log if item.what == "continued")
    waiting = {item.data["message_id"]: item.data.get("waits") for item in log if item.what == "user"}
    assert (2, "m2") == (went_on.data["step"], went_on.data["message_id"])
    assert {"m1": None, "m2": None, "m3": True} == waiting


async def test_a_message_that_was_taken_for_a_decision_is_shown_and_not_answered(agent_url: str) -> None:
    """The same one again appends nothing; what became of it is told."""
    async with an_agent(agent_url, model := ScriptedModel([says("Hi")])) as agent:
        await agent.post(a_posted_message())
        await agent.ended()
        for _ in range(2):
            await agent.post(a_posted_message(message_id="yes", text="yes", taken_as=YES))
        await agent.post(ConsentAnswered(**PLACE, message_id="yes", taken_as=YES, outcome="accepted", state="approved"))
        *_, message, decision = agent.log(PLACE["conversation_id"])
    assert (1, 5) == (len(model.asked), decision.id - 1)
    assert YES.model_dump() == message.data["taken_as"]
    expected = YES.model_dump() | {"message_id": "yes", "outcome": "accepted", "detail": "", "state": "approved"}
    assert expected == decision.data


async def test_a_copy_of_a_decision_that_does_not_say_so_is_no_message(agent_url: str) -> None:
    """A frontend may repeat it where nobody remembers what it was taken for: another replica asks the log."""
    async with an_agent(agent_url, model := ScriptedModel([says("Hi")])) as agent:
        await agent.post(a_posted_message(message_id="m1"))
        await agent.ended()
        await agent.post(a_posted_message(message_id="yes", text="yes", taken_as=YES))
        async with an_agent(agent_url, model, beside=agent) as other:
            await other.post(a_posted_message(message_id="yes", text="yes"))
            log = agent.log(PLACE["conversation_id"])
    assert (1, ["m1", "yes"]) == (len(model.asked), [item.data["message_id"] for item in log if item.what == "user"])


async def test_a_tool_that_hands_over_is_told_to_the_gateway_once(agent_url: str) -> None:
    """With the result that counts, whatever comes behind it."""
    async with an_agent(agent_url, ScriptedModel([says("", PAY), says("A person will come.")])) as agent:
        await agent.post(a_posted_message())
        (pay,) = await agent.came(ToolCallProposed)
        for _ in range(2):
            await agent.post(finished(pay, handover=Handover(reason="They want a person.")))
        await agent.ended()
    wanted = HandoverRequested(**PLACE, call_id=pay.call.call_id, reason="They want a person.")
    assert [wanted] == agent.of(HandoverRequested)


async def test_people_may_come_before_the_first_message(agent_url: str) -> None:
    """Who holds, speaks in or ends a conversation that nobody wrote in yet begins its log."""
    async with an_agent(agent_url, ScriptedModel([])) as agent:
        taken: Any = {"event": "taken", "by": "person:ada", "operator": "person:ada"}
        await agent.post(HolderChanged(**PLACE, holder="operator", revision=1, **taken))
        await agent.post(OperatorSpoke(**PLACE, message_id="o1", text="Hello?", operator="person:ada"))
        await agent.post(a_posted_message())
        await agent.post(ConversationEnded(**PLACE, by="person:ada"))
        story = told(agent)
    assert ["holder operator", "message operator", "message user", "conversation ended"] == story
    assert [] == agent.dead


async def test_an_answer_at_the_last_step_says_why_there_is_no_more(agent_url: str) -> None:
    """The model is told before it answers, and readers by the turn's end."""
    lines: list[Said] = [says("", ("rm", "{}")), says("I could not finish.")]
    async with an_agent(agent_url, model := ScriptedModel(lines), agent_max_steps=2) as agent:
        await agent.post(a_posted_message())
        (end,) = await agent.ended()
    assert ["This is your last step" in asked.messages[0]["content"] for asked in model.asked] == [False, True]
    reason = "The assistant had used all its 2 steps and answered without calling more tools."
    assert {"state": "finished", "limit": "steps", "reason": reason} == end.end


async def test_the_end_of_an_approval_is_told_behind_its_calls_result(agent_url: str) -> None:
    """The refusal may overtake it, and even the turn's end may; nothing else follows there."""
    async with an_agent(agent_url, ScriptedModel([says("", PAY), says("No.")])) as agent:
        await agent.post(a_posted_message())
        (pay,) = await agent.came(ToolCallProposed)
        await agent.post(opened(pay))
        await agent.post(refused(pay))
        await agent.ended()
        await agent.post(closed(pay, state="denied", revision=2))
        story = told(agent)
    assert ["message assistant", "turn finished", "approval denied"] == story[-3:]


async def test_who_comes_too_late_takes_its_message_again(agent_url: str) -> None:
    """Another replica changes the conversation between what a message reads and what it writes: nothing is lost."""
    async with an_agent(agent_url, ScriptedModel([says("Hi")] * 3)) as agent:
        await agent.post(a_posted_message())
        await agent.ended()
        with psycopg.connect(agent_url) as other:
            other.execute("UPDATE agent.conversations SET version = version + 1")
            posting = asyncio.create_task(agent.post(a_posted_message(), a_posted_message(text="and?")))
            await asyncio.to_thread(wait_for_a_blocked_statement, agent_url)
        await posting
        await agent.ended(3)
        log = agent.log(PLACE["conversation_id"])
        assert [(3,)] == agent.rows("SELECT count(*) FROM agent.inbox")
    assert ([], list(range(1, 13))) == (agent.dead, [item.id for item in log])
