"""What a decision's answer says about the approval that was read before."""

from __future__ import annotations

from typing import Any

import pytest

from placet.contracts.messages import DecisionAnswered, DecisionClaims
from placet.gateway.approvals.decisions import decided
from tests.builders import NOON
from tests.support.gateway import an_approval_row


def a_decision(**changes: Any) -> tuple[dict[str, Any], DecisionClaims, DecisionAnswered]:
    """Return an approval that waits, ada's approval of it, and the answer that it counted."""
    row = an_approval_row()
    place = {"tenant": "acme", "approval_id": row["approval_id"], "decision_id": "d"}
    claims = DecisionClaims(
        **place,
        verb="approve",
        digest=row["digest"],
        reason="fine",
        person="person:ada",
        roles=["operators"],
        proof="api_key",
    )
    answer = {"state": "approved", "revision": 1, "digest": row["digest"], "decided_by": "person:ada"} | changes
    told = DecisionAnswered(**place, answer_to="g", outcome="accepted", **{"decided_at": NOON} | answer)
    return row, claims, told


def test_an_accepted_decision_closes_the_approval_that_was_read() -> None:
    """State, person, words and time are the decision's own; everything else stays."""
    row, claims, answer = a_decision()
    over = {"state": "approved", "decided_by": "person:ada", "decision_reason": "fine", "closed_at": NOON}
    assert row | over == decided(row, claims, answer)


@pytest.mark.parametrize(
    "changes",
    [{"state": "pending"}, {"revision": 2}, {"digest": "c" * 64}, {"decided_by": "person:bob"}, {"decided_at": None}],
)
def test_an_answer_that_tells_of_more_sends_us_to_look(changes: dict[str, Any]) -> None:
    """Votes that wait for others, and cards that changed, are read again and never guessed."""
    assert decided(*a_decision(**changes)) is None
