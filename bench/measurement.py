"""What one measured run yields, and the arithmetic on it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter


@dataclass(frozen=True)
class Measurement:
    """One closed-loop run of gated calls, each checked to have run exactly once."""

    in_flight: int
    """Calls kept open at a time."""
    calls_per_second: float
    decision_to_result_p50_ms: float
    """From a person's decision until the agent's next utterance, half of the calls; the floor says nothing: there it
    is until the result is recorded. Where nobody decides it is from the proposal until the result is recorded."""
    p99_ms: float
    """The same, 99 of 100 calls."""
    cpu_ms_per_call: float
    """CPU time of all processes together: load, services, broker, database."""
    recorded_p50_ms: float
    """From a person's decision until the agent has recorded the result."""


@dataclass(frozen=True)
class System:
    """Something that can be measured."""

    name: str
    measure: Callable[[int, int], Awaitable[Measurement]]
    """(calls in flight, number of calls) -> what was seen; raises if a call did not run exactly once."""


class WrongCountError(Exception):
    """Some call did not run exactly once, so the run measured nothing worth knowing."""


def verify(calls: int, answered: int, tool_runs: Counter[str]) -> None:
    """Raise unless each of `calls` calls was answered and its tool ran exactly once."""
    once = sum(runs == 1 for runs in tool_runs.values())
    if not calls == answered == once == tool_runs.total():
        raise WrongCountError(
            f"of {calls} calls {answered} were answered and {once} ran exactly once; "
            f"the tool ran {tool_runs.total()} times"
        )


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of `values` do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]


def middle(runs: Sequence[Measurement]) -> Measurement:
    """Return the median of each figure over `runs` with equal calls in flight."""
    return Measurement(
        runs[0].in_flight,
        median(run.calls_per_second for run in runs),
        median(run.decision_to_result_p50_ms for run in runs),
        median(run.p99_ms for run in runs),
        median(run.cpu_ms_per_call for run in runs),
        median(run.recorded_p50_ms for run in runs),
    )


Act = Callable[[], Awaitable[object]]
"""Something that is timed."""


def warm_up_of(times: int) -> int:
    """Return how often an act is done before it is timed: the planner settles then."""
    return max(10, times // 10)


async def medians_ms(
    acts: Mapping[int, Act], times: int, before: Callable[[Act], Awaitable[None]] | None = None
) -> dict[int, float]:
    """Return the median of each, done in turns: a machine that gets slower meanwhile slows all alike.

    `before` prepares each turn and is not timed.
    """
    warm_up = warm_up_of(times)
    waits: dict[int, list[float]] = {size: [] for size in acts}
    for _ in range(times + warm_up):
        for size, act in acts.items():
            if before is not None:
                await before(act)
            began = perf_counter()
            await act()
            waits[size].append(perf_counter() - began)
    return {size: round(percentile(seen[warm_up:], 0.5) * 1000, 3) for size, seen in waits.items()}


def ratios_of(found: Mapping[str, Mapping[int, float]]) -> dict[str, float]:
    """Return how many times as long each act takes among most as among fewest."""
    return {name: round(by[max(by)] / by[min(by)], 2) for name, by in found.items()}


def lines_of(found: Mapping[str, Mapping[int, float]]) -> str:
    """Lay medians out for a terminal: an act in each line, a size in each column."""
    sizes = sorted(next(iter(found.values())))
    lines = [f"{'p50 ms among':<24}" + "".join(f"{size:>12}" for size in sizes) + f"{'ratio':>8}"]
    for name, ratio in ratios_of(found).items():
        lines.append(f"{name:<24}" + "".join(f"{found[name][size]:>12.2f}" for size in sizes) + f"{ratio:>8.2f}")
    return "\n".join(lines)
