"""Mission E: interception, parallel calls, streaming, state on the server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.e2e.conftest import Stage
from tests.support.people import Caller, Visitor, a_visitor, is_turn_end
from tests.support.ports import free_port
from tests.support.system import System, until


async def test_calls_of_one_answer_run_in_parallel_and_return_in_order(
    frontend: Caller, operator: Caller, stage: Stage, system: System
) -> None:
    """E1, E2: free calls run while one waits; garbage gets typed results; all results go back together, in order."""
    visitor = await a_visitor(frontend)
    await visitor.say("everything at once")
    card = await visitor.see_card()

    async def others_have_run() -> bool:
        calls = (await visitor.get(visitor.path))["calls"]
        return [call["status"] for call in calls].count("pending_confirmation") == 1 and all(
            call["status"] in {"success", "error", "pending_confirmation"} for call in calls
        )

    await until(others_have_run, "every other call has its result")
    await operator.decide(card, "approve")
    assert await visitor.see_answer() == "That was everything."
    kinds = [json.loads(message["content"])["result"] for message in _results_told(stage, "That was everything")]
    assert kinds == ["succeeded", "succeeded", "invalid", "invalid", "invalid", "failed"]
    judged = f"SELECT count(*) FROM read.verdicts v JOIN read.tool_calls c USING (call_id) WHERE c.conversation_id = '{visitor.conversation}'"  # noqa: S608, E501
    assert system.count(judged) == 3


async def test_text_streams_as_it_comes_also_around_a_pause(frontend: Caller, operator: Caller) -> None:
    """E3: deltas arrive before and after a pause and join to exactly the texts that are kept."""
    visitor = await a_visitor(frontend)
    connected = asyncio.create_task(visitor.see(is_turn_end))
    await visitor.say("hello")
    await connected
    waiting = asyncio.create_task(visitor.see_card())
    await visitor.say("deploy the shop")
    card = await waiting
    answering = asyncio.create_task(visitor.see_answer())
    await operator.decide(card, "approve")
    assert await answering == "The shop is green."
    kept = {item["data"]["message_id"]: item["data"]["text"] for item in visitor.items if _is_said(item)}
    pieces: dict[str, str] = {}
    for item in visitor.items:
        if item["type"] == "delta":
            pieces[item["data"]["message_id"]] = pieces.get(item["data"]["message_id"], "") + item["data"]["text"]
    assert {"Deploying.", "The shop is green."} <= set(kept.values())
    assert {message: text for message, text in kept.items() if text in pieces.values()} == pieces
    assert {"Deploying.", "The shop is green."} & set(pieces.values())


async def test_a_client_comes_back_to_another_replica(frontend: Caller, operator: Caller, system: System) -> None:
    """E4: what happened meanwhile is there, on any gateway, without a gap and without a repeat."""
    visitor = await a_visitor(frontend)
    await visitor.say("deploy the shop")
    card = await visitor.see_card()
    port = free_port()
    other = system.add("gateway", number=2)
    other.environment["PLACET_GATEWAY_PORT"] = str(port)
    other.health_port = port
    await system.start()
    assert (await operator.decide(card, "approve")).status_code == 200
    elsewhere = Visitor(f"http://127.0.0.1:{port}", visitor.token, conversation=visitor.conversation)
    elsewhere.items = list(visitor.items)
    assert await elsewhere.see_answer() == "The shop is green."
    numbers = [int(item["id"]) for item in elsewhere.items if item["type"] != "delta"]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    other.stop()
    del system.processes["gateway-2"]


async def test_a_conversation_without_tools_just_talks(frontend: Caller) -> None:
    """E5: plain talk is one step and no call."""
    visitor = await a_visitor(frontend)
    await visitor.say("hello")
    assert await visitor.see_answer() == "Hello, how can I help you today?"
    assert (await visitor.get(visitor.path))["calls"] == []


async def test_a_stumbling_model_is_asked_again(frontend: Caller, stage: Stage) -> None:
    """A server error and an answer cut in the middle are retried; the half answer is not kept."""
    visitor = await a_visitor(frontend)
    await visitor.say("are you broken?")
    assert await visitor.see_answer() == "Not any more."
    assert stage.model_log()["rejected"] == 0


async def test_an_unavailable_model_ends_the_turn_and_not_the_conversation(frontend: Caller) -> None:
    """A model that refuses ends the turn with a clear event; the next message works."""
    visitor = await a_visitor(frontend)
    await visitor.say("fall silent")
    await visitor.see_answer()
    assert visitor.items[-1]["data"]["state"] == "failed"
    await visitor.say("hello")
    assert await visitor.see_answer() == "Hello, how can I help you today?"


def _results_told(stage: Stage, _: str) -> list[dict[str, Any]]:
    """Return the tool messages of the last request that ends with six results."""
    for request in reversed(stage.model_log()["requests"]):
        messages = request["body"]["messages"]
        if [message["role"] for message in messages[-6:]] == ["tool"] * 6:
            ids = [call["id"] for call in messages[-7]["tool_calls"]]
            assert [message["tool_call_id"] for message in messages[-6:]] == ids
            return list(messages[-6:])
    raise AssertionError("the model was never told six results")


def _is_said(item: dict[str, Any]) -> bool:
    return bool(item["type"] == "message" and item["data"]["role"] == "assistant")
