"""What operators see of approval. Labels are names of rules out of the rulebook, never anything that a call carried."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from placet.approval import store
from placet.approval.states import MACHINE, State
from placet.runtime.database import Database
from placet.runtime.work import Change

PENDING = Gauge("placet_approvals_pending", f"Approvals that wait for people; counted up to {store.COUNTED_MAX:_}.")
OLDEST = Gauge("placet_approvals_oldest_seconds", "Age of the approval that has waited longest; 0 where none waits.")
MEASURED = (PENDING, OLDEST)
ENDED = Counter("placet_approvals_ended_total", "Approvals that ended, by rule and outcome.", ["rule", "outcome"])
SECONDS = Histogram(
    "placet_approval_decided_seconds",
    "How long approvals waited that people decided, by rule.",
    ["rule"],
    buckets=(1, 5, 15, 60, 300, 900, 3_600, 14_400, 86_400, 259_200, 604_800),
)
_BY_PEOPLE = frozenset({State.APPROVED, State.DENIED, State.ANSWERED})


def count(change: Change) -> None:
    """Count an approval that ended."""
    if change.machine != MACHINE.name or change.from_state != State.PENDING or change.to_state == State.PENDING:
        return
    rule = change.about["rule"]
    # As in insights: what people changed was not approved as it was proposed.
    edited = change.to_state == State.APPROVED and change.about["edited"]
    ENDED.labels(rule, "edited" if edited else change.to_state).inc()
    if change.to_state in _BY_PEOPLE:
        SECONDS.labels(rule).observe(change.about["waited_seconds"])


async def measure(database: Database) -> None:
    """Look at what waits."""
    async with database.single() as connection:
        pending, oldest = await store.count_pending(connection)
    PENDING.set(pending)
    OLDEST.set(oldest)
