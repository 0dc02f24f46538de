"""What the clock does while an approval waits, and who may move it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from placet.approval import notices, rules
from placet.approval.rules import Approval, take_step
from placet.approval.rules.approval import first_step_at
from placet.approval.states import State
from placet.contracts.messages import Escalation
from tests.builders import NOON, an_approval_rule
from tests.support.approval_builders import a_directory, an_approval, claims_of, some_claims

MINUTE = timedelta(minutes=1)


def a_timed(**rule: Any) -> Approval:
    """Return an approval that reminds after 5 and 20 minutes and asks the leads too after 10."""
    fields: dict[str, Any] = {
        "approvers": ["person:ada"],
        "reminders_after_seconds": [1200, 300],
        "escalations": [Escalation(after_seconds=600, approvers=["group:leads"], channels=["log"])],
    }
    made = an_approval_rule(**(fields | rule))
    return an_approval(approval_rule=made, next_step_at=first_step_at(made, NOON))


def ask(approval: Approval, verb: str, now: Any = NOON, **changes: Any) -> rules.Answer:
    """Return what an operator's wish comes to."""
    return rules.decide(approval, some_claims(approval, verb=verb, **changes), now, a_directory())


def changed(answer: rules.Answer) -> Approval:
    """Return the approval after an accepted wish."""
    assert ("accepted", True) == (answer.outcome, answer.after is not None)
    assert answer.after is not None
    return answer.after


def test_steps_come_in_the_order_of_their_time_and_once() -> None:
    """Each knows when the next is due, and after the last there is none."""
    approval, taken = a_timed(), []
    while approval.next_step_at is not None:
        due = approval.next_step_at - NOON
        approval, step = take_step(approval)
        taken.append((step.kind, due))
    assert [("reminded", 5 * MINUTE), ("escalated", 10 * MINUTE), ("reminded", 20 * MINUTE)] == taken
    assert (3, 4) == (approval.steps_done, approval.revision)


def test_an_approval_without_steps_has_none_due() -> None:
    """Most rules have none."""
    assert first_step_at(an_approval_rule(), NOON) is None


def test_a_reminder_says_what_expires_and_when() -> None:
    """Whoever reads the note alone knows what it is about."""
    approval, step = take_step(a_timed())
    until = f"{approval.expires_at:%Y-%m-%d %H:%M} UTC"
    note = f"It is still waiting for a decision and expires at {until}: {approval.summary}"
    assert note == notices.stepped(approval, step).note


def test_whom_an_escalation_asks_may_decide_from_then_on() -> None:
    """Carl is a lead: not asked before the escalation, and enough after it."""
    approval = a_timed()
    claims = claims_of(approval, "carl", "approve")
    assert "not_allowed" == rules.decide(approval, claims, NOON, a_directory()).outcome
    approval, _ = take_step(approval)
    approval, step = take_step(approval)
    assert (["group:leads"], ["log"]) == (
        notices.stepped(approval, step).approvers,
        notices.stepped(approval, step).channels,
    )
    after = rules.decide(approval, claims, NOON, a_directory()).after
    assert after is not None
    assert State.APPROVED == after.state
