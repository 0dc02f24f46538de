"""Runs a service with a random delay before every publish: `python -m tests.support.delayed agent`.

Nothing that Placet promises depends on how long a message travels, or on which of two messages arrives first. The
environment says how long a delay may be (`DELAYS`, in seconds), how many of a hundred envelopes come twice (`TWICE`, a
part of one; none by default), and with which numbers (`SEED`). SIGUSR1 has it say what each of its tasks waits for.
"""

from __future__ import annotations

import asyncio
import os
import random
import runpy
import signal
import sys
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

from placet.runtime.in_process import InProcessBus
from placet.runtime.rabbit import RabbitBus

DELAYS = "DELAYS"
TWICE = "TWICE"
SEED = "SEED"


def late(
    publish: Callable[..., Awaitable[None]], chance: random.Random, seconds_max: float, twice: float = 0.0
) -> Callable[..., Any]:
    """Return `publish` with a delay of up to `seconds_max` before each call, and a part of the calls made `twice`."""

    async def publish_late(*arguments: Any, **options: Any) -> None:
        await asyncio.sleep(chance.uniform(0.0, seconds_max))
        await publish(*arguments, **options)
        if chance.random() < twice:
            await asyncio.sleep(chance.uniform(0.0, seconds_max))
            await publish(*arguments, **options)

    return publish_late


def delay_all(seconds_max: float, seed: int, twice: float) -> None:
    """Delay what every bus of this process publishes, and send a part of it twice."""
    for bus in (RabbitBus, InProcessBus):
        chance = random.Random(seed)  # noqa: S311 - a run that can be repeated
        setattr(bus, "publish", late(bus.publish, chance, seconds_max, twice))  # noqa: B010 - mypy: a method


def _dump_tasks(_number: int, _frame: FrameType | None) -> None:
    """Write to the log what each task waits for."""
    for task in asyncio.all_tasks():
        task.print_stack()


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _dump_tasks)
    delay_all(float(os.environ[DELAYS]), int(os.environ.get(SEED, "0")), float(os.environ.get(TWICE, "0")))
    runpy.run_module(f"placet.{sys.argv[1]}", run_name="__main__")
