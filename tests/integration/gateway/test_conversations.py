"""Opening conversations, writing in them, and seeing how they stand."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from shared.messages import ConversationEnded, ConversationEvent, MessagePosted
from tests.builders import a_call, a_posted_message
from tests.support.gateway import House, a_conversation, an_approval_row, insert, open_house


async def test_a_posted_message_is_readable_at_once_and_on_its_way(house: House) -> None:
    """The answer to a post and the next look agree, and exactly one MessagePosted is in the outbox or beyond."""
    seen: list[str] = []
    async with house.client(house.key("chat")) as client:
        conversation, token = await a_conversation(client, visitor="v-42", language="tr", labels={"shop": "1"})
        async with house.client(token) as visitor:
            posted = await visitor.post(f"/v1/conversations/{conversation}/messages", json={"text": "hello"})
            shown = (await visitor.get(f"/v1/conversations/{conversation}")).json()
    seen = [message["text"] for message in shown["messages"]]
    assert (202, ["hello"], 1) == (posted.status_code, seen, posted.json()["event_id"])
    assert ("v-42", "tr", "idle", 1) == tuple(shown[key] for key in ("requester", "language", "state", "last_event_id"))
    assert shown["messages"][0]["author"] == {"kind": "visitor", "id": "v-42"}


async def test_the_same_message_id_again_is_the_same_message(house: House) -> None:
    """Five posts at once with one message id make one message, and each gets the same answer."""
    async with house.client(house.key("chat")) as client:
        conversation, _ = await a_conversation(client)
        path, body = f"/v1/conversations/{conversation}/messages", {"text": "once", "message_id": "mine"}
        answers = await asyncio.gather(*(client.post(path, json=body) for _ in range(5)))
        shown = (await client.get(f"/v1/conversations/{conversation}")).json()
    assert [202] * 5 == [answer.status_code for answer in answers]
    assert 1 == len({answer.text for answer in answers})
    assert ["once"] == [message["text"] for message in shown["messages"]]
    assert 1 == shown["last_event_id"]


async def test_messages_posted_at_once_are_each_kept_once(gateway_database_url: str, tmp_path: Path) -> None:
    """Through two gateways at the same moment: one number per message, the same for its copies, 404 for no place."""
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
        numbers = {(answer.json()["message_id"], answer.json()["event_id"]) for answer in answers}
        rows = house.query("SELECT data->>'message_id', seq FROM gateway.feed ORDER BY seq")
    assert (404, numbers, [1, 2, 3, 4, 5]) == (lost.status_code, set(rows), [seq for _, seq in rows])


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
        shown = (await client.get(f"/v1/conversations/{conversation}")).json()
    assert author == shown["messages"][0]["author"]


async def test_a_visitor_without_a_name_is_one_per_conversation(house: House) -> None:
    """A token writes as its conversation's own visitor, whatever its bearer says."""
    async with house.client(house.key("chat")) as client:
        conversation, token = await a_conversation(client)
    async with house.client(token) as visitor:
        path = f"/v1/conversations/{conversation}"
        await visitor.post(f"{path}/messages", json={"text": "hi", "author": "person"})
        shown = (await visitor.get(path)).json()
    assert {"kind": "visitor", "id": f"visitor:{conversation}"} == shown["messages"][0]["author"]


async def test_a_conversation_from_the_broker_can_be_read_over_http(house: House) -> None:
    """The first message of an AMQP frontend makes the conversation, also when it comes after others' events."""
    first = a_posted_message(conversation_id="from-amqp", agent="shop", language="de", labels={"a": "b"})
    event = ConversationEvent(
        tenant="acme", conversation_id="from-amqp", turn_id="t", kind="turn_started", payload={"message_id": "m"}
    )
    await house.deliver(event)
    await house.deliver(first)
    await house.deliver(first)
    async with house.client(house.key("chat")) as client:
        shown = (await client.get("/v1/conversations/from-amqp")).json()
    assert ("shop", "de", {"a": "b"}, 2) == tuple(
        shown[key] for key in ("agent", "language", "labels", "last_event_id")
    )


async def test_two_tenants_may_use_the_same_conversation_id(house: House) -> None:
    """AMQP frontends choose ids; equal ones of two tenants are two conversations."""
    await house.deliver(a_posted_message(tenant="acme", conversation_id="same", text="ours"))
    await house.deliver(a_posted_message(tenant="rival", conversation_id="same", text="theirs"))
    async with house.client(house.key("chat", tenant="rival")) as client:
        shown = (await client.get("/v1/conversations/same")).json()
    assert ["theirs"] == [message["text"] for message in shown["messages"]]


