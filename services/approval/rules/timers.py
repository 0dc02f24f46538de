"""What the clock does to a pending approval: reminders, escalations, and people who move its deadline.

Each step is done once: the number of steps done stands in the row and moves under its lock.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from services.approval.rules.approval import Approval
from shared.deciders import Step, steps

#: Longest that an approval may wait in all, and longest that a pause may hold it: a forgotten pause expires too.
WAIT_MAX = timedelta(days=30)


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


def extended(approval: Approval, seconds: int) -> Approval | None:
    """Return the approval with a later deadline; None where it would wait longer than anything may."""
    expires_at = approval.expires_at + timedelta(seconds=seconds)
    paused = WAIT_MAX if approval.paused_at else timedelta()
    if expires_at - paused > approval.created_at + WAIT_MAX:
        return None
    return replace(approval, expires_at=expires_at, revision=approval.revision + 1)


def paused(approval: Approval, now: datetime) -> Approval:
    """Return the approval with its clock stopped: everything due is put off until the longest pause is over."""
    return replace(_shifted(approval, WAIT_MAX), paused_at=now)


def resumed(approval: Approval, now: datetime) -> Approval:
    """Return a paused approval with its clock going again: as much time is left as there was."""
    if approval.paused_at is None:
        raise ValueError(f"approval {approval.approval_id} is not paused")
    return replace(_shifted(approval, now - approval.paused_at - WAIT_MAX), paused_at=None)


def _shifted(approval: Approval, by: timedelta) -> Approval:
    at = approval.next_step_at
    return replace(
        approval,
        expires_at=approval.expires_at + by,
        next_step_at=at + by if at else None,
        revision=approval.revision + 1,
    )
