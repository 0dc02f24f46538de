"""The turn barrier: the model is asked once more, when every call has its one result."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from placet.contracts.messages import MessagePosted, ToolCallProposed
from tests.builders import a_call, a_posted_message, an_abandonment
from tests.support.agents import Agent, Asked, ScriptedModel, an_agent, finished, refused, says

SEARCH = ("search", '{"text": "shoes"}')
PAY = ("pay", '{"amount": 299}')


def results(asked: Asked) -> list[dict[str, Any]]:
    """Return the results that the model was shown."""
    return [json.loads(message["content"]) for message in asked.messages if message["role"] == "tool"]


async def a_turn(agent: Agent, number: int, *messages: MessagePosted) -> list[ToolCallProposed]:
    """Post messages and return the calls that follow."""
    await agent.post(*(messages or (a_posted_message(),)))
    return await agent.came(ToolCallProposed, number)


async def test_results_go_back_in_the_order_of_the_calls(agent_url: str) -> None:
    """Three calls, two sound ones: results come the other way round, the model sees the order it called in."""
    model = ScriptedModel([says("Let me see", SEARCH, ("rm", "{}"), PAY), says("Done")])
    async with an_agent(agent_url, model) as agent:
        search, pay = await a_turn(agent, 2)
        assert [("waiting", 2)] == agent.rows("SELECT state, open_calls FROM agent.turns")
        await agent.post(refused(pay))
        assert [("waiting", 1)] == agent.rows("SELECT state, open_calls FROM agent.turns")
        assert 1 == len(model.asked)
        await agent.post(finished(search))
        await agent.ended()
    assert ["search", "pay"] == [search.call.tool, pay.call.tool]
    assert 2 == len(model.asked)
    kinds = [(result["result"], result.get("data"), result.get("reason")) for result in results(model.asked[1])]
    assert [
        ("succeeded", {"ran": "search"}, None),
        ("invalid", None, None),
        ("denied", None, "It was not run: too dear."),
    ] == kinds


async def test_calls_are_announced_after_the_words_and_in_their_order(agent_url: str) -> None:
    """A frontend sees the text first, then each call as it stands in the answer."""
    async with an_agent(agent_url, ScriptedModel([says("Let me see", PAY, SEARCH)])) as agent:
        pay, search = await a_turn(agent, 2)
    assert ("pay", "search") == (pay.call.tool, search.call.tool)
    assert "Let me see" == agent.items("message", "assistant")[0].data["text"]
    assert [(0, "pay"), (1, "search")] == agent.rows("SELECT position, tool FROM agent.tool_calls ORDER BY position")


async def test_call_is_handed_over_with_all_that_others_need(agent_url: str) -> None:
    """Policy gets canonical arguments, digest, tenant, turn, requester: and never the provider's id."""
    async with an_agent(agent_url, ScriptedModel([says("", PAY, ids=["secret-id"])])) as agent:
        (pay,) = await a_turn(agent, 1, a_posted_message(message_id="m1"))
    call = pay.call
    assert ('{"amount":299}', "m1", "visitor-1", "acme") == (
        call.arguments,
        call.message_id,
        call.requester,
        call.tenant,
    )
    assert [(call.call_id, call.digest, call.turn_id)] == agent.rows(
        "SELECT call_id, digest, turn_id FROM agent.tool_calls"
    )
    assert "secret-id" not in pay.model_dump_json()


async def test_all_results_in_one_envelope_complete_the_step_once(agent_url: str) -> None:
    """Several results in one transaction open the barrier exactly once."""
    model = ScriptedModel([says("", SEARCH, PAY), says("Done")])
    async with an_agent(agent_url, model) as agent:
        search, pay = await a_turn(agent, 2)
        await agent.post(finished(pay), finished(search))
        await agent.ended()
    assert 2 == len(model.asked)


async def test_first_result_stands(agent_url: str) -> None:
    """A second result for a call has no effect and is kept in the history."""
    model = ScriptedModel([says("", SEARCH, PAY), says("Done")])
    async with an_agent(agent_url, model) as agent:
        search, pay = await a_turn(agent, 2)
        await agent.post(finished(search))
        await agent.post(refused(search, kind="expired"))
        assert 1 == len(model.asked)
        await agent.post(finished(pay))
        await agent.ended()
        await agent.post(refused(pay, kind="expired"))
    assert ["succeeded", "succeeded"] == [result["result"] for result in results(model.asked[1])]
    assert [("answered", "answered", "expired")] * 2 == agent.rows(
        "SELECT from_state, to_state, detail->>'kind' FROM agent.history WHERE from_state = 'answered' ORDER BY id"
    )
    assert [] == agent.dead
    assert 2 == len(model.asked)


