"""Ends a task that keeps the event loop to itself: whatever strangers find that is dear, others wait a few seconds.

A timer of the process' CPU ticks; on a tick the loop is asked to come round. Where the same task is still in the same
step some ticks later, and has used the CPU for longer than it may, `TooLong` is raised in it where it stands. A task
that waits uses no CPU, so a slow database or a busy machine ends nothing. Own code of tools and models may take its
time, and so may policy: a rule that fails holds a call, so one that is broken off would ask about what it denies.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet

import structlog
from prometheus_client import Counter

log = structlog.get_logger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
#: Ticks within the time that a step may take: it ends at most one of them late.
_TICKS = 8
#: Tasks that may take their time just now. Those that they begin may not: they would hand it on for ever.
_LEISURE: WeakSet[asyncio.Task[object]] = WeakSet()
TOO_LONG = Counter("placet_steps_too_long_total", "Tasks that kept the event loop to themselves and were ended.")


class TooLong(Exception):
    """A step of a task used more CPU than one may: the same input would do so again."""


def place_of(error: BaseException) -> str:
    """Return file and line where an error was raised, or a step stood that was ended; they quote no argument."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename != __file__]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


@contextmanager
def at_leisure() -> Iterator[None]:
    """Let this task keep the loop as long as it likes while the block runs."""
    task = asyncio.current_task()
    if task is None or task in _LEISURE:
        yield
        return
    _LEISURE.add(task)
    try:
        yield
    finally:
        _LEISURE.discard(task)


def leisurely(do: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return what does the same and may take its time: the operator's own code, and what would decide otherwise."""

    @wraps(do)
    async def at_its_leisure(*args: P.args, **kwargs: P.kwargs) -> T:
        with at_leisure():
            return await do(*args, **kwargs)

    return at_its_leisure


@contextmanager
def watchdog(seconds: float) -> Iterator[None]:
    """End each step of a task on the running loop that uses more CPU than `seconds`, while the block runs; 0: none.

    Signals reach the main thread alone, so on another one nothing is watched.
    """
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return
    watch = _Watch(asyncio.get_running_loop(), seconds)
    before = signal.signal(signal.SIGPROF, watch.tick)
    signal.setitimer(signal.ITIMER_PROF, seconds / _TICKS, seconds / _TICKS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class _Watch:
    """What is known of the step that runs: whose it is, and the CPU this thread had used when it was first seen."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._task: asyncio.Task[object] | None = None
        self._since = 0.0
        self._asked = False

    def _came_round(self) -> None:
        self._asked, self._task = False, None

    def tick(self, _signal: int, _frame: FrameType | None) -> None:
        """Look at the task that runs; raise in it where it has been running for too long."""
        task, used = asyncio.current_task(self._loop), time.thread_time()
        if not self._asked or task is not self._task:
            self._task, self._since = task, used
            if not self._asked:
                self._asked = True
                self._loop.call_soon_threadsafe(self._came_round)
            return
        if task in _LEISURE:
            # What it uses from then on counts, when its leisure has ended within the same step.
            self._since = used
        if task is None or used - self._since <= self._seconds:
            return
        # It may catch this and go on: then it has as long again.
        self._since = used
        TOO_LONG.inc()
        raise TooLong(f"one step of it took more than {self._seconds:g} s of CPU")
