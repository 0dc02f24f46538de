"""Conversation tokens: they end, are renewed and taken back, and open only so many streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.builders import a_posted_message
from tests.integration.gateway.test_consents import a_card
from tests.integration.gateway.test_events import never
from tests.support.gateway import House, a_conversation, listen, open_house


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """A gateway that lets a token open three streams, four read one conversation, and a tenant open six."""
    limits: dict[str, Any] = {
        "gateway_person_streams": 3,
        "gateway_conversation_streams": 4,
        "gateway_tenant_streams": 6,
        "gateway_heartbeat_seconds": 0.05,
    }
    async with open_house(gateway_database_url, tmp_path, **limits) as made:
        yield made


@pytest.fixture
async def two_gateways(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """Two replicas, each of which remembers tokens."""
    async with open_house(gateway_database_url, tmp_path, gateways=2) as made:
        yield made


async def opened(stack: AsyncExitStack, client: httpx.AsyncClient, conversation: str) -> int:
    """Open a stream and keep it open; return its status."""
    path = f"/v1/conversations/{conversation}/events"
    answer = await stack.enter_async_context(client.stream("GET", path))
    if answer.status_code == httpx.codes.OK:
        # Kept: the connection ends with what reads it.
        lines = answer.aiter_lines()
        stack.callback(list, [lines])
        await anext(lines)
    return answer.status_code


async def test_of_many_that_wait_at_once_so_many_wait(house: House) -> None:
    """The others are told at once that it is too many."""
    async with house.client(house.key("chat")) as client:
        conversation, token = await a_conversation(client)
        async with house.client(token) as visitor:
            path = f"/v1/conversations/{conversation}/feed?wait=1"
            answers = await asyncio.gather(*(visitor.get(path) for _ in range(9)))
    assert [200] * 3 + [429] * 6 == sorted(each.status_code for each in answers)


async def test_a_token_opens_so_many_streams(house: House) -> None:
    """One more is 429, whatever the dialect; a key reads there too, until the conversation has enough readers."""
    async with house.client(house.key("chat")) as client:
        conversation, token = await a_conversation(client)
        async with house.client(token) as visitor, AsyncExitStack() as stack:
            mine = [await opened(stack, visitor, conversation) for _ in range(4)]
            waiting = await visitor.get(f"/v1/conversations/{conversation}/feed?wait=5")
            body = {
                "id": conversation,
                "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "hi"}]}],
            }
            sdk = await visitor.post("/api/chat", json=body)
            others = [await opened(stack, client, conversation) for _ in range(2)]
    assert ([200, 200, 200, 429], 429, 429, [200, 429]) == (mine, waiting.status_code, sdk.status_code, others)


async def test_a_tenant_opens_so_many_streams(house: House) -> None:
    """One more is 429, by whichever of its keys and in whichever conversation; another tenant's open as before."""
    async with AsyncExitStack() as stack:
        seen: dict[str, list[int]] = {"acme": [], "rival": []}
        for tenant, streams in (("acme", 7), ("rival", 1)):
            for _ in range(streams):
                client = await stack.enter_async_context(house.client(house.key("chat", tenant=tenant)))
                conversation, _ = await a_conversation(client)
                seen[tenant].append(await opened(stack, client, conversation))
    assert {"acme": [200] * 6 + [429], "rival": [200]} == seen


async def test_a_stream_that_ended_leaves_room(house: House) -> None:
    """However many there were: who goes makes room for the next."""
    async with house.client(house.key("chat")) as client:
        conversation, token = await a_conversation(client)
        path = f"/v1/conversations/{conversation}/feed?wait=0.05"
        async with house.client(token) as visitor:
            answers = [await visitor.get(path) for _ in range(5)]
    assert [200] * 5 == [answer.status_code for answer in answers]


async def test_a_renewed_token_takes_the_place_of_the_old_one(house: House) -> None:
    """Its holder renews it, and so does who opened the conversation; streams of the old one end."""
    async with house.client(house.key("chat")) as client:
        conversation, token = await a_conversation(client)
        path = f"/v1/conversations/{conversation}"
        async with house.client(token) as visitor:
            await house.deliver(a_posted_message(conversation_id=conversation))
            heard = asyncio.Event()
            stream = asyncio.create_task(listen(visitor, f"{path}/events", never(heard)))
            await heard.wait()
            renewed = await visitor.post(f"{path}/token")
            await stream
            old = await visitor.get(path)
        async with house.client(renewed.json()["token"]) as visitor:
            new = await visitor.get(path)
        second = await client.post(f"{path}/token")
        foreign = await client.post("/v1/conversations/other/token")
    assert (200, 401, 200, 200, 404) == tuple(each.status_code for each in (renewed, old, new, second, foreign))


async def test_a_token_that_was_taken_back_is_nobodys(house: House) -> None:
    """Who opened the conversation goes on in it; a visitor of another conversation takes nothing back."""
    async with house.client(house.key("chat")) as client:
        (conversation, token), (_, other) = await a_conversation(client), await a_conversation(client)
        path = f"/v1/conversations/{conversation}"
        async with house.client(other) as stranger, house.client(token) as visitor:
            refused = await stranger.delete(f"{path}/token")
            revoked = await client.delete(f"{path}/token")
            answers = [await visitor.get(path), await client.get(path)]
    assert (404, 204, [401, 200]) == (
        refused.status_code,
        revoked.status_code,
        [each.status_code for each in answers],
    )


