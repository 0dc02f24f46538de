"""Ids that clients choose are a tenant's own: two tenants choose the same ones at every door and never meet."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aio_pika
import httpx
import pytest

from placet.contracts.frontends import frontend_key
from placet.contracts.ids import new_id, own_id
from placet.contracts.messages import Author, MessagePosted
from tests.builders import an_envelope, an_event
from tests.support.people import Caller, Visitor
from tests.support.system import System, until

TENANTS = ("acme", "rival")


@dataclass(frozen=True)
class Tenant:
    """A tenant's own program."""

    name: str
    caller: Caller

    async def shown(self, chosen: str) -> dict[str, Any]:
        """Return the conversation that this tenant's client calls `chosen`."""
        shown: dict[str, Any] = await self.caller.get(f"/v1/conversations/{own_id(self.name, chosen)}")
        return shown

    async def others(self, chosen: str) -> list[int]:
        """Return what is answered where it asks for the other tenant's: reads it, writes in it, ends it."""
        (other,) = {*TENANTS} - {self.name}
        path = f"/v1/conversations/{own_id(other, chosen)}"
        asked = [("GET", path, None), ("POST", f"{path}/messages", {"text": "me too"}), ("POST", f"{path}/end", None)]
        return [(await self.caller.request(method, at, json=body)).status_code for method, at, body in asked]


@pytest.fixture
def tenants(system: System) -> list[Tenant]:
    """Two tenants of one house."""
    rights = ("chat", "decide")
    return [Tenant(name, Caller(system.url, system.key(*rights, tenant=name, person="pat"))) for name in TENANTS]


def posted(door: str, chosen: str, text: str, message_id: str) -> tuple[str, Mapping[str, Any], Mapping[str, str]]:
    """Return path, body and headers of a message at a door, with ids of the client's."""
    said = {"id": message_id, "role": "user", "content": text}
    match door:
        case "ai-sdk":
            message = {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}
            return "/api/chat", {"id": chosen, "messages": [message]}, {}
        case "ag-ui":
            return "/agui", {"threadId": chosen, "runId": "r1", "messages": [said]}, {}
        case _:
            body = {"model": "default", "messages": [{"role": "user", "content": text}]}
            return "/v1/chat/completions", body, {"placet-conversation": chosen, "idempotency-key": message_id}


def answered(answer: httpx.Response) -> bool:
    """Whether the agent answers there: whole, or in the pieces of its text, as the model wrote them."""
    return "how can I help" in "".join(re.findall(r'"(?:delta|content)": ?"([^"]*)"', answer.text))


@pytest.mark.parametrize("door", ["ai-sdk", "ag-ui", "completions"])
async def test_the_same_ids_over_http_are_two_conversations(tenants: list[Tenant], door: str) -> None:
    """Both begin at once, both are answered; neither sees the other's words, nor reaches them by their whole id."""
    chosen, message_id = new_id(), new_id()

    async def say(tenant: Tenant) -> httpx.Response:
        path, body, headers = posted(door, chosen, f"hello from {tenant.name}", message_id)
        return await tenant.caller.request("POST", path, json=body, headers=dict(headers))

    answers = await asyncio.gather(*map(say, tenants))
    assert [(200, True)] * 2 == [(each.status_code, answered(each)) for each in answers]
    for tenant in tenants:
        texts = [message["text"] for message in (await tenant.shown(chosen))["messages"]]
        assert [f"hello from {tenant.name}", "Hello, how can I help you today?"] == texts
        assert [404, 404, 404] == await tenant.others(chosen)


async def test_the_same_ids_over_amqp_are_two_conversations(tenants: list[Tenant], system: System) -> None:
    """Message ids and even the events' ids are equal: neither is taken for the other's, sent twice."""
    chosen, message_id, event_id = new_id(), new_id(), new_id()
    async with await aio_pika.connect(system.rabbitmq_url) as connection:
        messages = await (await connection.channel()).get_exchange("messages")
        for tenant in tenants:
            message = MessagePosted(
                tenant=tenant.name,
                conversation_id=own_id(tenant.name, chosen),
                message_id=message_id,
                text=f"hello from {tenant.name}",
                author=Author(kind="visitor", id="somebody"),
            )
            body = an_envelope(an_event(message, id=event_id, time=datetime.now(UTC)))
            for _ in range(2):
                await messages.publish(aio_pika.Message(body), frontend_key(tenant.name))
    for tenant in tenants:
        reader = Visitor(system.url, tenant.caller.token, conversation=own_id(tenant.name, chosen))

        async def known(reader: Visitor = reader) -> bool:
            return (await reader.request("GET", reader.path)).status_code == 200

        await until(known, "the gateway knows the conversation")
        assert "Hello, how can I help you today?" == await reader.see_answer()
        texts = [message["text"] for message in (await tenant.shown(chosen))["messages"]]
        assert [f"hello from {tenant.name}", "Hello, how can I help you today?"] == texts


async def test_the_same_id_of_a_job_is_two_jobs(tenants: list[Tenant]) -> None:
    """Neither job takes the place of the other, and neither tenant sees the other's."""
    chosen = new_id()
    sent = [await tenant.caller.post("/v1/jobs", {"id": chosen, "task": "add"}) for tenant in tenants]
    assert [own_id(name, chosen) for name in TENANTS] == [each["id"] for each in sent]
    acme, rival = tenants

    async def there() -> bool:
        found = [
            await each.caller.request("GET", f"/v1/jobs/{job['id']}") for each, job in zip(tenants, sent, strict=True)
        ]
        return [200, 200] == [each.status_code for each in found]

    await until(there, "both jobs are there")
    assert 404 == (await acme.caller.request("GET", f"/v1/jobs/{sent[1]['id']}")).status_code
    assert 404 == (await rival.caller.request("POST", f"/v1/jobs/{sent[0]['id']}/cancel")).status_code


async def test_a_card_in_a_conversation_of_the_same_id_is_one_tenants(tenants: list[Tenant]) -> None:
    """The other tenant cannot decide, see or find it, whatever its own conversation is called."""
    chosen, (_, rival) = new_id(), tenants
    for tenant in tenants:
        path, body, _ = posted("ai-sdk", chosen, "hello" if tenant is rival else "set the flag", new_id())
        assert 200 == (await tenant.caller.request("POST", path, json=body)).status_code
    ((card,), theirs) = [
        (await each.caller.get("/v1/approvals", params={"conversation": own_id(each.name, chosen)}))["items"]
        for each in tenants
    ]
    forged = {"approval_id": card["id"], "digest": card["digest"]}
    assert ([], 404) == (theirs, (await rival.caller.decide(forged, "approve")).status_code)
