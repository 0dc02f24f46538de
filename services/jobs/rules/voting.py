"""First to be ahead by k: whose answer stands, and how many attempts its leader still lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from placet.contracts.canonical import sha256_hex

Votes = Mapping[str, int]


def vote_key(answer: Any, tree_digest: str | None) -> str:
    """Return what attempts must share to agree: SHA-256 of the canonical answer and of what they left staged.

    Raises NotStrictJson where the answer has no canonical form.
    """
    return sha256_hex({"answer": answer, "tree": tree_digest})


def leader(votes: Votes) -> tuple[str, int]:
    """Return the answer with most votes, and by how many it is ahead; ("", 0) where none is."""
    ranked = sorted(votes.items(), key=lambda each: (-each[1], each[0]))
    if not ranked:
        return "", 0
    second = ranked[1][1] if len(ranked) > 1 else 0
    return ranked[0][0], ranked[0][1] - second


def lacking(votes: Votes, k: int) -> int:
    """Return how many further votes the leader needs to be ahead by `k`: 0 where it has won."""
    return max(0, k - leader(votes)[1])


@dataclass(frozen=True, slots=True)
class Next:
    """What a task does after a vote: it is decided for `winner`, has failed, or draws `draw` more attempts."""

    step: Literal["decided", "failed", "draw"]
    winner: str = ""
    draw: int = 0


def next_step(votes: Votes, k: int, *, running: int, drawn: int, attempts_max: int) -> Next:
    """Return what comes next with these votes.

    Only what the leader still lacks is drawn, so that no attempt is paid for whose vote could not matter. A task fails
    as soon as those that are running and those that may still be drawn cannot make a winner.
    """
    missing = lacking(votes, k)
    if missing == 0:
        return Next("decided", winner=leader(votes)[0])
    if missing > running + attempts_max - drawn:
        return Next("failed")
    return Next("draw", draw=max(0, missing - running))
