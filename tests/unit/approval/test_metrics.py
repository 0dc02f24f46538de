"""What approval counts of what was committed."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY

from placet.approval.metrics import count
from placet.approval.states import MACHINE
from placet.runtime.work import Change


def ended(rule: str, after: str, *, before: str | None = "pending", edited: bool = False) -> Change:
    """Return the change of an approval that waited a minute."""
    about = {"rule": rule, "waited_seconds": 60.0, "edited": edited}
    return Change("acme", MACHINE.name, "a-1", "event", before, after, "person:ada", "k-1", about=about)


def value(name: str, **labels: str) -> float | None:
    """Return what a scrape would say."""
    return REGISTRY.get_sample_value(name, labels)


@pytest.mark.parametrize("outcome", ["approved", "denied", "answered", "expired", "withdrawn"])
def test_each_end_is_counted_by_rule(outcome: str) -> None:
    """Only what people decided has a time to decide."""
    rule = f"rule-{outcome}"
    count(ended(rule, outcome))
    by_people = 1 if outcome in {"approved", "denied", "answered"} else None
    seconds = value("placet_approval_decided_seconds_count", rule=rule)
    assert (1, by_people) == (value("placet_approvals_ended_total", rule=rule, outcome=outcome), seconds)


def test_what_people_changed_is_counted_apart() -> None:
    """As insights do: approved as proposed is one number, approved after an edit another; a denial is a denial."""
    for outcome in ("approved", "denied"):
        count(ended("changed", outcome, edited=True))
    found = [
        value("placet_approvals_ended_total", rule="changed", outcome=each) for each in ("approved", "edited", "denied")
    ]
    assert [None, 1, 1] == found


@pytest.mark.parametrize(("before", "after"), [(None, "pending"), ("pending", "pending"), ("approved", "approved")])
def test_what_does_not_end_is_not_counted(before: str | None, after: str) -> None:
    """Votes, reminders and decisions that came too late move nothing."""
    count(ended("still", after, before=before))
    assert value("placet_approvals_ended_total", rule="still", outcome=after) is None


def test_other_machines_are_not_counted() -> None:
    """An edit of a card ends nothing."""
    count(Change("acme", "edit", "e-1", "accept", "pending", "accepted", "policy"))
    assert value("placet_approvals_ended_total", rule="", outcome="accepted") is None
