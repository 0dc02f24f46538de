"""Events for webhooks over HTTP: an administrator sees which were never taken, and has them posted again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet.contracts.messages import RetryWebhookEvent
from tests.builders import NOON
from tests.support.gateway import House, insert


def an_event(house: House, number: int = 0, **changes: Any) -> str:
    """Put an event into the read view; return its id."""
    values = {
        "event_id": f"event-{number}",
        "tenant": "acme",
        "webhook": "crm",
        "type": "approval.opened",
        "state": "given_up",
        "attempt": 10,
        "error": "crm.example answered 500",
        "due_at": NOON,
        "created_at": NOON,
    } | changes
    insert(house.url, "webhook_events", **values)
    return str(values["event_id"])


async def test_an_event_that_was_given_up_is_posted_again_for_an_administrator(house: House) -> None:
    """It is listed with its reason; the wish goes to the notifier with who had it."""
    event = an_event(house)
    an_event(house, 1, state="sent", error="")
    async with house.client(house.key("admin", person="grace")) as admin:
        listed = (await admin.get("/v1/webhook-events?state=given_up")).json()["items"]
        answer = await admin.post(f"/v1/webhook-events/{event}/retry")
        told = await asyncio.wait_for(house.retried.get(), 10)
    assert [(event, "crm", "crm.example answered 500")] == [
        (each["id"], each["webhook"], each["error"]) for each in listed
    ]
    assert (202, RetryWebhookEvent(tenant="acme", event_id=event, by="person:grace")) == (answer.status_code, told)


@pytest.mark.parametrize("state", ["due", "sent"])
async def test_what_was_taken_or_will_be_tried_is_not_posted_again(house: House, state: str) -> None:
    """A 409 that says how it stands."""
    event = an_event(house, state=state)
    async with house.client(house.key("admin")) as admin:
        answer = await admin.post(f"/v1/webhook-events/{event}/retry")
    assert (409, state) == (answer.status_code, answer.json()["state"])


async def test_events_are_paged_and_belong_to_a_tenant(house: House) -> None:
    """Pages show each event of the tenant once; another tenant has none and retries none."""
    mine = [an_event(house, number) for number in range(5)]
    async with house.client(house.key("admin")) as admin:
        first = (await admin.get("/v1/webhook-events?limit=3")).json()
        second = (await admin.get(f"/v1/webhook-events?limit=3&cursor={first['next']}")).json()
    async with house.client(house.key("admin", tenant="rival")) as rival:
        theirs = (await rival.get("/v1/webhook-events")).json()["items"]
        stolen = (await rival.post(f"/v1/webhook-events/{mine[0]}/retry")).status_code
    seen = [item["id"] for item in first["items"] + second["items"]]
    assert (sorted(mine), None, [], 404) == (sorted(seen), second["next"], theirs, stolen)


@pytest.mark.parametrize("scope", ["chat", "decide"])
async def test_events_are_for_administrators(house: House, scope: str) -> None:
    """They tell what other programs are connected."""
    event = an_event(house)
    async with house.client(house.key(scope)) as somebody:
        listed = await somebody.get("/v1/webhook-events")
        retried = await somebody.post(f"/v1/webhook-events/{event}/retry")
    assert (403, 403) == (listed.status_code, retried.status_code)
