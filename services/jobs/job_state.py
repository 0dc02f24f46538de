"""What is stored of a job, what happened to it since it was loaded, and how that is noted. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from placet.contracts import messages as m
from placet.contracts.ids import job_conversation_id
from placet.jobs.rules import budget
from placet.jobs.states import (
    ATTEMPT_MACHINE,
    JOB_MACHINE,
    TASK_MACHINE,
    AttemptEvent,
    AttemptState,
    Changes,
    JobEvent,
    JobState,
    TaskEvent,
    TaskState,
)
from placet.runtime.work import Change

Data = dict[str, Any]

#: Characters of a vote's key that people are shown.
SHOWN_KEY = 8
#: Among what was thrown out, attempts of which nothing was heard in their time.
LOST = "lost"


@dataclass(slots=True)
class Job:
    """A job as it is stored."""

    job_id: str
    spec: m.RunJob
    state: JobState = JOB_MACHINE.initial
    tasks: int = 0
    decided: int = 0
    #: Tasks whose attempts are under way.
    active: int = 0
    attempts: int = 0
    running: int = 0
    flagged: int = 0
    agreed: int = 0
    cast: int = 0
    tokens: int = 0
    cost: float = 0.0
    cost_most: float = 0.0
    unpriced: bool = False
    #: Whether a task could not draw an attempt because the budget had no room for its share.
    starved: bool = False
    #: Whether any attempt left something staged.
    staged: bool = False
    #: Its workspace, where a winner's entries are in one; how many these are, of a commit how many took effect, and
    #: what became of them.
    workspace: str | None = None
    entries: int = 0
    changes: Changes = Changes.NONE
    log_seq: int = 0
    reason: str = ""
    result: Data | None = None
    #: Tasks whose winner conflicted; the one of them that is tried anew now, beside which nothing begins.
    conflicted: int = 0
    retried: int | None = None
    #: Since when no model answered.
    silent_since: datetime | None = None
    #: None: just now.
    created_at: datetime | None = None

    @property
    def spent(self) -> budget.Spent:
        """What it has used up."""
        return budget.Spent(self.tokens, self.running, self.cost, self.cost_most, self.unpriced)

    @property
    def conversation_id(self) -> str:
        """The conversation in which people decide about its workspace."""
        return job_conversation_id(self.spec.tenant, "job-conversation", self.job_id)

    @property
    def ids(self) -> dict[str, str]:
        """What the log says beside of what happens to it: where people decide, and the call that it answers."""
        ids = {"job_id": self.job_id, "conversation_id": self.conversation_id}
        return ids | ({"call_id": self.spec.caller.call_id} if self.spec.caller else {})

    @property
    def places(self) -> int:
        """Tasks that may begin now."""
        return 0 if self.retried is not None else self.spec.plan.parallel_max - self.active


@dataclass(slots=True)
class Task:
    """A task as it is stored."""

    number: int
    task_id: str
    text: str
    state: TaskState = TASK_MACHINE.initial
    needs: list[str] = field(default_factory=list)
    produces: list[str] = field(default_factory=list)
    group: int = 0
    open_needs: int = 0
    k: int = 0
    votes: dict[str, int] = field(default_factory=dict)
    drawn: int = 0
    running: int = 0
    answer: Data | None = None
    #: The attempt that won, where what it left staged is to be moved into the workspace of the job.
    winner: str | None = None
    #: Entries of the job's workspace that its attempts read, and those before its own; its own, in order.
    base: int = 0
    behind: int | None = None
    entries: list[Data] = field(default_factory=list)
    #: Attempts since then that have no vote: by flag, and `lost`.
    thrown_out: dict[str, int] = field(default_factory=dict)
    #: Attempts that were drawn before its winner conflicted, and how often that happened with nothing to explain it.
    drawn_before: int = 0
    conflicts: int = 0
    reason: str = ""
    #: Answers of what it needs, by task; where they were loaded.
    inputs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What people are told."""
        return f"task {self.task_id}" if self.number else "the division"

    @property
    def tried(self) -> str:
        """What became of its attempts since its winner conflicted, or of all: in numbers."""
        flags = {flag: number for flag, number in self.thrown_out.items() if flag != LOST}
        named = [worded(flag) if len(flags) == 1 else f"{number} {worded(flag)}" for flag, number in flags.items()]
        lost, votes = self.thrown_out.get(LOST, 0), sorted(self.votes.items())
        parts = [
            *([f"{sum(flags.values())} thrown out ({', '.join(named)})"] if flags else []),
            *([f"{lost} lost"] if lost else []),
            *([f"{self.running} still under way"] if self.running else []),
            f"votes: {', '.join(f'{key[:SHOWN_KEY]} {number}' for key, number in votes) or 'none'}",
        ]
        attempts = counted(self.drawn - self.drawn_before, "attempt", "attempts")
        return f"{attempts}{':' if len(parts) > 1 else ','} {', '.join(parts)}"

    def count_thrown_out(self, why: str) -> None:
        """Count an attempt that has no vote, by its flag or as lost."""
        self.thrown_out = {**self.thrown_out, why: self.thrown_out.get(why, 0) + 1}


@dataclass(slots=True)
class Attempt:
    """An attempt as it is stored."""

    attempt_id: str
    number: int
    attempt: int
    conversation_id: str
    state: AttemptState = ATTEMPT_MACHINE.initial
    vote_key: str | None = None
    answer: Data | None = None
    tree_digest: str | None = None
    staged: int = 0
    flags: list[str] = field(default_factory=list)
    reason: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    calls: int = 0
    asked_again: int = 0
    #: When its agent is asked, where no model answered before; None: it was.
    begins_at: datetime | None = None


