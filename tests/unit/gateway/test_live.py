"""The hub: everybody who follows hears, nobody else does, and nobody holds up the others."""

from __future__ import annotations

import pytest

from services.gateway.live import Advanced, Closed, Hub, Topic, Transient

HERE, THERE = Topic("acme", "c"), Topic("acme", "d")
NEWS = Advanced(({"id": 1},))


async def test_who_follows_a_topic_hears_it_and_no_other() -> None:
    """Tenant and conversation both count."""
    hub = Hub(10)
    with hub.follow([HERE]) as following:
        for topic in (THERE, Topic("rival", "c"), Topic("acme")):
            hub.tell(topic, Transient("delta", {}))
        hub.tell(HERE, NEWS)
        assert NEWS == await following.next(1)


async def test_one_client_may_follow_several_topics() -> None:
    """The page follows its conversation and its tenant's approvals with one stream, in order."""
    hub = Hub(10)
    with hub.follow([HERE, Topic("acme")]) as following:
        hub.tell(HERE, NEWS)
        hub.tell(Topic("acme"), Transient("approvals", {}))
        assert [NEWS, Transient("approvals", {})] == [await following.next(1), await following.next(1)]


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
            hub.tell(HERE, NEWS)
            await quick.next(1)
        with pytest.raises(Closed):
            await slow.next(1)


async def test_who_left_is_forgotten() -> None:
    """A hub holds on to nobody."""
    hub = Hub(10)
    with hub.follow([HERE, THERE]):
        inside = hub.streams
    hub.tell(HERE, NEWS)
    assert (1, 0) == (inside, hub.streams)


async def test_a_stream_that_begins_while_the_instance_stops_is_over() -> None:
    """A client that comes too late goes elsewhere at once."""
    hub = Hub(10)
    hub.close()
    with hub.follow([HERE]) as following, pytest.raises(Closed):
        await following.next(1)
