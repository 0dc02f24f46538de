"""What work costs against the size of what it is done with."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

#: How many times larger the larger input is, and how many times longer it may take: a quadratic one takes 64 times.
FACTOR, BOUND = 8, 28
_TIMES = 3


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time that work takes, the least of three times."""
    taken = []
    for _ in range(_TIMES):
        began = process_time()
        work()
        taken.append(process_time() - began)
    return min(taken)


def growth(small: Callable[[], object], large: Callable[[], object]) -> float:
    """Return how many times longer the second takes; what is too short to measure counts as half a millisecond."""
    return seconds(large) / max(seconds(small), 0.0005)
