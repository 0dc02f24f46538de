"""States of a job, of its tasks and of the attempts at them. Every change of state is a row of a table below."""

from __future__ import annotations

from enum import StrEnum

from placet.contracts.transitions import Machine


class JobState(StrEnum):
    """Where a job can be, and who moves it on."""

    DIVIDING = "dividing"  # an agent divides the task; its division moves it on, or the last one that is refused
    RUNNING = "running"  # its tasks are tried; the last decided one moves it on, or the first failed one
    WAITING = "waiting"  # people are asked about its workspace, or what they let through runs; the end moves it on
    WITHDRAWING = "withdrawing"  # the question is withdrawn; whether something runs already, its end says
    DONE = "done"  # final: every task is decided, and what it changes is committed
    FAILED = "failed"  # final: a task or the division failed, the budget is used up, or its changes are not committed
    CANCELLED = "cancelled"  # final: somebody did not want it any more


class JobEvent(StrEnum):
    """What can happen to a job."""

    DIVIDED = "divided"
    FINISHED = "finished"  # the last task is decided, and nothing waits in its workspace
    PROPOSED = "proposed"  # the last task is decided, and people are asked about its workspace
    COMMITTED = "committed"
    PARTLY_COMMITTED = "partly_committed"
    NOT_COMMITTED = "not_committed"  # people denied it, or it could not be done
    GAVE_UP = "gave_up"
    CANCELLED = "cancelled"


_OVER = (JobState.DONE, JobState.FAILED, JobState.CANCELLED)

JOB_MACHINE = Machine(
    name="job",
    initial=JobState.DIVIDING,
    transitions={
        (JobState.DIVIDING, JobEvent.DIVIDED): JobState.RUNNING,
        (JobState.DIVIDING, JobEvent.GAVE_UP): JobState.FAILED,
        (JobState.DIVIDING, JobEvent.CANCELLED): JobState.CANCELLED,
        (JobState.RUNNING, JobEvent.FINISHED): JobState.DONE,
        (JobState.RUNNING, JobEvent.GAVE_UP): JobState.FAILED,
        (JobState.RUNNING, JobEvent.CANCELLED): JobState.CANCELLED,
        (JobState.RUNNING, JobEvent.PROPOSED): JobState.WAITING,
        (JobState.WAITING, JobEvent.COMMITTED): JobState.DONE,
        (JobState.WAITING, JobEvent.PARTLY_COMMITTED): JobState.FAILED,
        (JobState.WAITING, JobEvent.NOT_COMMITTED): JobState.FAILED,
        (JobState.WAITING, JobEvent.CANCELLED): JobState.WITHDRAWING,
        (JobState.WITHDRAWING, JobEvent.COMMITTED): JobState.DONE,
        (JobState.WITHDRAWING, JobEvent.PARTLY_COMMITTED): JobState.FAILED,
        (JobState.WITHDRAWING, JobEvent.NOT_COMMITTED): JobState.CANCELLED,
    },
    final=frozenset(_OVER),
    # It ended by itself, or somebody was faster.
    races=frozenset((state, JobEvent.CANCELLED) for state in (*_OVER, JobState.WITHDRAWING)),
)


class TaskState(StrEnum):
    """Where a task can be, and who moves it on."""

    BLOCKED = "blocked"  # a task that it needs is not decided; the last one that is moves it on
    READY = "ready"  # it can be tried; a free place among the parallel ones moves it on
    RUNNING = "running"  # attempts are under way; a vote that is ahead by k moves it on
    MERGING = "merging"  # an answer won; what its attempt left staged is moved into the workspace of the job
    DECIDED = "decided"  # final: an answer won
    FAILED = "failed"  # final: no answer can win any more
    WITHDRAWN = "withdrawn"  # final: the job was over first


