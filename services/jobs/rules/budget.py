"""What a job may still begin, how much of it side by side, and after which pause.

An attempt's share is reserved before it begins and settled when it has ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from placet.contracts.messages import JobBudget

#: A job in which nobody answered for so long is given up.
SILENCE_MAX = timedelta(minutes=15)
PAUSE_MIN, PAUSE_MAX = timedelta(seconds=1), timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Spent:
    """What a job has used up, and what its running attempts may use."""

    tokens: int = 0
    #: Attempts that run now.
    running: int = 0
    #: In US dollars, of the attempts whose price is known.
    cost: float = 0.0
    #: Of the dearest attempt so far: what one that runs is taken to cost.
    cost_most: float = 0.0
    #: Whether an attempt ended whose price nobody knows.
    unpriced: bool = False


def affordable(wanted: int, budget: JobBudget, spent: Spent) -> int:
    """Return how many of the wanted attempts may begin now: as many as have their whole share left.

    A cost is known afterwards only, so the first attempt runs alone, and each other counts as the dearest one so far;
    where a price is not known, nobody can tell that a cost is within its bound, and none may begin.
    """
    if budget.tokens is not None:
        free = budget.tokens - spent.tokens - spent.running * budget.tokens_per_attempt
        wanted = min(wanted, free // budget.tokens_per_attempt)
    if budget.cost is not None:
        left = budget.cost - spent.cost - spent.running * spent.cost_most
        if spent.unpriced or left <= 0:
            return 0
        if spent.cost_most > 0:
            wanted = min(wanted, int(left / spent.cost_most))
        elif not spent.tokens:
            wanted = min(wanted, 1 - spent.running)
    return max(0, wanted)


def money_of_each(number: int, budget: JobBudget, spent: Spent) -> float | None:
    """Return what each of so many attempts that begin may have jobs done for: of what is left, an equal part."""
    if budget.cost is None:
        return None
    return max(0.0, budget.cost - spent.cost) / max(1, spent.running + number)


def no_room(budget: JobBudget, spent: Spent) -> str:
    """Return why a job may begin no attempt any more, in numbers."""
    share = budget.tokens_per_attempt
    why = f"{spent.tokens} of {budget.tokens} tokens are used, and an attempt may use {share}"
    if budget.tokens is None or affordable(1, budget.model_copy(update={"cost": None}), spent):
        why = f"${spent.cost:.4f} of ${budget.cost} is used, and an attempt may cost ${spent.cost_most:.4f}"
        why = "it bounds the cost, and what an attempt cost is not known" if spent.unpriced else why
    return f"The budget has no room for another attempt: {why}."


def width(parallel_max: int, decided: int, conflicted: int) -> int:
    """Return how many new tasks may be tried side by side: of the most, as many in a hundred as pairs get on together.

    Two tasks get on where neither is one that conflicted; `conflicted` counts each once, decided or not. One is tried
    always.
    """
    free = 1.0 if not conflicted else max(0, decided - conflicted) / max(1, decided)
    return max(1, round(parallel_max * free * free))


def pause_after(silent_since: datetime, now: datetime) -> timedelta | None:
    """Return the pause before the next attempt: as long as nobody answered yet, within its bounds; None: give up."""
    silent = now - silent_since
    return None if silent >= SILENCE_MAX else min(max(silent, PAUSE_MIN), PAUSE_MAX)
