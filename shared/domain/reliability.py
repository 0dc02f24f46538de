"""How many votes are enough: k from how often attempts are right, and what that costs.

After Meyerson et al., "Solving a million-step LLM task with zero errors" (arXiv 2511.09030): with first-to-ahead-by-k
voting a task is decided rightly with probability 1 / (1 + ((1 - p) / p)^k), where p is the chance that a vote is right.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Most votes that an answer may have to be ahead by; a model that needs more should not be asked.
K_MAX = 20
#: Least p that any k can help: at one half a vote says nothing.
P_MIN = 0.5
#: What is believed of p before the first vote, as votes that agreed and votes that were cast.
_PRIOR_AGREED, _PRIOR_CAST = 4, 5


def chance_of_error(k: int, p: float, tasks: int) -> float:
    """Return a bound of the chance that any of `tasks` tasks is decided wrongly: the sum of their chances."""
    return tasks * (1 - 1 / (1 + ((1 - p) / p) ** k))


def least_k(p: float, tasks: int, epsilon: float) -> int:
    """Return the least k that keeps the chance of any error within `epsilon`; K_MAX where none does."""
    for k in range(1, K_MAX):
        if chance_of_error(k, p, tasks) <= epsilon:
            return k
    return K_MAX


def expected_votes(k: int, p: float) -> float:
    """Return how many votes a task costs on average: the length of a random walk from 0 to k or -k."""
    if p == P_MIN:
        return float(k * k)
    odds = ((1 - p) / p) ** k
    return k * (1 - odds) / (1 + odds) / (2 * p - 1)


@dataclass(frozen=True, slots=True)
class Record:
    """What the decided tasks of a job say of its model: votes for their winners, and all their votes."""

    agreed: int = 0
    cast: int = 0

    @property
    def p(self) -> float:
        """The estimated chance that a vote is right: a few doubts come first, and votes take them away."""
        return (self.agreed + _PRIOR_AGREED) / (self.cast + _PRIOR_CAST)


@dataclass(frozen=True, slots=True)
class Needed:
    """By how many votes a task's answer must be ahead, and what that leaves."""

    k: int
    #: Bound of the chance that any task is decided wrongly; None where k was given, so nothing was promised.
    chance: float | None = None

    def said(self, epsilon: float) -> str:
        """Return a miss in words, for people."""
        left = f"a chance of {self.chance:.2g} that any task is decided wrongly, above {epsilon:g}"
        return f"ahead by {self.k} votes, the most there is, leaves {left}"

    def misses(self, epsilon: float) -> bool:
        """Tell whether the chance of an error stays above what was asked for, because no k up to K_MAX is enough."""
        return self.chance is not None and self.chance > epsilon


def votes_needed(k: int | None, p: float | None, record: Record, *, tasks: int, epsilon: float) -> Needed:
    """Return what a task that begins now needs: the k given, or the least for the p given or measured."""
    if k is not None:
        return Needed(k)
    believed = record.p if p is None else p
    least = least_k(believed, tasks, epsilon)
    return Needed(least, chance_of_error(least, believed, tasks))
