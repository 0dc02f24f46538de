"""Asking to stop the turn that runs: what the caller is told, and what goes to the agent."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from placet.contracts.messages import ACCOMPLISH_TOOL, StopTurn, ToolCall
from tests.builders import a_call
from tests.support.gateway import House, a_conversation, insert, said, tool_call, turn

CALL = a_call(call_id="k1", turn_id="t1")


def a_turn(house: House, conversation: str, turn_id: str | None) -> None:
    """Let the agent show which turn goes on."""
    house.query("DELETE FROM read.conversations WHERE conversation_id = %s", conversation)
    insert(house.url, "conversations", tenant="acme", conversation_id=conversation, turn_id=turn_id)


async def test_a_stop_names_the_turn_that_runs_and_who_asks(house: House) -> None:
    """One that runs is named to the agent; where none runs nothing is sent, and the caller is told."""
    async with house.client(house.key("chat")) as client:
        conversation, token = await a_conversation(client, visitor="v-42")
        path = f"/v1/conversations/{conversation}/stop"
        idle = await client.post(path)
        a_turn(house, conversation, None)
        over = await client.post(path)
        a_turn(house, conversation, "runs")
        async with house.client(token) as visitor:
            answers = [await visitor.post(path), await client.post(path)]
    nothing = {"conversation_id": conversation, "state": "idle", "turn_id": None}
    assert [(200, nothing)] * 2 == [(each.status_code, each.json()) for each in (idle, over)]
    stopping = {"conversation_id": conversation, "state": "stopping", "turn_id": "runs"}
    assert [(202, stopping)] * 2 == [(each.status_code, each.json()) for each in answers]
    stops = [await asyncio.wait_for(house.posted.get(), 20) for _ in range(2)]
    place = {"tenant": "acme", "conversation_id": conversation, "turn_id": "runs"}
    assert [StopTurn(**place, by="v-42"), StopTurn(**place, by="person:ada")] == stops


async def test_nobody_stops_what_they_may_not_see(house: House) -> None:
    """A visitor stops their own and no other, a key that may only decide stops none, another tenant sees none."""
    async with house.client(house.key("chat")) as client:
        (mine, token), (other, _) = [await a_conversation(client) for _ in range(2)]
    for conversation in (mine, other):
        a_turn(house, conversation, f"turn-{conversation}")
    async with (
        house.client(token) as visitor,
        house.client(house.key("decide")) as decider,
        house.client(house.key("chat", tenant="globex")) as stranger,
    ):
        answers = [
            await visitor.post(f"/v1/conversations/{other}/stop"),
            await decider.post(f"/v1/conversations/{mine}/stop"),
            await stranger.post(f"/v1/conversations/{mine}/stop"),
            await visitor.post(f"/v1/conversations/{mine}/stop"),
        ]
    assert [404, 403, 404, 202] == [answer.status_code for answer in answers]


async def stopped_while_policy_looks(
    house: House, client: httpx.AsyncClient, call: ToolCall = CALL
) -> tuple[str, asyncio.Task[int]]:
    """Stop a turn whose call nobody has judged yet; return its conversation, and the AI SDK's stop on its way."""
    conversation, _ = await a_conversation(client)
    asked = {"role": "user", "message_id": "u1", "text": "a payment link"}
    began = [turn("started", "t1", message_id="u1"), said("m1", "Here it is.", "t1"), tool_call(call)]
    await house.append(conversation, ("message", asked), *began)
    a_turn(house, conversation, "t1")

    async def stop() -> int:
        return (await client.post(f"/api/chat/{conversation}/stop")).status_code

    stopping = asyncio.create_task(stop())
    await asyncio.wait_for(house.posted.get(), 20)
    await house.append(conversation, turn("stopped", "t1", idle=True, reason="Stopped by ada."))
    return conversation, stopping


async def test_the_guides_stop_waits_for_a_call_whose_card_is_still_to_come(house: House) -> None:
    """Answered before, who asks for another answer next would have a second payment beside the first one's card."""
    card = {"call_id": "k1", "turn_id": "t1", "approval_id": "a1", "revision": 1}
    ended = {"call_id": "k1", "turn_id": "t1", "tool": "create_pay_link", "status": "error", "kind": "cancelled"}
    cancelled = ended | {"data": None, "error": "Stopped."}
    async with house.client(house.key("chat")) as client:
        conversation, stopping = await stopped_while_policy_looks(house, client)
        unjudged = await asyncio.wait({stopping}, timeout=0.5)
        insert(house.url, "verdicts", verdict_id="v1", call_id="k1", tenant="acme", effect="require_approval")
        held = await asyncio.wait({stopping}, timeout=0.5)
        await house.append(conversation, ("approval", card | {"state": "pending"}), ("tool_call", cancelled))
        shown = await asyncio.wait({stopping}, timeout=0.5)
        await house.append(conversation, ("approval", card | {"state": "withdrawn"}))
        status = await asyncio.wait_for(stopping, 5)
    assert ([{stopping}] * 3, 202) == ([waiting for _, waiting in (unjudged, held, shown)], status)


@pytest.mark.parametrize("effect", ["allow", "stage"])
async def test_the_guides_stop_does_not_wait_for_what_runs_on(house: House, effect: str) -> None:
    """A permitted call has no card to come, and a result that may take an hour."""
    async with house.client(house.key("chat")) as client:
        _, stopping = await stopped_while_policy_looks(house, client)
        insert(house.url, "verdicts", verdict_id="v1", call_id="k1", tenant="acme", effect=effect)
        assert 202 == await asyncio.wait_for(stopping, 5)


async def test_the_guides_stop_waits_for_its_job(house: House) -> None:
    """A job that may run is cancelled with its turn, and until then its attempts may ask people."""
    job = a_call(call_id="k1", turn_id="t1", tool=ACCOMPLISH_TOOL)
    ended = {"call_id": "k1", "turn_id": "t1", "tool": ACCOMPLISH_TOOL, "status": "error", "kind": "failed"}
    async with house.client(house.key("chat")) as client:
        conversation, stopping = await stopped_while_policy_looks(house, client, job)
        insert(house.url, "verdicts", verdict_id="v1", call_id="k1", tenant="acme", effect="allow")
        _, waiting = await asyncio.wait({stopping}, timeout=0.5)
        await house.append(conversation, ("tool_call", ended | {"data": None, "error": "Cancelled."}))
        status = await asyncio.wait_for(stopping, 5)
    assert ({stopping}, 202) == (waiting, status)
