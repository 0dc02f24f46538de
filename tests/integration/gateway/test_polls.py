"""A conversation without a stream: the same items by GET, and a wait that ends with the next one."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.builders import a_posted_message
from tests.support.gateway import House, a_conversation, listen, open_house


async def poll(client: httpx.AsyncClient, conversation: str, **query: Any) -> Any:
    """Return the JSON of one poll."""
    async with asyncio.timeout(20):
        answer = await client.get(f"/v1/conversations/{conversation}/feed", params=query, timeout=30)
    return answer.raise_for_status().json()


def texts(page: Any) -> list[str]:
    """Return what was said."""
    return [item["data"]["text"] for item in page["items"]]


async def somebody_waits(house: House, gateway: int = 0) -> None:
    """Return as soon as somebody waits at a gateway."""
    while not house.gateways[gateway].hub.streams:  # noqa: ASYNC110 - a hub tells nobody who comes
        await asyncio.sleep(0)


async def test_what_is_there_comes_at_once_and_in_pages(house: House) -> None:
    """No wait where there is something; each page says where the next one begins, and the end is an empty one."""
    for text in ("one", "two", "three"):
        await house.deliver(a_posted_message(conversation_id="acme_c", text=text))
    async with house.client(house.key("chat")) as client:
        first = await poll(client, "c", wait=50, limit=2)
        second = await poll(client, "c", wait=50, limit=2, after=first["last_event_id"])
        third = await poll(client, "c", after=second["last_event_id"])
    assert (["one", "two"], ["three"], []) == (texts(first), texts(second), texts(third))
    assert [2, 3, 3] == [page["last_event_id"] for page in (first, second, third)]


async def test_a_poll_has_what_the_stream_has(house: House) -> None:
    """E3: number, type and data are the same, so a client may change over at any item."""
    await house.deliver(a_posted_message(conversation_id="acme_c", text="hello"))
    async with house.client(house.key("chat")) as client:
        (item,) = (await poll(client, "c"))["items"]
        (event,) = await listen(client, "/v1/conversations/c/events", lambda heard: len(heard) == 1)
    told = event["data"].pop("at")
    assert (event["id"], event["type"], event["data"]) == (str(item["id"]), item["type"], item["data"])
    assert told[:19] == item["at"][:19]


async def test_a_wait_ends_with_the_next_item(gateway_database_url: str, tmp_path: Path) -> None:
    """E3: posted at another replica; who waited has it at once."""
    async with open_house(gateway_database_url, tmp_path, gateways=2) as house:
        key = house.key("chat")
        async with house.client(key) as writer, house.client(key, gateway=1) as reader:
            conversation, _ = await a_conversation(writer)
            waiting = asyncio.create_task(poll(reader, conversation, wait=50))
            await somebody_waits(house, gateway=1)
            await writer.post(f"/v1/conversations/{conversation}/messages", json={"text": "hello"})
            page = await waiting
    assert (["hello"], 1) == (texts(page), page["last_event_id"])


async def test_a_wait_without_news_ends_empty(house: House) -> None:
    """With the number to go on from."""
    await house.deliver(a_posted_message(conversation_id="acme_c"))
    async with house.client(house.key("chat")) as client:
        page = await poll(client, "c", after=1, wait=0.05)
    assert {"items": [], "last_event_id": 1} == page


async def test_a_lost_announcement_is_made_up_for(gateway_database_url: str, tmp_path: Path) -> None:
    """What was stored without anybody being told ends a wait at its next look."""
    async with open_house(gateway_database_url, tmp_path, gateway_heartbeat_seconds=0.05) as house:
        await house.deliver(a_posted_message(conversation_id="acme_c", text="told"))
        async with house.client(house.key("chat")) as client:
            waiting = asyncio.create_task(poll(client, "c", after=1, wait=50))
            await somebody_waits(house)
            house.agent.silent = True
            await house.append("acme_c", ("message", {"role": "user", "message_id": "m-2", "text": "silent"}))
            page = await waiting
    assert ["silent"] == texts(page)


async def test_polls_at_any_replica_miss_and_repeat_nothing(gateway_database_url: str, tmp_path: Path) -> None:
    """E4: asking on after the last number, at either of two gateways, shows 1, 2, 3, … each once, while posts go on."""
    chance, total = random.Random(7), 80  # noqa: S311 - chance that can be repeated
    async with open_house(gateway_database_url, tmp_path, gateways=2) as house:
        key = house.key("chat")
        async with house.client(key) as one, house.client(key, gateway=1) as other:
            conversation, _ = await a_conversation(one)

            async def write() -> None:
                for number in range(total // 2):
                    client = [one, other][number % 2]
                    path = f"/v1/conversations/{conversation}/messages"
                    await client.post(path, json={"text": f"http {number}"})
                    await house.deliver(a_posted_message(conversation_id=conversation, text=f"amqp {number}"))

            writing, last = asyncio.create_task(write()), 0
            seen: list[int] = []
            while len(seen) < total:
                limit = chance.randint(1, 9)
                page = await poll(chance.choice([one, other]), conversation, after=last, wait=20, limit=limit)
                seen += [item["id"] for item in page["items"]]
                last = page["last_event_id"]
            await writing
    assert list(range(1, total + 1)) == seen


async def test_a_client_that_has_gone_leaves_its_place(gateway_database_url: str, tmp_path: Path) -> None:
    """At once, and not when what it waited for would have been over: the next one would be one too many."""
    async with open_house(gateway_database_url, tmp_path, gateway_key_streams=1) as house:
        await house.deliver(a_posted_message(conversation_id="acme_c"))
        async with house.client(house.key("chat")) as client, asyncio.timeout(20):
            waiting = asyncio.create_task(poll(client, "c", after=1, wait=50))
            await somebody_waits(house)
            waiting.cancel()
            while house.gateways[0].hub.streams:  # noqa: ASYNC110 - a hub tells nobody who goes
                await asyncio.sleep(0)
            page = await poll(client, "c", after=1, wait=0.05)
    assert {"items": [], "last_event_id": 1} == page


async def test_a_wait_ends_where_the_instance_stops(gateway_database_url: str, tmp_path: Path) -> None:
    """Nobody holds a gateway up: the answer is empty, and the client asks another one."""
    async with open_house(gateway_database_url, tmp_path) as house:
        await house.deliver(a_posted_message(conversation_id="acme_c"))
        async with house.client(house.key("chat")) as client:
            waiting = asyncio.create_task(poll(client, "c", after=1, wait=50))
            await somebody_waits(house)
            house.gateways[0].hub.close()
            page = await waiting
    assert {"items": [], "last_event_id": 1} == page


async def test_a_key_that_was_revoked_meanwhile_gets_nothing(house: House) -> None:
    """Rights are looked at again when the wait is over."""
    await house.deliver(a_posted_message(conversation_id="acme_c"))
    secret = house.key("chat")
    async with house.client(secret) as client, house.client(house.key("admin")) as admin:
        waiting = asyncio.create_task(client.get("/v1/conversations/c/feed?after=1&wait=50", timeout=60))
        await somebody_waits(house)
        await admin.delete(f"/v1/keys/{secret.split('_')[1]}")
        await house.deliver(a_posted_message(conversation_id="acme_c", text="a secret"))
        answer = await waiting
    assert (401, False) == (answer.status_code, "a secret" in answer.text)


@pytest.mark.parametrize(
    "query",
    ["after=-1", "after=x", "wait=51", "wait=-1", "wait=nan", "limit=0", "limit=1001", "afer=1", "after=1&after=2"],
)
async def test_what_is_no_poll_is_refused(house: House, query: str) -> None:
    """Numbers out of their bounds, and parameters that there are not, are a problem each."""
    await house.deliver(a_posted_message(conversation_id="acme_c"))
    async with house.client(house.key("chat")) as client:
        answer = await client.get(f"/v1/conversations/c/feed?{query}")
    assert (400, "application/problem+json") == (answer.status_code, answer.headers["content-type"])


async def test_nobody_polls_another_tenants_conversation(house: House) -> None:
    """It does not exist for them; neither does another one for a conversation's token."""
    await house.deliver(a_posted_message(conversation_id="acme_c"))
    async with house.client(house.key("chat", tenant="rival")) as rival, house.client(house.key("chat")) as client:
        _, token = await a_conversation(client)
        async with house.client(token) as visitor:
            answers = [await who.get("/v1/conversations/c/feed") for who in (rival, visitor)]
    assert [404, 404] == [answer.status_code for answer in answers]