@dataclass(slots=True)
class JobCourse:
    """A job, and what happened to it since it was loaded."""

    job: Job
    new_tasks: list[Task] = field(default_factory=list)
    tasks: dict[int, Task] = field(default_factory=dict)
    new_attempts: list[Attempt] = field(default_factory=list)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    log: list[tuple[str, Data]] = field(default_factory=list)
    emitted: list[m.Message] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    #: Tasks that were decided now: what needs them may begin.
    decided: list[Task] = field(default_factory=list)
    #: Whether a place came free, or a task that may take one.
    opened: bool = False
    #: Numbers of tasks whose other attempts are not wanted any more.
    settled: list[int] = field(default_factory=list)
    #: Lines of the log that are stored, with their numbers.
    noted: list[tuple[int, str, Data]] = field(default_factory=list)
    #: Whether it ended now.
    ended: bool = False
    #: Whether an administrator had stopped such jobs before it began.
    stopped: bool = False
    #: Attempts that ran when it ended: what they used is told later.
    unsettled: int = 0
    #: When what is drawn now begins; None: at once.
    begins_at: datetime | None = None
    #: Tasks under way whose winner conflicted before.
    tried_anew: int = 0
    #: Whether what its winners left staged is thrown away now.
    threw_away: bool = False

    def saved(self) -> None:
        """Forget what is stored now, and keep what is to be sent."""
        first = self.job.log_seq - len(self.log) + 1
        self.noted += [(seq, kind, data) for seq, (kind, data) in enumerate(self.log, first)]
        self.new_tasks, self.tasks, self.new_attempts, self.attempts, self.log = [], {}, [], {}, []

    def _move_job(self, event: JobEvent, detail: Data, actor: str = "jobs") -> None:
        before, self.job.state = self.job.state, JOB_MACHINE.next_state(self.job.state, event)
        self.ended |= self.job.state in JOB_MACHINE.final
        self._record_job(event, before, self.job.state, detail, actor=actor)

    def _move_task(self, task: Task, event: TaskEvent, detail: Data) -> None:
        before, task.state = task.state, TASK_MACHINE.next_state(task.state, event)
        self._record_task(task, event, before, task.state, detail)

    def _move_attempt(self, attempt: Attempt, event: AttemptEvent, detail: Data) -> None:
        before, attempt.state = attempt.state, ATTEMPT_MACHINE.next_state(attempt.state, event)
        self.attempts[attempt.attempt_id] = attempt
        self._record_attempt(attempt, event, before, attempt.state, detail)

    def _record_job(
        self, event: str, before: JobState | None, to: JobState, detail: Data | None = None, *, actor: str = "jobs"
    ) -> None:
        job = self.job
        self.changes.append(
            Change(job.spec.tenant, JOB_MACHINE.name, job.job_id, event, before, to, actor, None, detail or {}, job.ids)
        )

    def _record_task(
        self, task: Task, event: str, before: TaskState | None, to: TaskState, detail: Data | None = None
    ) -> None:
        job, subject = self.job, f"{self.job.job_id}/{task.number}"
        self.changes.append(
            Change(job.spec.tenant, TASK_MACHINE.name, subject, event, before, to, "jobs", None, detail or {}, job.ids)
        )

    def _record_attempt(
        self, attempt: Attempt, event: str, before: AttemptState | None, to: AttemptState, detail: Data | None = None
    ) -> None:
        tenant, subject = self.job.spec.tenant, attempt.attempt_id
        about = {"job_id": self.job.job_id, "conversation_id": attempt.conversation_id}
        self.changes.append(
            Change(tenant, ATTEMPT_MACHINE.name, subject, event, before, to, "jobs", None, detail or {}, about)
        )

    def _note(self, kind: str, data: Data, line: str) -> None:
        self.job.log_seq += 1
        self.log.append((kind, {**data, "line": line}))

    def _note_attempt(self, task: Task, attempt: Attempt, what: str) -> None:
        told: Data = {"task": task.task_id, "number": task.number, "attempt": attempt.attempt, "state": attempt.state}
        told |= {"attempt_id": attempt.attempt_id, "conversation_id": attempt.conversation_id}
        told |= {"flags": attempt.flags} if attempt.flags else {}
        told |= {"key": attempt.vote_key} if attempt.vote_key else {}
        used = attempt.input_tokens + attempt.output_tokens
        cost = f", ${attempt.cost:.4f}" if attempt.cost else ""
        times = "once" if attempt.asked_again == 1 else f"{attempt.asked_again} times"
        again = f", asked again {times} after a worker died" if attempt.asked_again else ""
        if attempt.state is not AttemptState.RUNNING:
            told |= {"tokens": used, "cost": attempt.cost, "calls": attempt.calls, "asked_again": attempt.asked_again}
        paid = f" ({counted(attempt.calls, 'call', 'calls')}, {used} tokens{cost}{again})" if used else ""
        self._note("attempt", told, f"{task.name}, attempt {attempt.attempt} {what}{paid}")


def counted(number: int, one: str, many: str) -> str:
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else many}"


def worded(flag: str) -> str:
    """Return a flag as people read it."""
    return flag.replace("_", " ")
