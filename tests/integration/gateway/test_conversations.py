"""Opening conversations, writing in them, and seeing how they stand."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.contracts.messages import ConversationEnded, MessagePosted
from tests.builders import a_call, a_posted_message
from tests.support.gateway import House, a_conversation, an_approval_row, insert, open_house, tool_call


async def shown_with(house: House, client: httpx.AsyncClient, conversation: str, items: int) -> Any:
    """Return a conversation as it stands, once the log has so many items."""
    while True:
        shown = (await client.get(f"/v1/conversations/{conversation}")).json()
        if shown["last_event_id"] >= items:
            return shown


async def test_a_posted_message_is_on_its_way_and_appears_in_the_log(house: House) -> None:
    """What the agent has taken is what a look shows, in the visitor's name."""
    async with house.client(house.key("chat")) as client:
        conversation, token = await a_conversation(client, visitor="v-42", language="tr", labels={"shop": "1"})
        async with house.client(token) as visitor:
            posted = await visitor.post(f"/v1/conversations/{conversation}/messages", json={"text": "hello"})
            shown = await shown_with(house, visitor, conversation, 1)
    seen = [(message["text"], message["id"]) for message in shown["messages"]]
    assert (202, [("hello", posted.json()["message_id"])]) == (posted.status_code, seen)
    assert ("v-42", "tr", "idle", 1) == tuple(shown[key] for key in ("requester", "language", "state", "last_event_id"))
    assert shown["messages"][0]["author"] == {"kind": "visitor", "id": "v-42"}


async def test_the_same_message_id_again_is_the_same_message(house: House) -> None:
    """Five posts at once with one message id make one message, and each gets the same answer."""
    async with house.client(house.key("chat")) as client:
        conversation, _ = await a_conversation(client)
        path, body = f"/v1/conversations/{conversation}/messages", {"text": "once", "message_id": "mine"}
        answers = await asyncio.gather(*(client.post(path, json=body) for _ in range(5)))
        shown = await shown_with(house, client, conversation, 1)
    assert [202] * 5 == [answer.status_code for answer in answers]
    assert 1 == len({answer.text for answer in answers})
    assert ["once"] == [message["text"] for message in shown["messages"]]
    assert 1 == shown["last_event_id"]


async def test_messages_posted_at_once_are_each_kept_once(gateway_database_url: str, tmp_path: Path) -> None:
    """Through two gateways at the same moment: one item per message, whatever copies there are, 404 for no place."""
    async with open_house(gateway_database_url, tmp_path, gateways=2) as house:
        key = house.key("chat")
        async with house.client(key) as one, house.client(key, gateway=1) as other:
            conversation, _ = await a_conversation(one)
            path = f"/v1/conversations/{conversation}/messages"
            posts = [
                client.post(path, json={"text": f"text {number}", "message_id": f"m-{number}"})
                for number in range(5)
                for client in (one, other, one)
            ]
            missing = one.post("/v1/conversations/nowhere/messages", json={"text": "hi"})
            lost, *answers = await asyncio.gather(missing, *posts)
            shown = await shown_with(house, one, conversation, 5)
    told = {answer.json()["message_id"] for answer in answers}
    assert (404, told, 5) == (lost.status_code, {message["id"] for message in shown["messages"]}, len(told))


async def test_a_message_id_used_for_another_text_is_refused(house: House) -> None:
    """A message id names one text; another text under it is a mistake that is told."""
    async with house.client(house.key("chat")) as client:
        conversation, _ = await a_conversation(client)
        path = f"/v1/conversations/{conversation}/messages"
        await client.post(path, json={"text": "one", "message_id": "mine"})
        second = await client.post(path, json={"text": "two", "message_id": "mine"})
    assert (409, "urn:placet:problem:message-id-used") == (second.status_code, second.json()["type"])


