"""What the clock does while an approval waits, and who may move it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from services.approval import notices, rules
from services.approval.rules import Approval, timers
from services.approval.rules.first_step import first_step_at
from services.approval.states import State
from shared.messages import Escalation
from tests.builders import NOON, an_approval_rule
from tests.support.approval_builders import LATER, a_directory, an_approval, claims_of, some_claims

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
        approval, step = timers.take_step(approval)
        taken.append((step.kind, due))
    assert [("reminded", 5 * MINUTE), ("escalated", 10 * MINUTE), ("reminded", 20 * MINUTE)] == taken
    assert (3, 4) == (approval.steps_done, approval.revision)


def test_an_approval_without_steps_has_none_due() -> None:
    """Most rules have none."""
    assert first_step_at(an_approval_rule(), NOON) is None


def test_whom_an_escalation_asks_may_decide_from_then_on() -> None:
    """Carl is a lead: not asked before the escalation, and enough after it."""
    approval = a_timed()
    claims = claims_of(approval, "carl", "approve")
    assert "not_allowed" == rules.decide(approval, claims, NOON, a_directory()).outcome
    approval, _ = timers.take_step(approval)
    approval, step = timers.take_step(approval)
    assert (["group:leads"], ["log"]) == (
        notices.stepped(approval, step).approvers,
        notices.stepped(approval, step).channels,
    )
    after = rules.decide(approval, claims, NOON, a_directory()).after
    assert after is not None
    assert State.APPROVED == after.state


def test_an_extension_moves_the_deadline() -> None:
    """By as much as was asked; a step that is due stays where it is."""
    approval = a_timed()
    after = changed(ask(approval, "extend", seconds=600))
    assert (LATER + 10 * MINUTE, approval.next_step_at) == (after.expires_at, after.next_step_at)


def test_nothing_waits_longer_than_the_longest_wait() -> None:
    """Thirty days in all."""
    approval = a_timed()
    enough = int((timers.WAIT_MAX - timedelta(hours=1)).total_seconds())
    assert ["accepted", "invalid"] == [
        ask(approval, "extend", seconds=enough).outcome,
        ask(approval, "extend", seconds=enough + 1).outcome,
    ]


def test_a_pause_leaves_as_much_time_as_there_was() -> None:
    """Whatever was due is due as much later as the clock stood still."""
    approval = a_timed()
    paused = changed(ask(approval, "pause", NOON + MINUTE))
    assert (True, NOON + MINUTE) == (paused.expires_at > LATER, paused.paused_at)
    resumed = changed(ask(paused, "resume", NOON + 8 * MINUTE))
    assert (LATER + 7 * MINUTE, NOON + 12 * MINUTE, None) == (
        resumed.expires_at,
        resumed.next_step_at,
        resumed.paused_at,
    )


def test_a_paused_approval_can_be_decided() -> None:
    """Only its clock stands still."""
    paused = changed(ask(a_timed(), "pause"))
    answer = rules.decide(paused, claims_of(paused, "ada", "approve"), LATER, a_directory())
    assert "accepted" == answer.outcome


def test_a_forgotten_pause_expires() -> None:
    """Nothing waits for ever."""
    paused = changed(ask(a_timed(), "pause"))
    answer = rules.decide(paused, claims_of(paused, "ada", "approve"), LATER + timers.WAIT_MAX, a_directory())
    assert "already_decided" == answer.outcome


VISITOR = {"person": "visitor-1", "proof": "conversation_token", "conversation_id": "conversation-1"}


@pytest.mark.parametrize("verb", ["extend", "pause", "resume"])
@pytest.mark.parametrize("who", [{"person": "person:ada", "roles": []}, VISITOR | {"roles": ["requester"]}])
def test_only_operators_move_the_clock(verb: str, who: dict[str, Any]) -> None:
    """An approver without that role may not, and neither may the visitor who asked and may approve."""
    approval = a_timed(approvers=["person:ada", "requester"])
    answer = rules.decide(approval, some_claims(approval, verb=verb, seconds=60, **who), NOON, a_directory())
    assert "not_allowed" == answer.outcome


@pytest.mark.parametrize(("first", "second"), [("pause", "pause"), (None, "resume")])
def test_a_clock_is_stopped_once_and_goes_on_once(first: str | None, second: str) -> None:
    """Stopping what stands and starting what goes is refused."""
    approval = changed(ask(a_timed(), first)) if first else a_timed()
    assert "invalid" == ask(approval, second).outcome
