"""Batches form by themselves while one is handled."""

from __future__ import annotations

import asyncio

import pytest

from shared.gathering import PAUSE_MAX_SECONDS, Gathering, pause_after, waves


class Handler:
    """Handles batches when the test says so."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = asyncio.Event()
        self.begun = asyncio.Event()

    async def __call__(self, batch: list[str]) -> None:
        """Note the batch, wait for the gate, fail for the bad one."""
        self.batches.append(batch)
        self.begun.set()
        await self.gate.wait()
        if "bad" in batch:
            raise ValueError("bad")


async def test_what_waits_comes_along_in_the_next_batch() -> None:
    """The first item goes alone and at once; what arrives meanwhile goes together."""
    handler = Handler()
    gathering = Gathering(handler, size_max=64)
    first = asyncio.create_task(gathering.join("a"))
    await handler.begun.wait()
    others = [asyncio.create_task(gathering.join(item)) for item in "bcd"]
    await asyncio.sleep(0)
    handler.gate.set()
    await asyncio.gather(first, *others)
    assert [["a"], ["b", "c", "d"]] == handler.batches


async def test_a_batch_has_a_limit() -> None:
    """Sizes add up to at most the limit, and an item is never split."""
    handler = Handler()
    handler.gate.set()
    gathering = Gathering(handler, size_max=5)
    await asyncio.gather(*(gathering.join(item, size=3) for item in "abc"))
    assert [["a"], ["b"], ["c"]] == handler.batches


async def test_an_error_reaches_its_batch_and_no_other() -> None:
    """Everybody in the failed batch hears of it; the next batch is handled."""
    handler = Handler()
    gathering = Gathering(handler, size_max=1)
    bad, good = asyncio.create_task(gathering.join("bad")), asyncio.create_task(gathering.join("good"))
    handler.gate.set()
    with pytest.raises(ValueError, match="bad"):
        await bad
    await good
    assert [["bad"], ["good"]] == handler.batches


async def test_a_cancelled_caller_does_not_stop_its_neighbours() -> None:
    """A delivery whose channel went away takes nobody with it."""
    handler = Handler()
    gathering = Gathering(handler, size_max=64)
    gone, stays = asyncio.create_task(gathering.join("gone")), asyncio.create_task(gathering.join("stays"))
    await handler.begun.wait()
    gone.cancel()
    handler.gate.set()
    await stays
    assert (True, [["gone", "stays"]]) == (gone.cancelled(), handler.batches)


def test_waves_keep_the_order_of_each_key_and_never_carry_a_key_twice() -> None:
    """What must not be met twice in one statement comes one after the other."""
    items = ["a1", "b1", "a2", "c1", "a3", "b2"]
    assert [["a1", "b1", "c1"], ["a2", "b2"], ["a3"]] == waves(items, key=lambda item: item[0])
    assert [] == waves([], key=str)


@pytest.mark.parametrize(
    ("number", "seconds", "pause"), [(1, 0.005, 0.0), (2, 0.005, 0.005), (64, 5.0, PAUSE_MAX_SECONDS)]
)
def test_only_who_has_neighbours_waits_for_more(number: int, seconds: float, pause: float) -> None:
    """After a batch of several the next one gathers for as long as that took, up to a bound; after one of one, not."""
    assert pause == pause_after(number, seconds)
