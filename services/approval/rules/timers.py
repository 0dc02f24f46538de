"""What the clock does to a pending approval: reminders and escalations.

Each step is done once: the number of steps done stands in the row and moves under its lock.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from placet.approval.rules.approval import Approval
from placet.domain.deciders import Step, steps


def take_step(approval: Approval) -> tuple[Approval, Step]:
    """Return the approval after its next step, and that step. Those that follow keep their distance to it."""
    planned = steps(approval.approval_rule)
    step, following = planned[approval.steps_done], planned[approval.steps_done + 1 : approval.steps_done + 2]
    due = approval.next_step_at
    if due is None:
        raise ValueError(f"approval {approval.approval_id} has no step due")
    gaps = [timedelta(seconds=each.after_seconds - step.after_seconds) for each in following]
    at = due + gaps[0] if gaps else None
    return replace(approval, steps_done=approval.steps_done + 1, next_step_at=at, revision=approval.revision + 1), step
