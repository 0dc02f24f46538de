"""Requests that share a transaction are answered each for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from services.gateway.together import Together
from shared.driver import Outage
from shared.errors import Refused


class Desk:
    """Doubles numbers when the gate is open; refuses 0 and breaks at a negative one."""

    def __init__(self, broken: Exception) -> None:
        self.broken = broken
        self.batches: list[list[int]] = []
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.together = Together(self._answer)

    async def _answer(self, numbers: Sequence[int]) -> list[int | Exception]:
        self.batches.append(list(numbers))
        self.begun.set()
        await self.gate.wait()
        if min(numbers) < 0:
            raise self.broken
        return [number * 2 if number else Refused("none") for number in numbers]


async def asked_together(desk: Desk, *numbers: int) -> list[int | BaseException]:
    """Ask for 9 first, and for `numbers` while it is answered; return the outcomes of `numbers`."""
    tasks = [asyncio.create_task(desk.together.ask(9))]
    await desk.begun.wait()
    tasks += [asyncio.create_task(desk.together.ask(number)) for number in numbers]
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
        await desk.together.ask(-1)
    assert [[-1]] == desk.batches


async def test_an_outage_is_told_to_everybody_at_once() -> None:
    """While the database is away, trying each request alone would only make all of them wait."""
    desk = Desk(Outage())
    outcomes = await asked_together(desk, 1, -1)
    assert [Outage] * 2 == [type(each) for each in outcomes]
    assert [[9], [1, -1]] == desk.batches