async def test_an_id_that_another_tenant_uses_is_refused_at_every_door(house: House) -> None:
    """The agent knows a conversation by its id alone: the second tenant's would be dead letters, so it hears a 409."""
    hello = {"role": "user", "content": "hello"}
    doors: dict[str, dict[str, Any]] = {
        "/api/chat": {"id": "same", "messages": [{"role": "user", "parts": [{"type": "text", "text": "hello"}]}]},
        "/agui": {"threadId": "same", "runId": "r", "messages": [{**hello, "id": "m"}]},
        "/v1/chat/completions": {"model": "default", "messages": [hello], "metadata": {"conversation_id": "same"}},
    }
    await house.deliver(a_posted_message(tenant="acme", conversation_id="same"))
    async with house.client(house.key("chat", tenant="rival")) as rival:
        answers = [await rival.post(door, json=body) for door, body in doors.items()]
    assert [409] * 3 == [answer.status_code for answer in answers]
    assert ["urn:placet:problem:conversation-id-used"] * 3 == [answer.json()["type"] for answer in answers]
    assert [("acme",)] == house.query("SELECT tenant FROM gateway.conversations")


async def test_of_two_tenants_that_opened_the_same_id_the_first_to_write_has_it(house: House) -> None:
    """Also where both write at the same moment; the other one is told, and may write again under another id."""
    for tenant in ("acme", "rival"):
        house.query(
            "INSERT INTO gateway.conversations (tenant, conversation_id, created_by) VALUES (%s, 'same', '')", tenant
        )
    secrets = [house.key("chat", tenant=tenant) for tenant in ("acme", "rival")]
    async with house.client(secrets[0]) as ours, house.client(secrets[1]) as theirs:
        path = "/v1/conversations/same/messages"
        answers = await asyncio.gather(*(client.post(path, json={"text": "hello"}) for client in (ours, theirs)))
        first = [ours, theirs][[answer.status_code for answer in answers].index(202)]
        again = await first.post(path, json={"text": "again"})
    assert ([202, 409], 202) == (sorted(answer.status_code for answer in answers), again.status_code)


async def test_an_envelope_of_many_conversations_is_numbered_without_gaps(house: House) -> None:
    """64 events of several conversations, delivered twice and at once, number each conversation without a gap."""
    messages = [a_posted_message(conversation_id=f"c-{number % 5}") for number in range(64)]
    await asyncio.gather(house.deliver(*messages), house.deliver(*reversed(messages)))
    rows = house.query("SELECT conversation_id, array_agg(seq ORDER BY seq) FROM gateway.feed GROUP BY 1 ORDER BY 1")
    expected = [(f"c-{number}", list(range(1, 14 if number < 4 else 13))) for number in range(5)]
    assert expected == rows


async def test_an_event_that_cannot_be_kept_spoils_no_neighbour(house: House) -> None:
    """An unreadable event goes to the dead letters; the rest of its envelope is kept."""
    buried: list[str] = []

    async def bury(delivery: object) -> None:
        buried.append(str(delivery))

    from shared.topology import DEAD_LETTERS, Destination, queue  # noqa: PLC0415 - only this test buries
    from tests.builders import an_envelope, an_event  # noqa: PLC0415

    house.bus.subscribe(queue(DEAD_LETTERS), bury)
    good = an_envelope(an_event(a_posted_message(conversation_id="c", text="kept")))
    body = b'[{"specversion": "1.0", "id": "x", "type": "nonsense"},' + good[1:]
    await house.bus.publish(Destination("messages", "acme"), body, message_id="m", mandatory=True)
    assert (1, [("kept",)]) == (len(buried), house.query("SELECT data->>'text' FROM gateway.feed"))


async def test_a_conversation_shows_calls_by_status_and_what_waits(house: House) -> None:
    """C2: a waiting call is pending_confirmation with its approval; an answered one success or error with its kind."""
    async with house.client(house.key("chat")) as client:
        conversation, _ = await a_conversation(client)
        waiting = a_call(conversation_id=conversation)
        insert(house.url, "approvals", **an_approval_row(waiting))
        for position, (call, kind) in enumerate([(waiting, None), (a_call(), "denied"), (a_call(), "succeeded")]):
            insert(
                house.url,
                "tool_calls",
                **call.model_dump(
                    include={"call_id", "tenant", "turn_id", "message_id", "tool", "arguments", "digest"}
                ),
                conversation_id=conversation,
                step=1,
                position=position,
                state="x",
                result_kind=kind,
                proposed_at=datetime(2026, 1, 1, tzinfo=UTC),
            )
        shown = (await client.get(f"/v1/conversations/{conversation}")).json()
    assert ["pending_confirmation", "error", "success"] == [call["status"] for call in shown["calls"]]
    assert [None, "denied", "succeeded"] == [call["kind"] for call in shown["calls"]]
    assert ("waiting", [shown["calls"][0]["approval_id"]]) == (
        shown["state"],
        [approval["id"] for approval in shown["approvals"]],
    )