@pytest.mark.parametrize(
    ("opening", "body", "author"),
    [
        ({"visitor": "v-42"}, {}, {"kind": "visitor", "id": "v-42"}),
        ({"visitor": "v-42"}, {"author": "person"}, {"kind": "person", "id": "person:ada"}),
        ({}, {}, {"kind": "person", "id": "person:ada"}),
    ],
)
async def test_a_key_writes_for_the_visitor_it_opened_for_or_as_its_owner(
    house: House, opening: dict[str, str], body: dict[str, str], author: dict[str, str]
) -> None:
    """Who a message is from follows from the conversation, unless the key says otherwise."""
    async with house.client(house.key("chat")) as client:
        conversation, _ = await a_conversation(client, **opening)
        await client.post(f"/v1/conversations/{conversation}/messages", json={"text": "hi", **body})
        shown = await shown_with(house, client, conversation, 1)
    assert author == shown["messages"][0]["author"]


async def test_a_visitor_without_a_name_is_one_per_conversation(house: House) -> None:
    """A token writes as its conversation's own visitor, whatever its bearer says."""
    async with house.client(house.key("chat")) as client:
        conversation, token = await a_conversation(client)
    async with house.client(token) as visitor:
        path = f"/v1/conversations/{conversation}"
        await visitor.post(f"{path}/messages", json={"text": "hi", "author": "person"})
        shown = await shown_with(house, visitor, conversation, 1)
    assert {"kind": "visitor", "id": f"visitor:{conversation}"} == shown["messages"][0]["author"]


async def test_a_conversation_from_the_broker_can_be_read_over_http(house: House) -> None:
    """The first message of an AMQP frontend makes the conversation; the gateway adopts it as the agent has it."""
    await house.deliver(
        a_posted_message(conversation_id="acme_from-amqp", agent="shop", language="de", labels={"a": "b"})
    )
    async with house.client(house.key("chat")) as client:
        shown = (await client.get("/v1/conversations/from-amqp")).json()
    assert ("shop", "de", {"a": "b"}, 1) == tuple(
        shown[key] for key in ("agent", "language", "labels", "last_event_id")
    )


async def test_what_is_remembered_of_a_conversation_is_checked_as_a_message_is_stored(
    gateway_database_url: str, tmp_path: Path
) -> None:
    """Another replica moved the holder, and then ended it: the next messages here are judged by that."""
    async with open_house(gateway_database_url, tmp_path, gateways=2) as house:
        key = house.key("chat", "operate")
        async with house.client(key) as here, house.client(key, gateway=1) as there:
            conversation, _ = await a_conversation(here)
            path = f"/v1/conversations/{conversation}"
            await here.post(f"{path}/messages", json={"text": "one"})
            await there.post(f"{path}/takeover")
            await here.post(f"{path}/messages", json={"text": "two"})
            await there.post(f"{path}/end")
            late = await here.post(f"{path}/messages", json={"text": "three"})
        posted = [await asyncio.wait_for(house.posted.get(), 20) for _ in range(4)]
    held = {each.text: each.held_revision for each in posted if isinstance(each, MessagePosted)}
    assert ({"one": 0, "two": 1}, 409) == (held, late.status_code)


async def test_a_conversation_shows_calls_by_status_and_what_waits(house: House) -> None:
    """C2: a waiting call is pending_confirmation with its approval; an answered one success or error with its kind."""
    async with house.client(house.key("chat")) as client:
        conversation, _ = await a_conversation(client)
        waiting, refused, ran, runs = (a_call(conversation_id=conversation, call_id=f"c-{at}") for at in range(4))
        insert(house.url, "approvals", **an_approval_row(waiting))
        insert(house.url, "executions", call_id="c-3", tenant="acme", pool="default", state="running", fence=1)
        card = {"approval_id": "approval-c-0", "call_id": "c-0", "state": "pending", "digest": waiting.digest}
        await house.append(conversation, *map(tool_call, (waiting, refused, ran, runs)), ("approval", card))
        for call, status, kind in ((refused, "error", "denied"), (ran, "success", "succeeded")):
            told = {"call_id": call.call_id, "turn_id": call.turn_id, "tool": call.tool, "status": status, "kind": kind}
            await house.append(conversation, ("tool_call", told))
        shown = (await client.get(f"/v1/conversations/{conversation}")).json()
    assert ["pending_confirmation", "error", "success", "executing"] == [call["status"] for call in shown["calls"]]
    assert [None, "denied", "succeeded", None] == [call["kind"] for call in shown["calls"]]
    assert ("waiting", [shown["calls"][0]["approval_id"]]) == (
        shown["state"],
        [approval["id"] for approval in shown["approvals"]],
    )


