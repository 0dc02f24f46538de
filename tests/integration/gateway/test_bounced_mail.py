"""The door for bounces: with an administrator's key, for mails of their own tenant."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import pytest

from placet.contracts.messages import MailBounced
from placet.contracts.topology import queue
from placet.runtime.bus import Delivery
from placet.runtime.consumer import read_envelope
from tests.support.bounced_mail import MAIL, a_bounce
from tests.support.gateway import House, insert

PATH = "/v1/mail/bounces"
KIND = {"content-type": "message/rfc822"}


@pytest.fixture
def bounced(house: House) -> asyncio.Queue[Any]:
    """What reaches the notifier."""
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def take(delivery: Delivery) -> None:
        for event in read_envelope(delivery.body)[0]:
            heard.put_nowait(event.message)

    house.bus.subscribe(queue("notifier.bounces"), take)
    return heard


async def hand_over(client: httpx.AsyncClient, raw: bytes) -> tuple[int, dict[str, Any]]:
    """Hand a mail over."""
    answer = await client.post(PATH, content=raw, headers=KIND)
    return answer.status_code, answer.json()


async def test_a_bounce_reaches_the_notifier(house: House, bounced: asyncio.Queue[Any]) -> None:
    """With the mail's id and the words of the mail system."""
    insert(house.url, "mails", mail_id=MAIL, tenant="acme")
    async with house.client(house.key("admin")) as client:
        answer = await hand_over(client, a_bounce())
    async with asyncio.timeout(10):
        news = await bounced.get()
    assert (202, {"taken_as": "bounce"}) == answer
    assert MailBounced(tenant="acme", mail_id=MAIL, status="5.1.1", reason="smtp; 550 5.1.1 no such user") == news


@pytest.mark.parametrize("raw", [b"To: bounces@example.org\n\nOn holiday.", a_bounce(mail="f" * 32), b""])
async def test_any_other_mail_is_taken_for_nothing(house: House, raw: bytes) -> None:
    """Whatever feeds the door has no reason to try again; another tenant's mail is not told from none."""
    insert(house.url, "mails", mail_id="f" * 32, tenant="other")
    async with house.client(house.key("admin")) as client:
        answer = await hand_over(client, raw)
    assert (202, {"taken_as": "nothing"}) == answer


async def test_the_door_is_for_administrators_and_for_mails(house: House) -> None:
    """Nobody else takes people's addresses off, and what is no mail is refused."""
    async with house.client(house.key("decide")) as decider, house.client() as nobody:
        refused = [(await hand_over(client, a_bounce()))[0] for client in (decider, nobody)]
    async with house.client(house.key("admin")) as client:
        form = (await client.post(PATH, json={})).status_code
    assert ([403, 401], 415) == (refused, form)


async def test_a_large_mail_keeps_nobody_waiting(house: House) -> None:
    """A report on hundreds of thousands of recipients takes a second or so to parse; all else goes on meanwhile."""
    raw = b"Content-Type: message/delivery-status\n\n" + b"\n" * 200_000
    pauses = []
    async with house.client(house.key("admin")) as client:
        begun = seen = time.monotonic()
        handing_over = asyncio.create_task(hand_over(client, raw))
        while not handing_over.done():
            await asyncio.sleep(0)
            pauses.append(time.monotonic() - seen)
            seen = time.monotonic()
    assert (202, {"taken_as": "nothing"}) == await handing_over
    assert max(pauses) < (time.monotonic() - begun) / 2
