"""Asking to stop the turn that runs: what the caller is told, and what goes to the agent."""

from __future__ import annotations

import asyncio

from placet.contracts.messages import StopTurn
from tests.support.gateway import House, a_conversation, insert


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