async def test_result_for_an_unknown_call_is_buried(agent_url: str) -> None:
    """A call is stored before anybody hears of it: a result for another one is nobody's."""
    async with an_agent(agent_url, ScriptedModel([says("", SEARCH)])) as agent:
        (search,) = await a_turn(agent, 1)
        await agent.post(finished(search, call_id="other"))
    assert ["poison: call other was never proposed in conversation conversation-1"] == agent.dead


async def test_result_of_another_tenant_or_conversation_is_buried(agent_url: str) -> None:
    """A result must name the owner of its call; otherwise the call stays open."""
    async with an_agent(agent_url, ScriptedModel([says("", SEARCH)])) as agent:
        (search,) = await a_turn(agent, 1)
        await agent.post(finished(search, tenant="evil"))
        await agent.post(finished(search, conversation_id="other"))
        assert [("open",)] == agent.rows("SELECT state FROM agent.tool_calls")
    assert [
        "poison: conversation conversation-1 belongs to another tenant than evil",
        "poison: no conversation other",
    ] == agent.dead


async def test_two_replicas_with_the_last_two_results_ask_once(agent_url: str) -> None:
    """The last two results reach two replicas at the same moment: exactly one of them asks the model."""
    model = ScriptedModel([says("", *[SEARCH] * 8), says("Done")])
    async with an_agent(agent_url, model) as here, an_agent(agent_url, model, beside=here) as there:
        calls = await a_turn(here, 8)
        replicas = [here, there] * 4
        posts = (replica.post(finished(call)) for replica, call in zip(replicas, calls, strict=True))
        await asyncio.gather(*posts)
        await here.ended()
    assert [("finished", 2, 2)] == here.rows("SELECT state, step, fence FROM agent.turns")
    assert 2 == len(model.asked)
    assert 8 == len(results(model.asked[1]))


async def test_steps_go_on_until_the_model_has_no_more_calls(agent_url: str) -> None:
    """Each step waits for its own results; what a second result causes is in its thread."""
    model = ScriptedModel([says("", SEARCH), says("", PAY), says("Done")])
    async with an_agent(agent_url, model) as agent:
        (search,) = await a_turn(agent, 1)
        await agent.post(finished(search))
        _, pay = await agent.came(ToolCallProposed, 2)
        await agent.post(finished(pay, kind="unknown", data=None, error="The worker died."))
        await agent.ended()
    assert ["succeeded", "unknown"] == [result["result"] for result in results(model.asked[2])]
    assert 1 == len({event.correlation_id for event in agent.seen})


async def test_output_with_a_character_that_cannot_be_stored_is_kept(agent_url: str) -> None:
    """A tool may return a NUL; it must not leave its call open for ever."""
    model = ScriptedModel([says("", SEARCH), says("Done")])
    async with an_agent(agent_url, model) as agent:
        (search,) = await a_turn(agent, 1)
        await agent.post(finished(search, data={"raw\x00": "a\x00b"}))
        await agent.ended()
    assert {"raw\ufffd": "a\ufffdb"} == results(model.asked[1])[0]["data"]


@pytest.mark.parametrize(
    ("may_have_run", "kind", "told"),
    [
        (False, "failed", "Not run: it could not be handled, and an operator gave it up."),
        (True, "unknown", "It may have taken effect: do not repeat it before a person has checked."),
    ],
)
async def test_a_result_that_was_given_up_is_replaced_by_an_honest_one(
    agent_url: str, kind: str, told: str, *, may_have_run: bool
) -> None:
    """The turn goes on with one result for the call; the lost one, should it come after all, changes nothing."""
    model = ScriptedModel([says("", PAY), says("Done")])
    async with an_agent(agent_url, model) as agent:
        (pay,) = await a_turn(agent, 1)
        abandoned = an_abandonment("agent.tool-results", pay.call, may_have_run=may_have_run)
        await agent.post(abandoned)
        await agent.post(finished(pay))
        await agent.ended()
        assert [] == agent.dead
    (result,) = results(model.asked[1])
    assert (kind, True, 2) == (result["result"], told in result["error"], len(model.asked))


async def test_giving_up_what_no_call_waits_for_does_nothing(agent_url: str) -> None:
    """A forged letter's call, or one that has its result: nothing changes, and no new letter comes of it."""
    async with an_agent(agent_url, ScriptedModel([says("", PAY), says("Done")])) as agent:
        (pay,) = await a_turn(agent, 1)
        await agent.post(finished(pay))
        await agent.ended()
        for call in (pay.call, a_call(), pay.call.model_copy(update={"tenant": "rival"})):
            await agent.post(an_abandonment("agent.tool-results", call))
        assert ([], [("succeeded",)]) == (agent.dead, agent.rows("SELECT result_kind FROM agent.tool_calls"))
