"""Mission B: a chat widget with deterministic confirmation, no prompting tricks."""

from __future__ import annotations

import json
from typing import Any

import aio_pika
import pytest

from placet.contracts.ids import new_id
from tests.e2e.conftest import Stage
from tests.support.people import Caller, Visitor, a_visitor, is_result
from tests.support.system import System, until


async def test_a_held_call_is_announced_as_data_and_not_by_the_model(frontend: Caller, stage: Stage) -> None:
    """B1: the card is a structured event from the stored call; no model was told to ask, nor that anybody did."""
    before = len(stage.model_log()["requests"])
    visitor = await a_visitor(frontend)
    await visitor.say("deploy the shop")
    card = await visitor.see_card()
    assert (card["tool"], card["arguments"]) == ("deploy", {"service": "shop", "version": "1.2"})
    waiting = await visitor.get(visitor.path)
    assert [call["status"] for call in waiting["calls"]] == ["pending_confirmation"]
    told = [each for request in stage.model_log()["requests"][before:] for each in request["body"]["messages"]]
    # Its instructions only say what the word means in a result.
    assert not [each for each in told if each["role"] != "system" and "confirm" in json.dumps(each).lower()]


@pytest.mark.parametrize("digest", ["0" * 64, "f" * 64])
async def test_a_decision_is_bound_to_what_was_seen(frontend: Caller, operator: Caller, digest: str) -> None:
    """B2: a card with another digest cannot approve; the right one still can."""
    visitor = await a_visitor(frontend)
    await visitor.say("deploy the shop")
    card = await visitor.see_card()
    stale = await operator.decide({**card, "digest": digest}, "approve")
    right = await operator.decide(card, "approve")
    assert (stale.status_code, right.status_code) == (409, 200)


async def test_an_approval_is_used_once(frontend: Caller, operator: Caller, stage: Stage, system: System) -> None:
    """B2: the permit of an executed call, published again as it was, runs nothing and becomes a dead letter."""
    connection = await aio_pika.connect(system.rabbitmq_url)
    async with connection:
        channel = await connection.channel()
        tap = await channel.declare_queue(exclusive=True)
        await tap.bind("executions", "#")
        visitor = await a_visitor(frontend)
        await visitor.say("deploy the shop")
        card = await visitor.see_card()
        await operator.decide(card, "approve")
        await visitor.see_answer()
        permitted = next(event for event in await _taken(tap) if event["data"]["call"]["call_id"] == card["call_id"])
        replay = json.dumps([{**permitted, "id": new_id()}]).encode()
        executions = await channel.get_exchange("executions")
        await executions.publish(aio_pika.Message(replay), permitted["data"]["pool"])
    admin = Caller(system.url, system.key("admin"))

    async def buried() -> bool:
        letters = (await admin.get("/v1/dead-letters"))["items"]
        return any("replayed" in letter["reason"] for letter in letters)

    await until(buried, "the replay is a dead letter")
    assert len(stage.begun("deploy", visitor.conversation)) == 1


async def test_a_decided_card_stays_in_the_history(frontend: Caller, operator: Caller) -> None:
    """B4: after a reload the card is still there, with the state it ended in and who decided."""
    visitor = await a_visitor(frontend)
    await visitor.say("deploy the shop")
    await operator.decide(await visitor.see_card(), "deny", "later")
    await visitor.see(lambda item: item["type"] == "approval" and item["data"]["state"] == "denied")
    reloaded = Visitor(visitor.url, visitor.token, conversation=visitor.conversation)
    await reloaded.see(lambda item: item["id"] == visitor.items[-1]["id"])
    states = [item["data"]["state"] for item in reloaded.items if item["type"] == "approval"]
    assert states == ["pending", "denied"]


async def test_the_conversation_goes_on_by_itself(frontend: Caller, operator: Caller) -> None:
    """B5, C4: after the approval the real outcome reaches the model, which calls the next tool and answers."""
    visitor = await a_visitor(frontend)
    await visitor.say("deploy the shop")
    await operator.decide(await visitor.see_card(), "approve")
    await visitor.see(is_result("read_status"))
    assert await visitor.see_answer() == "The shop is green."


async def _taken(queue: aio_pika.abc.AbstractQueue) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    while (message := await queue.get(fail=False)) is not None:
        await message.ack()
        events += json.loads(message.body)
    return events
