"""Mission E: interception, parallel calls, streaming, state on the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from tests.e2e.conftest import Stage
from tests.support.people import PATIENCE_SECONDS, Caller, Visitor, a_visitor, is_answer, is_card, is_turn_end
from tests.support.ports import free_port
from tests.support.system import System, until

Item = dict[str, Any]


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

    def is_over(seen: list[Item]) -> bool:
        return any(map(is_turn_end, seen))

    visitor = await a_visitor(frontend)
    await visitor.say("hello")
    async with aclosing(visitor.events()) as stream, asyncio.timeout(PATIENCE_SECONDS):
        await _read(stream, is_over)  # from here on the stream is live
        await visitor.say("deploy the shop")
        before = await _read(stream, lambda seen: any(map(is_card, seen)) and _is_written("Deploying.", seen))
        card = next(item["data"] for item in before if is_card(item))
        await operator.decide(card, "approve")
        after = await _read(
            stream, lambda seen: any(map(is_turn_end, seen)) and _is_written("The shop is green.", seen)
        )
    seen = before + after
    kept = {item["data"]["message_id"]: item["data"]["text"] for item in seen if is_answer(item)}
    assert list(kept.values()) == ["Deploying.", "The shop is green."]
    written = _written(seen)  # and late pieces of the greeting, it may be
    assert {message: written.get(message) for message in kept} == kept


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


async def _read(stream: AsyncIterator[Item], enough: Callable[[list[Item]], bool]) -> list[Item]:
    """Return what the stream sends until it is enough; pieces of a text may come after the event that has all of it."""
    seen: list[Item] = []
    async for item in stream:
        seen.append(item)
        if enough(seen):
            return seen
    raise AssertionError("the stream ended")


def _written(items: list[Item]) -> dict[str, str]:
    """Return the texts that the deltas among `items` join to, by message."""
    texts: dict[str, str] = {}
    for item in items:
        if item["type"] == "delta":
            data = item["data"]
            texts[data["message_id"]] = texts.get(data["message_id"], "")[: data["offset"]] + data["text"]
    return texts


def _is_written(text: str, items: list[Item]) -> bool:
    return text in _written(items).values()
