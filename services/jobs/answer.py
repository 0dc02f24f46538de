"""What a call of `accomplish` is answered when its job has ended. Pure."""

from __future__ import annotations

from datetime import datetime

from placet.contracts import messages as m
from placet.contracts.messages import ACCOMPLISH_TOOL
from placet.jobs.job_state import JobCourse
from placet.jobs.states import JobState


def answer_of(course: JobCourse, now: datetime) -> m.ToolCallFinished | m.ToolCallRefused | None:
    """Return what the call is answered that an ended job was done for; None where a person asked for it.

    Of attempts that ran when it ended nobody knows yet what they used: their shares count.
    """
    job = course.job
    unsettled = course.unsettled + job.running
    caller, done = job.spec.caller, job.state is JobState.DONE
    if caller is None:
        return None
    ids = {"tenant": job.spec.tenant, **caller.model_dump(), "tool": ACCOMPLISH_TOOL}
    if course.stopped:
        return m.ToolCallRefused(**ids, kind="refused", reason=job.reason)
    return m.ToolCallFinished(
        **ids,
        kind="succeeded" if done else "failed",
        data={"job_id": job.job_id, "state": job.state, "result": job.result}
        | ({"changes": job.changes} if job.changes else {})
        | ({"reason": job.reason} if done and job.reason else {})
        | {
            "tokens": job.tokens + unsettled * job.spec.budget.tokens_per_attempt,
            "cost": None if job.unpriced or (unsettled and not job.cost_most) else job.cost + unsettled * job.cost_most,
        },
        error="" if done else f"The job was not done. {job.reason}",
        attempt=1,
        started_at=job.created_at or now,
        finished_at=now,
    )
