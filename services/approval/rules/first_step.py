"""When the clock first does something to an approval that has just been opened."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared.deciders import steps
from shared.messages import ApprovalRule


def first_step_at(rule: ApprovalRule, opened_at: datetime) -> datetime | None:
    """Return when the first step is due; None where the rule has none."""
    first = first_step_after(rule)
    return None if first is None else opened_at + first


def first_step_after(rule: ApprovalRule) -> timedelta | None:
    """Return how long after the opening the first step is due; None where the rule has none."""
    return next((timedelta(seconds=step.after_seconds) for step in steps(rule)), None)
