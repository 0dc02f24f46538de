"""What a running tool reports, and how often it is told."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.contracts.messages.tool_calls import PROGRESS_TEXT_MAX
from placet.executor.reporting import Progress, Reporting, pause_after, progress_of


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((0.5, "half"), Progress(0.5, "half")),
        ((None, "no idea"), Progress(None, "no idea")),
        ((7, ""), Progress(1.0, "")),
        ((-1, ""), Progress(0.0, "")),
        ((float("nan"), ""), Progress(None, "")),
        (("most", 3), Progress(None, "3")),
        ((1, "two\nlines\x00"), Progress(1.0, "two lines\ufffd")),
    ],
)
def test_a_report_is_cut_to_its_bounds(given: tuple[object, object], told: Progress) -> None:
    """Whatever a tool says of its progress, it can be told, and the tool has no error from it."""
    assert progress_of(*given) == told


def test_what_is_no_text_is_not_written() -> None:
    """A report costs nothing, whatever it holds how often."""
    value: object = 0
    for _ in range(40):
        value = [value, value]
    assert Progress(None, "list") == progress_of(None, value)


@given(st.text())
def test_a_text_has_an_end(text: str) -> None:
    """No tool fills a chat with one report."""
    assert len(progress_of(None, text).text) <= PROGRESS_TEXT_MAX


def test_a_long_call_is_told_of_seldom() -> None:
    """A call of ten hours makes some hundreds of reports, never two within a second."""
    ages = [0.0]
    while ages[-1] < 36_000:
        ages.append(ages[-1] + pause_after(ages[-1]))
    assert 300 < len(ages) < 500
    assert min(later - earlier for earlier, later in pairwise(ages)) == 1.0


async def test_only_the_newest_report_is_told() -> None:
    """Reports that come while one is told make one more, from whatever thread; the same again makes none."""
    told: list[Progress] = []
    heard, going_on = asyncio.Event(), asyncio.Event()

    async def tell(progress: Progress) -> None:
        told.append(progress)
        heard.set()
        await going_on.wait()

    reporting = Reporting(tell, pause=lambda _: 0.0)
    reporting.report(0.1, "")
    await heard.wait()
    for fraction in (0.2, 0.3, 0.4, 0.5):
        await asyncio.to_thread(reporting.report, fraction, "")
    heard.clear()
    going_on.set()
    await heard.wait()
    assert told == [Progress(0.1, ""), Progress(0.5, "")]


async def test_a_report_that_cannot_be_told_disturbs_nobody() -> None:
    """The next report is told as if nothing had been."""
    told: list[Progress] = []
    tried = asyncio.Event()

    async def tell(progress: Progress) -> None:
        told.append(progress)
        tried.set()
        if len(told) == 1:
            raise OSError("the database is away")

    reporting = Reporting(tell, pause=lambda _: 0.0)
    for fraction in (0.1, 0.2):
        tried.clear()
        reporting.report(fraction, "")
        await tried.wait()
    assert told == [Progress(0.1, ""), Progress(0.2, "")]


async def test_nothing_is_told_after_the_end() -> None:
    """What a tool reports when its call is over is nobody's business any more."""
    told: list[Progress] = []

    async def tell(progress: Progress) -> None:
        told.append(progress)

    reporting = Reporting(tell, pause=lambda _: 0.0)
    reporting.end()
    reporting.report(1.0, "too late")
    # What the report asked of the loop was asked before this.
    passed = asyncio.Event()
    asyncio.get_running_loop().call_soon(passed.set)
    await passed.wait()
    assert told == []


async def test_a_silent_tool_is_told_of() -> None:
    """A tool that reports nothing is told to run after a while."""
    told: asyncio.Queue[Progress] = asyncio.Queue()
    reporting = Reporting(told.put)
    reporting.tell_of_silence(0.0)
    assert Progress(None, "") == await told.get()
    reporting.end()


@pytest.mark.parametrize("speaks", [True, False])
async def test_who_speaks_or_ends_is_not_silent(*, speaks: bool) -> None:
    """A report says more than that it runs, and after an end there is nothing to say."""
    told: list[Progress] = []

    async def tell(progress: Progress) -> None:
        told.append(progress)

    reporting = Reporting(tell, pause=lambda _: 0.0)
    reporting.tell_of_silence(0.0)
    if speaks:
        reporting.report(0.5, "")
    else:
        reporting.end()
    for _ in range(10):
        await asyncio.sleep(0)
    assert ([Progress(0.5, "")] if speaks else []) == told