@pytest.mark.parametrize(
    ("approval", "execution", "status"),
    [
        ("pending", None, "pending_confirmation"),
        ("approved", None, "decided"),
        ("denied", None, "decided"),
        ("approved", "running", "executing"),
        ("approved", "verifying", "executing"),
        (None, "running", "executing"),
        (None, None, "proposed"),
    ],
)
async def test_a_call_is_told_to_wait_only_while_it_waits(
    house: House, approval: str | None, execution: str | None, status: str
) -> None:
    """Once people have decided it is decided, then executing, in both places that tell it; its approval stays named."""
    async with house.client(house.key("chat", "decide")) as client:
        conversation, _ = await a_conversation(client)
        call = a_call(conversation_id=conversation)
        of_call = call.model_dump(include={"call_id", "tenant", "turn_id", "message_id", "tool", "arguments", "digest"})
        place = {
            "conversation_id": conversation,
            "step": 1,
            "position": 0,
            "proposed_at": datetime(2026, 1, 1, tzinfo=UTC),
        }
        insert(house.url, "tool_calls", **of_call, **place, state="x")
        row = an_approval_row(call, state=approval or "")
        if approval:
            insert(house.url, "approvals", **row)
        if execution:
            began = {"call_id": call.call_id, "tenant": "acme", "conversation_id": conversation}
            insert(house.url, "executions", **began, pool="default", state=execution, fence=1)
        (shown,) = (await client.get(f"/v1/conversations/{conversation}")).json()["calls"]
        told = (await client.get(f"/v1/tool-calls/{call.call_id}")).json()
    assert (status, status, row["approval_id"] if approval else None) == (
        shown["status"],
        told["status"],
        shown["approval_id"],
    )


async def test_a_conversation_works_while_its_turn_runs(house: House) -> None:
    """The state is working from the turn's start until its end is told in the feed, then idle."""
    async with house.client(house.key("chat")) as client:
        conversation, _ = await a_conversation(client)
        now = datetime.now(UTC)
        values = {"tenant": "acme", "conversation_id": conversation, "turn_id": "t", "started_at": now}
        insert(house.url, "turns", **values, state="thinking")
        running = (await client.get(f"/v1/conversations/{conversation}")).json()["state"]
        house.query("UPDATE read.turns SET ended_at = now()")
        untold = (await client.get(f"/v1/conversations/{conversation}")).json()["state"]
        ended = {"tenant": "acme", "conversation_id": conversation, "turn_id": "t", "kind": "turn_ended"}
        await house.deliver(ConversationEvent(**ended, payload={"state": "finished", "reason": ""}))
        over = (await client.get(f"/v1/conversations/{conversation}")).json()["state"]
    assert ("working", "working", "idle") == (running, untold, over)


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
    ((event,),) = house.query("SELECT event::jsonb -> 'data' FROM kept")
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
        shown = (await client.get(path)).json()
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
    feed = house.query("SELECT data FROM gateway.feed WHERE type = 'conversation'")
    assert [({"state": "ended", "by": "person:ada"},)] == feed
    posted = [await asyncio.wait_for(house.posted.get(), 20) for _ in range(2)]
    assert [MessagePosted, ConversationEnded] == [type(message) for message in posted]


async def test_what_comes_by_amqp_after_the_end_is_not_shown(house: House) -> None:
    """A frontend on RabbitMQ may not have heard of the end; what the agent still says is shown."""
    async with house.client(house.key("chat")) as client:
        conversation, _ = await a_conversation(client)
        await client.post(f"/v1/conversations/{conversation}/end")
        await house.deliver(a_posted_message(conversation_id=conversation, text="late"))
        last_words = {"message_id": "a-1", "step": 1, "text": "It is over."}
        place = {"tenant": "acme", "conversation_id": conversation, "turn_id": "t"}
        await house.deliver(ConversationEvent(**place, kind="assistant_message", payload=last_words))
        shown = (await client.get(f"/v1/conversations/{conversation}")).json()
    assert ["It is over."] == [message["text"] for message in shown["messages"]]


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
