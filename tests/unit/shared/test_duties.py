"""Duties of a service: what they do again and again, and that they end when the service does."""

from __future__ import annotations

import asyncio
from math import isnan

from prometheus_client import Gauge
from structlog.testing import capture_logs

from placet.runtime.service import Duty, _forever


def test_only_a_full_round_is_followed_at_once() -> None:
    """A duty that went on after each row of a trickle would run without end: words of cards were written so."""
    duty = Duty("index", 1.0, asyncio.Event().wait, full=3)  # it is never run
    assert [1.0, 1.0, 0.0, 0.0] == [duty.pause_after(done) for done in (0, 2, 3, 4)]


class Failing:
    """Waits for ever, and fails on its way out, as a connection does that is hung up in the middle."""

    def __init__(self) -> None:
        self.waits = asyncio.Event()

    async def run_once(self) -> int:
        """Wait."""
        self.waits.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("hung up")
        return 0


async def test_a_duty_that_fails_while_it_is_cancelled_ends_all_the_same() -> None:
    """Else the service would wait for it for ever when it stops."""
    failing = Failing()
    task = asyncio.ensure_future(_forever(Duty("failing", 0.0, failing.run_once)))
    await failing.waits.wait()
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=10)
    assert (True, True) == (task in done, task.cancelled())


async def test_what_cannot_be_looked_at_has_no_value() -> None:
    """The last one would stand for as long as the database is away, and no alarm would ring."""
    gauge, failed = Gauge("placet_test_looked_at", "Looked at.", registry=None), asyncio.Event()
    gauge.set(7)

    async def look() -> int:
        failed.set()
        raise LookupError

    with capture_logs():
        task = asyncio.ensure_future(_forever(Duty("measure", 0.0, look, gauges=(gauge,))))
        await failed.wait()
        task.cancel()
        await asyncio.wait([task])
    ((sample,),) = (metric.samples for metric in gauge.collect())
    assert isnan(sample.value)
