"""Tells of running tools: the newest report goes out now and then, the rest is forgotten.

The longer a tool runs, the seldomer it is told of, so that a call of hours makes some hundred reports and not one for
each second. A report that cannot be told is no reason to disturb the tool: the next one tells more.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog

from placet.contracts.messages.tool_calls import PROGRESS_TEXT_MAX
from placet.contracts.sizes import text_of

log = structlog.get_logger(__name__)

#: How long a call that people were asked about runs before it is told that it does, in seconds: what has ended sooner
#: needs no word in between.
SILENCE_SECONDS = 0.25
#: Shortest pause between two reports of a call, in seconds.
PAUSE_MIN_SECONDS = 1.0
#: Reports made in the time that a call has run so far, at most, once the shortest pause is outgrown.
REPORTS_PER_AGE = 50


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a tool is."""

    #: From 0 to 1; None where the tool cannot say.
    fraction: float | None
    text: str


def progress_of(fraction: object, text: object) -> Progress:
    """Return a report as it can be told, whatever a tool gave for it: cut to its bounds, what is no number is None."""
    number = fraction if isinstance(fraction, int | float) and -math.inf < fraction < math.inf else None
    words = " ".join(text_of(text, 4 * PROGRESS_TEXT_MAX).replace("\x00", "\ufffd").split())
    cut = words if len(words) <= PROGRESS_TEXT_MAX else words[: PROGRESS_TEXT_MAX - 1] + "…"
    return Progress(None if number is None else float(min(max(number, 0), 1)), cut)


def pause_after(age_seconds: float) -> float:
    """Return how long to be silent after a report of a call that has run for so long, in seconds."""
    return max(PAUSE_MIN_SECONDS, age_seconds / REPORTS_PER_AGE)


class Reporting:
    """Tells of one attempt, from the event loop that made it; reports come from any thread."""

    def __init__(
        self, tell: Callable[[Progress], Awaitable[None]], pause: Callable[[float], float] = pause_after
    ) -> None:
        self._tell = tell
        self._pause = pause
        self._loop = asyncio.get_running_loop()
        self._began = time.monotonic()
        self._newest: Progress | None = None
        self._telling: asyncio.Task[None] | None = None
        self._silence: asyncio.TimerHandle | None = None
        self._over = False

    def tell_of_silence(self, after_seconds: float) -> None:
        """Tell that the tool runs, where it still does after so long and has reported nothing itself."""
        self._silence = self._loop.call_later(after_seconds, self._take, Progress(None, ""))

    def report(self, fraction: float | None, text: str) -> None:
        """Take a report; returns at once."""
        # A thread may outlive the loop of a process that stops: then nobody is left to be told.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._take, progress_of(fraction, text))

    def end(self) -> None:
        """Tell nothing more: how the call ended is told instead."""
        self._over = True
        self._break_silence()
        if self._telling is not None:
            self._telling.cancel()

    def _break_silence(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None

    def _take(self, progress: Progress) -> None:
        self._break_silence()
        self._newest = progress
        if self._telling is None and not self._over:
            self._telling = asyncio.create_task(self._tell_on())

    async def _tell_on(self) -> None:
        told: Progress | None = None
        try:
            while self._newest is not None:
                newest, self._newest = self._newest, None
                if newest != told:
                    await self._tell_once(newest)
                    told = newest
                await asyncio.sleep(self._pause(time.monotonic() - self._began))
        finally:
            self._telling = None

    async def _tell_once(self, progress: Progress) -> None:
        try:
            await self._tell(progress)
        except Exception as error:  # noqa: BLE001 - a report that gets lost harms nobody
            log.debug("progress.lost", error=type(error).__name__)