class TaskEvent(StrEnum):
    """What can happen to a task."""

    NEEDS_DECIDED = "needs_decided"
    BEGUN = "begun"
    WON = "won"
    WON_STAGED = "won_staged"  # and what its attempt left staged is to be moved
    MERGED = "merged"
    CONFLICTED = "conflicted"  # another task's winner changed the same meanwhile: it is tried anew on what is there now
    NOT_MERGED = "not_merged"  # the workspace of the job cannot take it, or it conflicts again and again
    NO_MAJORITY = "no_majority"
    JOB_OVER = "job_over"


_OPEN_TASKS = (TaskState.BLOCKED, TaskState.READY, TaskState.RUNNING, TaskState.MERGING)

TASK_MACHINE = Machine(
    name="task",
    initial=TaskState.BLOCKED,
    transitions={
        (TaskState.BLOCKED, TaskEvent.NEEDS_DECIDED): TaskState.READY,
        (TaskState.READY, TaskEvent.BEGUN): TaskState.RUNNING,
        (TaskState.RUNNING, TaskEvent.WON): TaskState.DECIDED,
        (TaskState.RUNNING, TaskEvent.WON_STAGED): TaskState.MERGING,
        (TaskState.MERGING, TaskEvent.MERGED): TaskState.DECIDED,
        (TaskState.MERGING, TaskEvent.CONFLICTED): TaskState.READY,
        (TaskState.MERGING, TaskEvent.NOT_MERGED): TaskState.FAILED,
        (TaskState.RUNNING, TaskEvent.NO_MAJORITY): TaskState.FAILED,
        **{(state, TaskEvent.JOB_OVER): TaskState.WITHDRAWN for state in _OPEN_TASKS},
    },
    final=frozenset({TaskState.DECIDED, TaskState.FAILED, TaskState.WITHDRAWN}),
)


class AttemptState(StrEnum):
    """Where an attempt can be, and who moves it on."""

    RUNNING = "running"  # an agent works on it; its end moves it on, or the sweeper when its time is over
    VOTED = "voted"  # its answer counts; only a conflict moves it on, where it has won
    CONFLICTED = "conflicted"  # final: thrown out after it won, because another task's winner changed the same
    FLAGGED = "flagged"  # final: thrown out for the flags that it has
    LOST = "lost"  # final: nothing was heard of it in its time
    WITHDRAWN = "withdrawn"  # final: its job or its task was over first


class AttemptEvent(StrEnum):
    """What can happen to an attempt."""

    ANSWERED = "answered"
    THROWN_OUT = "thrown_out"
    TIME_OVER = "time_over"
    TASK_OVER = "task_over"
    CONFLICTED = "conflicted"


_ENDED = (AttemptState.LOST, AttemptState.WITHDRAWN)

ATTEMPT_MACHINE = Machine(
    name="attempt",
    initial=AttemptState.RUNNING,
    transitions={
        (AttemptState.RUNNING, AttemptEvent.ANSWERED): AttemptState.VOTED,
        (AttemptState.RUNNING, AttemptEvent.THROWN_OUT): AttemptState.FLAGGED,
        (AttemptState.RUNNING, AttemptEvent.TIME_OVER): AttemptState.LOST,
        (AttemptState.RUNNING, AttemptEvent.TASK_OVER): AttemptState.WITHDRAWN,
        (AttemptState.VOTED, AttemptEvent.CONFLICTED): AttemptState.CONFLICTED,
    },
    final=frozenset({AttemptState.CONFLICTED, AttemptState.FLAGGED, *_ENDED}),
    # What ends after all is paid for, and is no vote any more.
    races=frozenset((state, event) for state in _ENDED for event in (AttemptEvent.ANSWERED, AttemptEvent.THROWN_OUT)),
)


class Changes(StrEnum):
    """What became of what a job's winners left staged."""

    NONE = ""
    STAGED = "staged"  # it waits in the workspace of the job, and other tasks are still tried
    WAITING = "waiting"  # people are asked
    COMMITTED = "committed"
    PARTLY_COMMITTED = "partly_committed"
    CONFLICTED = "conflicted"
    UNKNOWN = "unknown"  # nobody saw the end of the commit
    DISCARDED = "discarded"
