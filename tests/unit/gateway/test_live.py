"""The hub: everybody who follows hears, nobody else does, and nobody holds up the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placet.gateway.conversations.items import Delta, Item, ItemType
from placet.gateway.conversations.live import Closed, Hub, Notice, Topic

HERE, THERE = Topic("acme", "c"), Topic("acme", "d")
NEWS = (Item(1, "message", "2026-01-01T00:00:00+00:00", {"message_id": "m-1"}),)

PIECE = Delta("turn-1", 1, "a-1", 0, "Hel")


async def test_who_follows_a_topic_hears_it_and_no_other() -> None:
    """Tenant and conversation both count."""
    hub = Hub(10)
    with hub.follow([HERE]) as following:
        for topic in (THERE, Topic("rival", "c"), Topic("acme")):
            hub.tell_delta(topic, PIECE)
        hub.tell_items(HERE, NEWS)
        assert NEWS == await following.next(1)


async def test_one_client_may_follow_several_topics() -> None:
    """The page follows its conversation and its tenant's approvals with one stream, in order."""
    hub = Hub(10)
    with hub.follow([HERE, Topic("acme")]) as following:
        card = (Item(2, "approval", NEWS[0].at, {"approval_id": "a-1"}),)
        hub.tell_items(HERE, card)
        assert [card, Notice("approvals", {"approval_id": "a-1"})] == [await following.next(1), await following.next(1)]


async def test_silence_is_told_apart_from_the_end() -> None:
    """Nothing in time is None; over is Closed."""
    hub = Hub(10)
    with hub.follow([HERE]) as following:
        assert await following.next(0.001) is None
        hub.close()
        with pytest.raises(Closed):
            await following.next(1)


async def test_a_slow_client_is_let_go_and_the_others_are_not() -> None:
    """One signal more than may wait ends the stream of who does not keep up, and drops what waited."""
    hub = Hub(2)
    with hub.follow([HERE]) as slow, hub.follow([HERE]) as quick:
        for _ in range(3):
            hub.tell_items(HERE, NEWS)
            await quick.next(1)
        with pytest.raises(Closed):
            await slow.next(1)


async def test_who_left_is_forgotten() -> None:
    """A hub holds on to nobody."""
    hub = Hub(10)
    with hub.follow([HERE, THERE]):
        inside = hub.streams
    hub.tell_items(HERE, NEWS)
    assert (1, 0) == (inside, hub.streams)


async def test_a_stream_that_begins_while_the_instance_stops_is_over() -> None:
    """A client that comes too late goes elsewhere at once."""
    hub = Hub(10)
    hub.close()
    with hub.follow([HERE]) as following, pytest.raises(Closed):
        await following.next(1)


def test_a_text_being_written_is_kept_from_its_beginning() -> None:
    """Pieces that join on are one; what does not, or begins over, is another text or none."""
    hub = Hub(10)
    hub.tell_delta(HERE, PIECE)
    hub.tell_delta(HERE, replace(PIECE, offset=3, text="lo"))
    joined = [draft.text for draft in hub.drafts(HERE)]
    hub.tell_delta(HERE, replace(PIECE, offset=9, text="!"))
    broken = hub.drafts(HERE)
    hub.tell_delta(HERE, replace(PIECE, text="Once", reset=True))
    assert (["Hello"], [], ["Once"]) == (joined, broken, [draft.text for draft in hub.drafts(HERE)])


@pytest.mark.parametrize(
    ("kind", "data", "left"),
    [
        ("message", {"message_id": "a-1"}, []),
        ("message", {"message_id": "another"}, ["Hel"]),
        ("turn", {"state": "finished", "turn_id": "turn-1"}, []),
        ("turn", {"state": "finished", "turn_id": "turn-0"}, ["Hel"]),
        ("turn", {"state": "paused", "turn_id": "turn-1"}, ["Hel"]),
    ],
)
def test_a_text_is_forgotten_with_its_message_or_its_turn(
    kind: ItemType, data: dict[str, str], left: list[str]
) -> None:
    """And not with another's: the next turn may be writing already when the word of the end comes."""
    hub = Hub(10)
    hub.tell_delta(HERE, PIECE)
    hub.tell_items(HERE, (Item(2, kind, NEWS[0].at, data),))
    assert left == [draft.text for draft in hub.drafts(HERE)]


def test_only_the_texts_of_the_liveliest_conversations_are_kept() -> None:
    """Memory stays bounded: the conversation that was quiet for longest goes."""
    hub = Hub(10, drafts_max=1)
    hub.tell_delta(HERE, PIECE)
    hub.tell_delta(THERE, PIECE)
    assert ([], ["Hel"]) == ([each.text for each in hub.drafts(HERE)], [each.text for each in hub.drafts(THERE)])