async def writes(client: httpx.AsyncClient, conversation: str, approval: str) -> list[int]:
    """Return the statuses of everything that outlives the token with which it is asked for."""
    path = f"/v1/conversations/{conversation}"
    answers = [
        await client.post(f"{path}/token"),
        await client.delete(f"{path}/token"),
        await client.post(f"{path}/messages", json={"text": "still here"}),
        await client.post(f"{path}/stop"),
        await client.post(f"{path}/end"),
        await client.post(f"/v1/approvals/{approval}/comments", json={"text": "still here"}),
    ]
    return [each.status_code for each in answers]


@pytest.mark.parametrize("how", ["DELETE", "POST"])
async def test_a_token_that_is_remembered_changes_nothing(two_gateways: House, how: str) -> None:
    """Its owner takes it back or renews it: within the second in which it is known still, here and elsewhere, too."""
    async with two_gateways.client(two_gateways.key("chat")) as client:
        conversation, token = await a_conversation(client, visitor="v-42")
        approval = (await a_card(two_gateways, conversation))["approval_id"]
        path = f"/v1/conversations/{conversation}"
        async with (
            two_gateways.client(token) as here,
            two_gateways.client(token, gateway=1) as there,
        ):
            for each in (here, there):
                (await each.post(f"{path}/messages", json={"text": "hello"})).raise_for_status()
            changed = await client.request(how, f"{path}/token")
            refused = [await writes(each, conversation, approval) for each in (here, there)]
        if how == "POST":
            async with two_gateways.client(changed.json()["token"]) as visitor:
                assert (await visitor.post(f"{path}/messages", json={"text": "me"})).is_success
    (row,) = two_gateways.query("SELECT token_hash IS NULL, ended_at IS NULL FROM gateway.conversations")
    assert ([[401] * 6] * 2, (how == "DELETE", True)) == (refused, row)


async def test_no_token_comes_from_a_key_that_was_revoked_at_another_replica(house: House) -> None:
    """Neither a new conversation's nor a known one's: its owner's next key would keep it good."""
    stolen, other = house.key("chat"), house.key("chat")
    async with house.client(other) as ada, house.client(stolen) as thief:
        conversation, token = await a_conversation(ada)
        path = f"/v1/conversations/{conversation}"
        before = (await thief.get(path)).status_code
        revoking = "UPDATE gateway.api_keys SET revoked_at = now(), revoked_by = 'x' WHERE key_id = %s"
        house.query(revoking, stolen.split("_")[1])
        made = [(await thief.post(each)).status_code for each in ("/v1/conversations", f"{path}/token")]
        async with house.client(token) as visitor:
            still = (await visitor.get(path)).status_code
    assert (200, [401, 401], 200) == (before, made, still)


async def test_of_two_renewals_at_once_one_wins(two_gateways: House) -> None:
    """By the same token, at two replicas: one gives the next token, which is good, and the other is 401."""
    async with two_gateways.client(two_gateways.key("chat")) as client:
        conversation, token = await a_conversation(client)
        path = f"/v1/conversations/{conversation}"
        async with AsyncExitStack() as stack:
            holders = [await stack.enter_async_context(two_gateways.client(token, gateway=at)) for at in (0, 1, 0, 1)]
            for each in holders:
                (await each.get(path)).raise_for_status()
            answers = await asyncio.gather(*(each.post(f"{path}/token") for each in holders))
        (renewed,) = (each.json()["token"] for each in answers if each.is_success)
        async with two_gateways.client(renewed) as visitor:
            good = await visitor.get(path)
    assert (200, [200, 401, 401, 401]) == (good.status_code, sorted(each.status_code for each in answers))


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ("token_expires_at = now() - interval '1 second'", 401),
        ("ended_at = now() - interval '1 hour', ended_by = 'person:ada'", 200),
        ("ended_at = now() - interval '2 days', ended_by = 'person:ada'", 401),
    ],
)
async def test_a_token_ends(house: House, change: str, status: int) -> None:
    """By its own time, and some time after its conversation has ended, which it may read until then."""
    async with house.client(house.key("chat")) as client:
        conversation, token = await a_conversation(client)
    house.query(f"UPDATE gateway.conversations SET {change} RETURNING 1")  # noqa: S608 - ours
    async with house.client(token) as visitor:
        assert status == (await visitor.get(f"/v1/conversations/{conversation}")).status_code


async def test_the_token_of_a_conversation_that_ended_is_taken_back(house: House) -> None:
    """It reads nothing more at once; another token takes the place of none there."""
    async with house.client(house.key("chat")) as client:
        conversation, token = await a_conversation(client)
        path = f"/v1/conversations/{conversation}"
        async with house.client(token) as visitor:
            ended = await client.post(f"{path}/end")
            renewed, revoked = await client.post(f"{path}/token"), await client.delete(f"{path}/token")
            read = await visitor.get(path)
    assert (204, 409, 204, 401) == tuple(each.status_code for each in (ended, renewed, revoked, read))
