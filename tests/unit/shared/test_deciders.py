"""Whom an approval names by now: what an inbox is found by."""

from __future__ import annotations

from shared import deciders
from shared.deciders import Delegation, Voter
from shared.messages import Escalation, Panel
from tests.builders import an_approval_rule
from tests.support.approval_builders import an_approval

RULE = an_approval_rule(
    approvers=["group:finance", "operators"],
    alternatives=[Panel(approvers=["person:carl", "operators"])],
    veto=["group:security"],
    escalations=[Escalation(after_seconds=60, approvers=["group:leads"])],
    reminders_after_seconds=[30],
)
NAMED = ("group:finance", "group:security", "operators", "person:carl")


def test_an_approval_names_approvers_of_every_panel_and_vetoers_once() -> None:
    """Sorted, so that equal sets are equal; whom an escalation will ask is not named before."""
    assert NAMED == deciders.named(an_approval(approval_rule=RULE, steps_done=1))


def test_an_escalation_that_was_done_names_more() -> None:
    """From then on it waits for them too."""
    assert tuple(sorted((*NAMED, "group:leads"))) == deciders.named(an_approval(approval_rule=RULE, steps_done=2))


def test_who_was_given_a_place_is_named() -> None:
    """A delegate finds it in their inbox."""
    place = Delegation(Voter("person:ada", (), "api_key"), "person:dora")
    assert "person:dora" in deciders.named(an_approval(approval_rule=RULE, delegations=(place,)))
