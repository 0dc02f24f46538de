"""When the clock first does something to an approval that has just been opened."""

from __future__ import annotations

from datetime import datetime, timedelta

from placet.contracts.messages import ApprovalRule
from placet.domain.deciders import steps


def first_step_at(rule: ApprovalRule, opened_at: datetime) -> datetime | None:
    """Return when the first step is due; None where the rule has none."""
    return next((opened_at + timedelta(seconds=step.after_seconds) for step in steps(rule)), None)
