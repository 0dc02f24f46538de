"""Apprise against a real receiver: places that are told, and can do nothing else."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pydantic import SecretStr

from placet.notifier.channels import Address, ChannelFailed
from placet.notifier.channels.apprise import AppriseChannel
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


@pytest.mark.parametrize("urls", [{}, {"teams": SecretStr("nonsense://")}])
async def test_a_place_that_nobody_set_up_is_given_up(urls: dict[str, SecretStr]) -> None:
    """No name, or a URL of no service; the URL, which may hold a secret, is not told."""
    with pytest.raises(ChannelFailed) as caught:
        await AppriseChannel(urls).send(first_card(opened(), PEN, ()), PLACE, None, key="1")
    assert caught.value.permanent
    assert "nonsense" not in str(caught.value)
