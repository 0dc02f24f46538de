"""Apprise against a real receiver: places that are told, and can do nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
from pydantic import SecretStr

from placet.notifier.channels import Address, ChannelFailed
from placet.notifier.channels.apprise import UNANSWERED_MAX, AppriseChannel
from placet.notifier.drawing import Pen, first_card, over
from tests.support.cards import closed, opened
from tests.support.webhook_server import Receiver, a_receiver

PLACE = Address("apprise:teams", "teams")
PEN = Pen("de", "https://placet.example", str)


def the_channel(receiver: Receiver) -> AppriseChannel:
    """Return a channel whose one place is the receiver, by Apprise's generic JSON service."""
    return AppriseChannel({"teams": SecretStr(receiver.url.replace("http:", "json:") + "/told")})


async def test_a_place_is_told_of_what_matters_with_the_way_to_the_page() -> None:
    """The opening and the end, in the place's language; a vote in between is no message."""
    news = opened()
    card = first_card(news, PEN, ())
    async with a_receiver() as receiver:
        channel = the_channel(receiver)
        shown = await channel.send(card, PLACE, None, key="1")
        await channel.send(replace(card, happened="voted"), PLACE, shown.reference, key="2")
        await channel.send(over(card, closed(news), PEN), PLACE, shown.reference, key="3")
    first, last = (json.loads(each.body) for each in receiver.heard)
    assert ["Wartet auf eine Entscheidung: create_pay_link", "Freigegeben: create_pay_link"] == [
        each["title"] for each in (first, last)
    ]
    assert news.summary in first["message"]
    assert f"https://placet.example/inbox/{news.approval_id}" in first["message"]


async def test_a_place_hears_each_news_once() -> None:
    """A card that only counts anew tells nothing; the next reminder does."""
    card, reference = first_card(opened(), PEN, ()), None
    reminded = replace(card, happened="reminded", revision=2)
    async with a_receiver() as receiver:
        channel = the_channel(receiver)
        for each in (card, reminded, replace(reminded, revision=3)):
            for similar in range(3):
                shown = await channel.send(replace(each, similar=similar), PLACE, reference, key="any")
                reference = shown.reference
    assert 3 == len(receiver.heard)


async def test_a_place_that_does_not_take_it_is_tried_again() -> None:
    """Apprise tells no more than that it failed."""
    async with a_receiver() as receiver:
        receiver.answers = [(500, {})]
        with pytest.raises(ChannelFailed) as caught:
            await the_channel(receiver).send(first_card(opened(), PEN, ()), PLACE, None, key="1")
    assert not caught.value.permanent


@pytest.mark.parametrize("happened", ["voted", "claimed"])
async def test_a_place_that_was_never_told_is_told_whatever_happened_since(happened: str) -> None:
    """An empty reference is a try that nobody answered: it is no card, and small news is told once in its place."""
    card = first_card(opened(), PEN, ())
    async with a_receiver() as receiver:
        receiver.answers = [(500, {})]
        channel = the_channel(receiver)
        with pytest.raises(ChannelFailed):
            await channel.send(card, PLACE, None, key="1")
        failed = len(receiver.heard)
        shown = await channel.send(replace(card, happened=happened), PLACE, {}, key="2")
        await channel.send(replace(card, happened=happened), PLACE, shown.reference, key="3")
    told = [json.loads(each.body)["title"] for each in receiver.heard[failed:]]
    assert ["Wartet auf eine Entscheidung: create_pay_link"] == told


@asynccontextmanager
async def a_trickle() -> AsyncIterator[tuple[str, asyncio.Queue[None]]]:
    """Run a place whose answers never end; yield its URL, and a queue with an element for each request."""
    asked, over, trickling = asyncio.Queue[None](), asyncio.Event(), list[asyncio.Task[None]]()

    async def trickle(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
        while not over.is_set():
            writer.write(b".")
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), 0.2)
        writer.close()
        await writer.wait_closed()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.put_nowait(None)
        trickling.append(asyncio.create_task(trickle(writer)))

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        try:
            yield f"json://127.0.0.1:{server.sockets[0].getsockname()[1]}/", asked
        finally:
            over.set()
            await asyncio.gather(*trickling)


async def test_a_place_whose_answers_never_end_keeps_no_other() -> None:
    """Many of its requests hang, and when it has had enough no more are sent; the others are told as ever."""
    card = first_card(opened(), PEN, ())
    async with a_receiver() as receiver, a_trickle() as (url, asked):
        channel = AppriseChannel({"slow": SecretStr(url), "teams": SecretStr(receiver.url.replace("http:", "json:"))})
        slow = Address("apprise:slow", "slow")
        hanging = [asyncio.create_task(channel.send(card, slow, None, key="1")) for _ in range(UNANSWERED_MAX)]
        for _ in hanging:
            await asked.get()
        with pytest.raises(ChannelFailed) as caught:
            await channel.send(card, slow, None, key="2")
        await channel.send(card, PLACE, None, key="3")
        for each in hanging:
            each.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
    assert (True, 1, True) == (caught.value.refused, len(receiver.heard), asked.empty())


@pytest.mark.parametrize("urls", [{}, {"teams": SecretStr("nonsense://")}])
async def test_a_place_that_nobody_set_up_is_given_up(urls: dict[str, SecretStr]) -> None:
    """No name, or a URL of no service; the URL, which may hold a secret, is not told."""
    with pytest.raises(ChannelFailed) as caught:
        await AppriseChannel(urls).send(first_card(opened(), PEN, ()), PLACE, None, key="1")
    assert caught.value.permanent
    assert "nonsense" not in str(caught.value)
