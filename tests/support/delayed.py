"""Runs the `placet` command with a random delay before every publish: `python -m tests.support.delayed run agent`.

Nothing that Placet promises depends on how long a message travels, or on which of two messages arrives first. The
environment says how long a delay may be (`DELAYS`, in seconds) and with which numbers (`SEED`).
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from typing import Any

from placet.cli.main import main
from placet.runtime.in_process import InProcessBus
from placet.runtime.rabbit import RabbitBus

DELAYS = "DELAYS"
SEED = "SEED"


def late(publish: Callable[..., Awaitable[None]], chance: random.Random, seconds_max: float) -> Callable[..., Any]:
    """Return `publish` with a delay of up to `seconds_max` before each call."""

    async def publish_late(*arguments: Any, **options: Any) -> None:
        await asyncio.sleep(chance.uniform(0.0, seconds_max))
        await publish(*arguments, **options)

    return publish_late


def delay_all(seconds_max: float, seed: int) -> None:
    """Delay what every bus of this process publishes."""
    for bus in (RabbitBus, InProcessBus):
        setattr(bus, "publish", late(bus.publish, random.Random(seed), seconds_max))  # noqa: B010, S311  # mypy: a method


if __name__ == "__main__":
    delay_all(float(os.environ[DELAYS]), int(os.environ.get(SEED, "0")))
    main()
