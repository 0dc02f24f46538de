"""The event stream: what is stored, then what comes, whoever disconnects however often."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.contracts.messages import ConversationDelta
from tests.builders import a_posted_message
from tests.support.gateway import House, a_conversation, listen, open_house


def numbers(heard: list[dict[str, Any]]) -> list[int]:
    """Return the numbers of what has one."""
    return [int(event["id"]) for event in heard if event["type"] != "delta"]


def at_least(number: int) -> Callable[[list[dict[str, Any]]], bool]:
    """Return what is content with so many events."""
    return lambda heard: len(heard) >= number


def never(heard: asyncio.Event) -> Callable[[list[dict[str, Any]]], bool]:
    """Return what never has enough, and sets `heard` at the first event."""

    def enough(_: list[dict[str, Any]]) -> bool:
        heard.set()
        return False

    return enough


async def test_a_stream_tells_what_is_stored_and_then_what_comes(house: House) -> None:
    """A client that begins late sees everything once, in order."""
    async with house.client(house.key("chat")) as client:
        conversation, _ = await a_conversation(client)
        path = f"/v1/conversations/{conversation}"
        await client.post(f"{path}/messages", json={"text": "before"})
        began = asyncio.Event()
        task = asyncio.create_task(listen(client, f"{path}/events", at_least(2), began=began))
        await began.wait()
        await client.post(f"{path}/messages", json={"text": "after"})
        heard = await task
    assert [("1", "message", "before"), ("2", "message", "after")] == [
        (event["id"], event["type"], event["data"]["text"]) for event in heard
    ]


@pytest.mark.parametrize("how", ["header", "query"])
async def test_a_stream_goes_on_after_the_last_event_seen(house: House, how: str) -> None:
    """`Last-Event-ID` and `?after=` both skip what was seen."""
    for text in ("one", "two", "three"):
        await house.deliver(a_posted_message(conversation_id="acme_c", text=text))
    async with house.client(house.key("chat")) as client:
        path = "/v1/conversations/c/events" + ("?after=1" if how == "query" else "")
        heard = await listen(client, path, at_least(2), after="1" if how == "header" else "")
    assert ["two", "three"] == [event["data"]["text"] for event in heard]


async def test_a_client_that_drops_out_at_random_misses_and_repeats_nothing(
    gateway_database_url: str, tmp_path: Path
) -> None:
    """E4: reconnecting at any moment, to any of two gateways, shows 1, 2, 3, … each once, while posts go on."""
    chance, total = random.Random(7), 120  # noqa: S311 - chance that can be repeated
    async with open_house(gateway_database_url, tmp_path, gateways=2) as house:
        key = house.key("chat")
        async with house.client(key) as one, house.client(key, gateway=1) as other:
            conversation, _ = await a_conversation(one)
            path = f"/v1/conversations/{conversation}"

            async def write() -> None:
                for number in range(total // 2):
                    client = [one, other][number % 2]
                    await client.post(f"{path}/messages", json={"text": f"http {number}"})
                    await house.deliver(a_posted_message(conversation_id=conversation, text=f"amqp {number}"))

            writing = asyncio.create_task(write())
            seen: list[dict[str, Any]] = []
            while len(seen) < total:
                wanted = at_least(min(chance.randint(1, 9), total - len(seen)))
                last = seen[-1]["id"] if seen else ""
                seen += await listen(chance.choice([one, other]), f"{path}/events", wanted, after=last)
            await writing
    assert list(range(1, total + 1)) == numbers(seen)


async def test_a_lost_announcement_is_made_up_for(gateway_database_url: str, tmp_path: Path) -> None:
    """What was stored without anybody being told reaches a client at its next heartbeat."""
    async with open_house(gateway_database_url, tmp_path, gateway_heartbeat_seconds=0.05) as house:
        await house.deliver(a_posted_message(conversation_id="acme_c", text="told"))
        async with house.client(house.key("chat")) as client:
            told = asyncio.Event()

            def enough(heard: list[dict[str, Any]]) -> bool:
                told.set()
                return len(heard) >= 2

            task = asyncio.create_task(listen(client, "/v1/conversations/c/events", enough))
            await told.wait()
            house.agent.silent = True
            await house.append("acme_c", ("message", {"role": "user", "message_id": "m-2", "text": "silent"}))
            heard = await task
    assert ["told", "silent"] == [event["data"]["text"] for event in heard]


async def test_deltas_come_without_a_number_and_are_not_kept(house: House) -> None:
    """E3: pieces of text reach who listens now; who comes later sees the whole text only."""
    await house.deliver(a_posted_message(conversation_id="acme_c"))
    async with house.client(house.key("chat")) as client:
        began = asyncio.Event()

        def enough(heard: list[dict[str, Any]]) -> bool:
            began.set()
            return len(heard) >= 3

        task = asyncio.create_task(listen(client, "/v1/conversations/c/events", enough))
        await began.wait()
        piece = {"tenant": "acme", "conversation_id": "acme_c", "turn_id": "t", "step": 1, "message_id": "a-1"}
        await house.deliver(ConversationDelta(**piece, offset=0, text="Hel"))
        await house.deliver(ConversationDelta(**piece, offset=3, text="lo"))
        heard = await task
        later = await listen(client, "/v1/conversations/c/events", at_least(1))
    assert [("", "Hel", 0), ("", "lo", 3)] == [
        (event["id"] if event["type"] != "delta" else "", event["data"]["text"], event["data"]["offset"])
        for event in heard[1:]
    ]
    assert ["delta", "delta"] == [event["type"] for event in heard[1:]]
    assert ["message"] == [event["type"] for event in later]


async def test_who_comes_in_the_middle_of_a_text_sees_how_it_began(house: House) -> None:
    """E3, E4: a client that connects while the model writes gets the text so far, then what comes, joined."""
    await house.deliver(a_posted_message(conversation_id="acme_c"))
    piece = {"tenant": "acme", "conversation_id": "acme_c", "turn_id": "t", "step": 1, "message_id": "a-1"}
    await house.deliver(ConversationDelta(**piece, offset=0, text="Hel"))
    await house.deliver(ConversationDelta(**piece, offset=3, text="lo"))
    async with house.client(house.key("chat")) as client:
        began = asyncio.Event()
        task = asyncio.create_task(listen(client, "/v1/conversations/c/events", at_least(3), began=began))
        await began.wait()
        await house.deliver(ConversationDelta(**piece, offset=5, text=", Ada"))
        heard = await task
    pieces = [(event["data"]["offset"], event["data"]["text"]) for event in heard if event["type"] == "delta"]
    assert ("message", [(0, "Hello"), (5, ", Ada")]) == (heard[0]["type"], pieces)


async def test_a_number_from_the_future_does_not_silence_a_stream(house: House) -> None:
    """A client whose last event is newer than the feed, after a restored backup, still hears what comes."""
    await house.deliver(a_posted_message(conversation_id="acme_c", text="old"))
    async with house.client(house.key("chat")) as client:
        began = asyncio.Event()
        task = asyncio.create_task(
            listen(client, "/v1/conversations/c/events", at_least(1), after="999999", began=began)
        )
        await began.wait()
        await house.deliver(a_posted_message(conversation_id="acme_c", text="new"))
        heard = await task
    assert ["new"] == [event["data"]["text"] for event in heard]


async def test_a_revoked_key_ends_its_streams(gateway_database_url: str, tmp_path: Path) -> None:
    """At the next heartbeat after its key was revoked a stream is over."""
    async with open_house(gateway_database_url, tmp_path, gateway_heartbeat_seconds=0.05) as house:
        await house.deliver(a_posted_message(conversation_id="acme_c"))
        async with house.client(house.key("chat")) as client:
            heard = asyncio.Event()
            task = asyncio.create_task(listen(client, "/v1/conversations/c/events", never(heard)))
            await heard.wait()
            house.query("UPDATE gateway.api_keys SET revoked_at = now(), revoked_by = 'test'")
            assert ["message"] == [event["type"] for event in await task]
            assert 401 == (await client.get("/v1/conversations/c")).status_code


async def test_a_stopping_gateway_ends_its_streams_at_once(house: House) -> None:
    """Clients are let go while the gateway stops, so that they find another instance."""
    await house.deliver(a_posted_message(conversation_id="acme_c"))
    async with house.client(house.key("chat")) as client:
        heard = asyncio.Event()
        task = asyncio.create_task(listen(client, "/v1/conversations/c/events", never(heard)))
        await heard.wait()
        house.gateways[0].hub.close()
        assert ["message"] == [event["type"] for event in await task]
        late = await listen(client, "/v1/conversations/c/events", lambda _: False)
    assert ["message"] == [event["type"] for event in late]


async def test_a_stopping_gateway_says_that_an_answer_was_cut(house: House) -> None:
    """A page of the AI SDK must not take what it has for the whole answer: an error comes before the end."""
    body = {"id": "cut", "messages": [{"id": "m-1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}]}
    async with (
        house.client(house.key("chat")) as client,
        client.stream("POST", "/api/chat", json=body) as response,
    ):
        lines = response.aiter_lines()
        first = await anext(lines)
        house.gateways[0].hub.close()
        rest = [line async for line in lines if line]
    error = {"type": "error", "errorText": "The stream was let go; load the chat again to go on."}
    assert (": stream-open", error, "data: [DONE]") == (first, json.loads(rest[-2].removeprefix("data: ")), rest[-1])


@pytest.mark.parametrize(
    ("header", "query"), [("x", ""), ("-1", ""), ("9" * 30, ""), ("", "?after=1.5"), ("1\u00b2", "")]
)
async def test_a_last_event_that_is_no_number_is_refused(house: House, header: str, query: str) -> None:
    """Nothing is guessed: 400 names the parameter."""
    await house.deliver(a_posted_message(conversation_id="acme_c"))
    async with house.client(house.key("chat")) as client:
        headers = httpx.Headers({"last-event-id": header} if header else {}, encoding="utf-8")
        answer = await client.get(f"/v1/conversations/c/events{query}", headers=headers)
    assert (400, "after" if query else "last-event-id") == (
        answer.status_code,
        answer.json()["errors"][0]["parameter"],
    )


async def test_a_tokens_stream_is_its_conversation_only(house: House) -> None:
    """A9: other conversations' streams do not exist for a token, other tenants' not for a key."""
    async with house.client(house.key("chat")) as client:
        mine, token = await a_conversation(client)
        other, _ = await a_conversation(client)
    codes = []
    for secret, conversation in ((token, other), (house.key("chat", tenant="rival"), mine), (house.key("admin"), mine)):
        async with house.client(secret) as stranger:
            codes.append((await stranger.get(f"/v1/conversations/{conversation}/events")).status_code)
    assert [404, 404, 403] == codes
