"""What one measured run yields, and the arithmetic on it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import median


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
