"""Two attacks on a whole system: all of its messages sent again, and every address asked by a stranger."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from placet.contracts.ids import new_id
from placet.contracts.topology import DEAD_LETTERS, EXCHANGES
from placet.deploy.retention.purging import purge_conversations
from placet.runtime.database import Database
from tests.support.people import Caller, Visitor, a_visitor, is_result
from tests.support.system import System


@asynccontextmanager
async def recorded(channel: aio_pika.abc.AbstractChannel) -> AsyncIterator[list[AbstractIncomingMessage]]:
    """Listen to all that services publish while the block runs."""
    queue = await channel.declare_queue(exclusive=True)
    for exchange in EXCHANGES:
        if exchange != DEAD_LETTERS:
            await queue.bind(exchange, "#")
    heard: list[AbstractIncomingMessage] = []

    async def hear(message: AbstractIncomingMessage) -> None:
        heard.append(message)

    tag = await queue.consume(hear, no_ack=True)
    yield heard
    await queue.cancel(tag)


def with_other_ids(body: bytes) -> bytes:
    """Return the same events as new ones: what somebody sends who writes messages of their own."""
    return json.dumps([{**event, "id": new_id()} for event in json.loads(body)]).encode()


async def a_link(visitor: Visitor) -> dict[str, Any]:
    """Ask for a payment link, approve it, and return the card once the agent has answered."""
    await visitor.say("a payment link please")
    card = await visitor.see_card()
    assert 200 == (await visitor.decide(card, "approve")).status_code
    await visitor.see(is_result("create_pay_link"))
    assert "Here is your link." == await visitor.see_answer()
    return card


async def test_all_messages_of_a_call_sent_again_do_nothing(frontend: Caller, system: System) -> None:
    """T5: as they were and as new events, by somebody who may publish anything: no link and no word comes of it."""
    visitor = await a_visitor(frontend)
    told = f"SELECT count(*) FROM agent.log WHERE conversation_id = '{visitor.conversation}'"  # noqa: S608
    links = f"SELECT count(*) FROM tools.pay_links WHERE conversation_id = '{visitor.conversation}'"  # noqa: S608
    async with await aio_pika.connect(system.rabbitmq_url) as connection:
        channel = await connection.channel()
        async with recorded(channel) as heard:
            await a_link(visitor)
        kinds = {event["type"] for message in heard for event in json.loads(message.body)}
        assert {"placet.approval.decide.v1", "placet.tool-call.permitted.v1", "placet.message.posted.v1"} <= kinds
        before = (system.count(told), 1)
        assert before == (system.count(told), system.count(links))
        for change in (bytes, with_other_ids):
            for message in heard:
                again = aio_pika.Message(change(message.body), headers=message.headers, content_type="application/json")
                exchange = await channel.get_exchange(message.exchange or "")
                await exchange.publish(again, message.routing_key or "", mandatory=False)
            # Whatever came before it has been handled once it is through.
            await a_link(await a_visitor(frontend))
    assert before == (system.count(told), system.count(links))


async def test_a_used_permit_is_used_up_once_its_call_was_erased(frontend: Caller, system: System) -> None:
    """T5: whoever kept the permit sends it again while it is good, and the tool does not run a second time."""
    visitor = await a_visitor(frontend, visitor=new_id())
    links, runs = (
        f"SELECT count(*) FROM {table} WHERE conversation_id = '{visitor.conversation}'"  # noqa: S608
        for table in ("tools.pay_links", "executor.executions")
    )
    async with await aio_pika.connect(system.rabbitmq_url) as connection:
        channel = await connection.channel()
        async with recorded(channel) as heard:
            await a_link(visitor)
        database = Database(system.database_url, service="gateway", pool_size=1)
        await purge_conversations(database, timedelta(0), [visitor.conversation])
        await database.close()
        assert 0 == system.count(runs)
        for message in heard:
            if b"placet.tool-call.permitted.v1" in message.body:
                again = aio_pika.Message(with_other_ids(message.body), content_type="application/json")
                exchange = await channel.get_exchange(message.exchange or "")
                await exchange.publish(again, message.routing_key or "")
        # Whatever came before it has been handled once it is through.
        await a_link(await a_visitor(frontend))
    assert (0, 1) == (system.count(runs), system.count(links))


def addresses(description: dict[str, Any], ids: dict[str, str]) -> list[str]:
    """Return each address that is read by GET and does not stream, with these ids in it."""
    found = []
    for path, methods in description["paths"].items():
        answers = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        if "get" in methods and "text/event-stream" not in answers:
            for name, value in ids.items():
                path = path.replace(f"{{{name}}}", value)  # noqa: PLW2901 - filled in
            found.append(path)
    return found


async def test_no_address_tells_a_stranger_anything(frontend: Caller, operator: Caller, system: System) -> None:
    """T29: whatever another tenant's administrator asks for, lists too, no word of this one is in an answer."""
    visitor = await a_visitor(frontend, labels={"canary": "yellow-bird"})
    card = await a_link(visitor)
    ids = {
        "conversation_id": visitor.conversation,
        "approval_id": card["approval_id"],
        "call_id": card["call_id"],
    }
    words = {*ids.values(), "yellow-bird", "a payment link please"}
    key = system.key("chat", "decide", "operate", "admin", tenant="rival", person="mallory")
    stranger, owner = Caller(system.url, key), Caller(system.url, operator.token)
    asked = addresses(await owner.get("/openapi.json"), ids)
    assert len(asked) > 40

    async def told(caller: Caller) -> set[str]:
        answers = await asyncio.gather(*(caller.request("GET", path) for path in asked))
        return {path for path, answer in zip(asked, answers, strict=True) if any(word in answer.text for word in words)}

    seen, own = await told(stranger), await told(owner)
    assert (set(), True) == (seen, {f"/v1/approvals/{card['approval_id']}", f"/v1/tool-calls/{card['call_id']}"} <= own)
