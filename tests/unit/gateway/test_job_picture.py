"""A job's picture: what its dots say."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from placet.gateway.jobs.schemas import AttemptOut, TaskOut
from placet.gateway.web.job_picture import picture

NOW = datetime(2026, 11, 26, tzinfo=UTC)
VOTED: dict[str, Any] = {"state": "voted", "vote": "a" * 64}


def an_attempt(number: int, **changes: Any) -> AttemptOut:
    """Build an attempt at a task."""
    fields: dict[str, Any] = {"id": f"attempt-{number}", "attempt": number, "conversation_id": f"c{number}"}
    fields |= {"state": "running", "vote": None, "answer": None, "flags": [], "reason": "", "tokens": 0, "cost": None}
    fields |= {"calls": 0, "asked_again": 0, "waits_for": [], "begun_at": NOW, "ended_at": None}
    return AttemptOut(**fields | changes)


def a_task(*attempts: AttemptOut, **changes: Any) -> TaskOut:
    """Build a task that was attempted."""
    fields: dict[str, Any] = {"id": "read", "number": 1, "task": "Read it.", "state": "running", "group": 0}
    fields |= {"needs": [], "produces": [], "k": 2, "votes": {}, "votes_from": 1, "answer": None, "reason": ""}
    return TaskOut(**fields | changes, attempts=list(attempts))


def test_a_dot_says_what_became_of_an_attempt() -> None:
    """With the leader, for another answer, thrown out, under way, or lost."""
    other = {"state": "voted", "vote": "b" * 64}
    attempts = [VOTED, other, {"state": "flagged"}, {"state": "conflicted"}, {"state": "running"}, {"state": "lost"}]
    task = a_task(*(an_attempt(number, **each) for number, each in enumerate(attempts, 1)), votes={"a" * 64: 2})
    (node,) = picture([task]).nodes
    assert ["agreed", "other", "flagged", "flagged", "running", "lost"] == [dot.mark for dot in node.dots]


def test_votes_from_before_a_conflict_are_not_drawn_as_if_they_counted() -> None:
    """The task was tried anew on what another one has changed: only the attempts since then vote."""
    before, since = an_attempt(1, **VOTED), an_attempt(2, **VOTED)
    (node,) = picture([a_task(before, since, votes={"a" * 64: 1}, votes_from=2)]).nodes
    assert ["lost", "agreed"] == [dot.mark for dot in node.dots]


def test_tasks_whose_ids_begin_alike_are_told_apart() -> None:
    """A long id keeps both of its ends, and leaves room for the votes."""
    tasks = [a_task(id=f"task-with-a-long-name-{number}", votes=votes) for number, votes in ((7, {}), (18, {"a": 12}))]
    assert [("task-wit…g-name-7", ""), ("task-wi…ame-18", "12")] == [
        (node.name, node.votes) for node in picture(tasks).nodes
    ]
