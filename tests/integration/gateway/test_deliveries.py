"""Deliveries over HTTP: an administrator sees what was not shown, and has it tried again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet.contracts.messages import RetryDelivery
from tests.support.gateway import House, a_delivery_row, insert


def a_delivery(house: House, number: int = 0, **changes: Any) -> str:
    """Put a delivery into the read view; return its id."""
    values = a_delivery_row(f"delivery-{number}", "approval-1", **changes)
    insert(house.url, "deliveries", **values)
    return str(values["delivery_id"])


async def test_a_given_up_delivery_is_tried_again_for_an_administrator(house: House) -> None:
    """It is listed with its reason; the wish goes to the notifier with who had it."""
    delivery = a_delivery(house)
    a_delivery(house, 1, state="sent", error="")
    async with house.client(house.key("admin", person="grace")) as admin:
        listed = (await admin.get("/v1/deliveries?state=given_up")).json()["items"]
        answer = await admin.post(f"/v1/deliveries/{delivery}/retry")
        told = await asyncio.wait_for(house.retried.get(), 10)
    assert [(delivery, "ada@example.org", "the mailbox is full")] == [
        (each["id"], each["recipient"], each["error"]) for each in listed
    ]
    assert (202, RetryDelivery(tenant="acme", delivery_id=delivery, by="person:grace")) == (answer.status_code, told)


async def test_what_is_shown_is_not_tried_again(house: House) -> None:
    """The card is where it should be: a 409 that says so."""
    delivery = a_delivery(house, state="sent")
    async with house.client(house.key("admin")) as admin:
        answer = await admin.post(f"/v1/deliveries/{delivery}/retry")
    assert (409, "sent") == (answer.status_code, answer.json()["state"])


async def test_deliveries_are_paged_and_belong_to_a_tenant(house: House) -> None:
    """Pages show each delivery of the tenant once; another tenant has none and retries none."""
    mine = [a_delivery(house, number) for number in range(5)]
    async with house.client(house.key("admin")) as admin:
        first = (await admin.get("/v1/deliveries?limit=3")).json()
        second = (await admin.get(f"/v1/deliveries?limit=3&cursor={first['next']}")).json()
    async with house.client(house.key("admin", tenant="rival")) as rival:
        theirs = (await rival.get("/v1/deliveries")).json()["items"]
        stolen = (await rival.post(f"/v1/deliveries/{mine[0]}/retry")).status_code
    seen = [item["id"] for item in first["items"] + second["items"]]
    assert (sorted(mine), None, [], 404) == (sorted(seen), second["next"], theirs, stolen)


@pytest.mark.parametrize("scope", ["chat", "decide"])
async def test_deliveries_are_for_administrators(house: House, scope: str) -> None:
    """They name people's addresses."""
    delivery = a_delivery(house)
    async with house.client(house.key(scope)) as somebody:
        listed = await somebody.get("/v1/deliveries")
        retried = await somebody.post(f"/v1/deliveries/{delivery}/retry")
    assert (403, 403) == (listed.status_code, retried.status_code)
