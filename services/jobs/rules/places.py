"""How many tasks are tried at a time: fewer where winners keep changing the same."""

from __future__ import annotations


def width(parallel_max: int, decided: int, conflicted: int) -> int:
    """Return how many new tasks may be tried side by side: of the most, as many in a hundred as pairs get on together.

    Two tasks get on where neither is one that conflicted; `conflicted` counts each once, decided or not. One is tried
    always.
    """
    free = 1.0 if not conflicted else max(0, decided - conflicted) / max(1, decided)
    return max(1, round(parallel_max * free * free))
