"""Batches form by themselves while one is handled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from placet.contracts.errors import Refused
from placet.runtime.batcher import PAUSE_MAX_SECONDS, Batcher, pause_after, waves
from placet.runtime.driver import Outage


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
    batcher = Batcher[str, None](handler, size_max=64)
    first = asyncio.create_task(batcher.submit("a"))
    await handler.begun.wait()
    others = [asyncio.create_task(batcher.submit(item)) for item in "bcd"]
    await asyncio.sleep(0)
    handler.gate.set()
    await asyncio.gather(first, *others)
    assert [["a"], ["b", "c", "d"]] == handler.batches


async def test_a_batch_has_a_limit() -> None:
    """Sizes add up to at most the limit, and an item is never split."""
    handler = Handler()
    handler.gate.set()
    batcher = Batcher[str, None](handler, size_max=5)
    await asyncio.gather(*(batcher.submit(item, size=3) for item in "abc"))
    assert [["a"], ["b"], ["c"]] == handler.batches


async def test_an_error_reaches_its_batch_and_no_other() -> None:
    """Everybody in the failed batch hears of it; the next batch is handled."""
    handler = Handler()
    batcher = Batcher[str, None](handler, size_max=1)
    bad, good = asyncio.create_task(batcher.submit("bad")), asyncio.create_task(batcher.submit("good"))
    handler.gate.set()
    with pytest.raises(ValueError, match="bad"):
        await bad
    await good
    assert [["bad"], ["good"]] == handler.batches


async def test_a_cancelled_caller_does_not_stop_its_neighbours() -> None:
    """A delivery whose channel went away takes nobody with it."""
    handler = Handler()
    batcher = Batcher[str, None](handler, size_max=64)
    gone, stays = asyncio.create_task(batcher.submit("gone")), asyncio.create_task(batcher.submit("stays"))
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


class Desk:
    """Doubles numbers when the gate is open; refuses 0 and breaks at a negative one."""

    def __init__(self, broken: Exception) -> None:
        self.broken = broken
        self.batches: list[list[int]] = []
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.batcher = Batcher[int, int](self._answer, isolate=True)

    async def _answer(self, numbers: Sequence[int]) -> list[int | Exception]:
        self.batches.append(list(numbers))
        self.begun.set()
        await self.gate.wait()
        if min(numbers) < 0:
            raise self.broken
        return [number * 2 if number else Refused("none") for number in numbers]


async def asked_together(desk: Desk, *numbers: int) -> list[int | BaseException]:
    """Ask for 9 first, and for `numbers` while it is answered; return the outcomes of `numbers`."""
    tasks = [asyncio.create_task(desk.batcher.submit(9))]
    await desk.begun.wait()
    tasks += [asyncio.create_task(desk.batcher.submit(number)) for number in numbers]
    await asyncio.sleep(0)
    desk.gate.set()
    return (await asyncio.gather(*tasks, return_exceptions=True))[1:]


async def test_a_refusal_in_a_batch_is_for_its_own_request() -> None:
    """Who is refused is told so, and the others of the same transaction have their answers."""
    desk = Desk(ValueError())
    first, refused, last = await asked_together(desk, 1, 0, 2)
    assert ([[9], [1, 0, 2]], 2, 4) == (desk.batches, first, last)
    assert isinstance(refused, Refused)


async def test_a_request_that_breaks_the_batch_spoils_no_neighbour() -> None:
    """Where a transaction fails, each of its requests has one of its own, and only the bad one fails."""
    desk = Desk(ValueError("bad"))
    good, bad = await asked_together(desk, 1, -1)
    assert ([[9], [1, -1], [1], [-1]], 2) == (desk.batches, good)
    assert isinstance(bad, ValueError)


async def test_a_request_alone_fails_with_its_own_error() -> None:
    """Nothing is tried a second time where there is no neighbour."""
    desk = Desk(ValueError("bad"))
    desk.gate.set()
    with pytest.raises(ValueError, match="bad"):
        await desk.batcher.submit(-1)
    assert [[-1]] == desk.batches


async def test_an_outage_is_told_to_everybody_at_once() -> None:
    """While the database is away, trying each request alone would only make all of them wait."""
    desk = Desk(Outage())
    outcomes = await asked_together(desk, 1, -1)
    assert [Outage] * 2 == [type(each) for each in outcomes]
    assert [[9], [1, -1]] == desk.batches
