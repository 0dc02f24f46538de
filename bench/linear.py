"""Twice the executors need half the time: tools that sleep, and nothing but how many sleep at once counts.

The permits of all calls wait in the queue while the executors are held still; then they are let go, and what is
measured is the time until the last tool has ended. How fast calls come to them is another figure.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Sequence
from time import perf_counter

import psutil

from bench.load import a_load, until
from bench.measurement import verify
from bench.placet_system import SERVICES, Variant, a_placet, pids_of

#: Tools that one executor runs at once.
SLOTS = 4
#: From the last question to the model until its call surely waits in the queue.
SETTLE_SECONDS = 3.0


async def measure(numbers: Sequence[int], calls: int, milliseconds: int) -> dict[int, float]:
    """Return the seconds that each of these numbers of executors takes for `calls` calls of a tool that sleeps."""
    return {executors: await _makespan(executors, calls, milliseconds) for executors in numbers}


async def _makespan(executors: int, calls: int, milliseconds: int) -> float:
    settings = {
        "PLACET_EXECUTOR_SLOTS": str(SLOTS),
        "PLACET_EXECUTOR_PREFETCH": str(SLOTS),
        "PLACET_POOL_BATCHES": "{}",
        "PLACET_AGENT_SLOTS": str(calls),
        "PLACET_BENCH_TOOL": "sleep",
        "PLACET_BENCH_MILLISECONDS": str(milliseconds),
    }
    services = {**dict.fromkeys(SERVICES, 1), "executor": executors}
    variant = Variant("linear", calls=1, calls_per_turn=1, gated=False, settings=settings, services=services)
    async with a_placet(variant) as system, a_load(system, variant) as load:
        await load.open(executors * SLOTS)
        await load.run(executors * SLOTS)
        held = [psutil.Process(pid) for pid in pids_of(system)["executor"]]
        await load.open(calls)
        for process in held:
            process.send_signal(signal.SIGSTOP)
        running = asyncio.create_task(load.run(calls))
        asked = system.folder / "asked"
        await until(lambda: asked.exists() and asked.read_text().count("\n") >= calls)
        await asyncio.sleep(SETTLE_SECONDS)
        began = perf_counter()
        for process in held:
            process.send_signal(signal.SIGCONT)
        await running
        lines = [line.split() for line in load.ledger.read_text().splitlines()]
    verify(calls, calls, Counter(call for call, _ in lines))
    return max(float(ended) for _, ended in lines) - began


def ratios(found: dict[int, float]) -> dict[str, float]:
    """Return how far each is from its share of one executor's time; 1 is linear."""
    return {
        f"linear_{number}": round(seconds * number / found[1], 3) for number, seconds in found.items() if number > 1
    }


def table(found: dict[int, float]) -> str:
    """Lay the figures out for a terminal."""
    lines = [f"{'executors':<12}{'seconds':>9}{'of its share':>14}"]
    lines += [f"{number:<12}{seconds:>9.2f}{seconds * number / found[1]:>14.3f}" for number, seconds in found.items()]
    return "\n".join(lines)