async def test_the_message_carries_what_its_conversation_was_opened_with(house: House) -> None:
    """Agent, language and labels of the opening reach the agent with each message."""
    async with house.client(house.key("chat")) as client:
        conversation, _ = await a_conversation(client, agent="shop", language="tr", labels={"vip": "yes"})
        house.query("CREATE TABLE kept AS SELECT * FROM gateway.outbox")
        house.query(
            "CREATE FUNCTION keep() RETURNS trigger AS 'BEGIN INSERT INTO kept SELECT NEW.*; RETURN NEW; END'"
            " LANGUAGE plpgsql"
        )
        house.query("CREATE TRIGGER keep BEFORE INSERT ON gateway.outbox FOR EACH ROW EXECUTE FUNCTION keep()")
        await client.post(f"/v1/conversations/{conversation}/messages", json={"text": "hi", "message_id": "m-1"})
    ((event,),) = house.query("SELECT events[1]::jsonb -> 'data' FROM kept")
    message = MessagePosted.model_validate(event)
    assert ("shop", "tr", {"vip": "yes"}, "m-1") == (
        message.agent,
        message.language,
        message.labels,
        message.message_id,
    )


async def test_nobody_writes_in_a_conversation_that_has_ended(house: House) -> None:
    """409 for whoever writes next; a message that was there before keeps its answer, and ending again does nothing."""
    async with house.client(house.key("chat")) as client:
        conversation, token = await a_conversation(client, visitor="v-42")
        path = f"/v1/conversations/{conversation}"
        first = await client.post(f"{path}/messages", json={"text": "hi", "message_id": "mine"})
        ended = [(await client.post(f"{path}/end")).status_code for _ in range(2)]
        again = await client.post(f"{path}/messages", json={"text": "hi", "message_id": "mine"})
        late = await client.post(f"{path}/messages", json={"text": "one more"})
        shown = await shown_with(house, client, conversation, 2)
    async with house.client(token) as visitor:
        by_token = await visitor.post(f"{path}/messages", json={"text": "yes"})
    assert ([204, 204], first.json()) == (ended, again.json())
    assert [409, 409] == [each.status_code for each in (late, by_token)]
    assert "urn:placet:problem:conversation-ended" == late.json()["type"] == by_token.json()["type"]
    assert ("ended", late.json()["ended_at"], ["hi"]) == (
        shown["state"],
        shown["ended_at"],
        [message["text"] for message in shown["messages"]],
    )
    posted = [await asyncio.wait_for(house.posted.get(), 20) for _ in range(2)]
    assert [MessagePosted, ConversationEnded] == [type(message) for message in posted]


async def test_only_who_writes_in_a_conversation_ends_it(house: House) -> None:
    """A visitor ends their own and no other; a key that may only decide ends none."""
    async with house.client(house.key("chat")) as client:
        (mine, token), (other, _) = [await a_conversation(client) for _ in range(2)]
    async with house.client(token) as visitor, house.client(house.key("decide")) as decider:
        answers = [
            await visitor.post(f"/v1/conversations/{other}/end"),
            await decider.post(f"/v1/conversations/{mine}/end"),
            await visitor.post(f"/v1/conversations/{mine}/end"),
        ]
    assert [404, 403, 204] == [answer.status_code for answer in answers]
