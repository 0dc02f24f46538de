"""The watchdog of the event loop: what keeps it is ended, what waits or may take its time is not."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import httpx
import pytest
import uvloop
from fastapi import FastAPI
from structlog.testing import capture_logs

from placet.gateway.http.errors import answer_with_problems
from placet.runtime.watchdog import TooLong, _Watch, at_leisure, leisurely, place_of, watchdog

#: CPU that a step has here, in seconds, and what a step uses that is too long.
SECONDS, LONGER = 0.2, 0.6


def _use_cpu(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def _at_once() -> None:
    _use_cpu(LONGER)


async def _in_steps() -> None:
    for _ in range(6):
        _use_cpu(LONGER / 6)
        await asyncio.sleep(0)


async def _leisurely() -> None:
    with at_leisure():
        await _at_once()


async def _begun_at_leisure() -> None:
    with at_leisure():
        begun = asyncio.create_task(_at_once())
    await begun


async def _in_c() -> None:
    re.match(r"(a|a)+$", "a" * 40 + "b")


async def _catching() -> None:
    while True:
        try:
            _use_cpu(LONGER)
        except ValueError:
            continue


async def _many() -> None:
    await asyncio.gather(*(_in_parts() for _ in range(6)))


async def _in_parts() -> None:
    _use_cpu(LONGER / 6)


async def _outcome(doing: Callable[[], Awaitable[None]]) -> str:
    with watchdog(SECONDS):
        try:
            await asyncio.wait_for(doing(), 30)
        except TooLong:
            return "ended"
    return "went on"


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize(
    ("doing", "expected"),
    [
        (_at_once, "ended"),
        (_in_c, "ended"),
        (_catching, "ended"),
        (_in_steps, "went on"),
        (_many, "went on"),
        (_leisurely, "went on"),
        (leisurely(_at_once), "went on"),
        (_begun_at_leisure, "ended"),
    ],
)
def test_a_step_that_keeps_the_loop_is_ended(
    run: Callable[[Coroutine[Any, Any, str]], str], doing: Callable[[], Awaitable[None]], expected: str
) -> None:
    """Also within a library's loop; several steps, several tasks of one round and own code have their time."""
    assert expected == run(_outcome(doing))


@pytest.mark.parametrize(("after", "expected"), [(SECONDS / 2, "went on"), (LONGER, "ended")])
def test_what_was_used_at_leisure_is_forgotten(after: float, expected: str) -> None:
    """What the same step uses after that has the whole time, and no more."""

    async def step() -> str:
        watch = _Watch(asyncio.get_running_loop(), SECONDS)
        watch.tick(0, None)
        with at_leisure():
            _use_cpu(LONGER)
            watch.tick(0, None)
        _use_cpu(after)
        try:
            watch.tick(0, None)
        except TooLong:
            return "ended"
        return "went on"

    assert expected == asyncio.run(step())


def test_the_place_of_an_end_is_where_the_step_stood() -> None:
    """The watchdog itself is no place to look at."""

    async def ended() -> str:
        with watchdog(SECONDS):
            try:
                await _at_once()
            except TooLong as error:
                return place_of(error)
        return ""

    assert __file__ == uvloop.run(ended()).rpartition(":")[0]


def test_others_go_on() -> None:
    """A task that waits beside the one that is ended hears of nothing."""

    async def both() -> list[Any]:
        with watchdog(SECONDS):
            tasks = [asyncio.create_task(each()) for each in (_at_once, _in_steps)]
            return await asyncio.gather(*tasks, return_exceptions=True)

    kept, went_on = uvloop.run(both())
    assert (TooLong, None) == (type(kept), went_on)


def test_without_a_time_nothing_is_ended() -> None:
    """0 turns it off."""

    async def unwatched() -> str:
        with watchdog(0):
            await _at_once()
        return "went on"

    assert "went on" == uvloop.run(unwatched())


def test_a_request_that_keeps_the_loop_is_a_problem() -> None:
    """Whoever sends it is told so, and that it was too dear is no bug of the gateway."""
    app = FastAPI()
    answer_with_problems(app)
    app.get("/dear")(_at_once)

    async def asked() -> httpx.Response:
        with watchdog(SECONDS), capture_logs():
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
                return await client.get("/dear")

    answer = uvloop.run(asked())
    assert (422, "urn:placet:problem:too-dear") == (answer.status_code, answer.json()["type"])
