"""What is asked of a job over HTTP, and what is told of one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, Strict, model_validator

from placet.contracts.messages import JobBudget, JobPlan, JobTask
from placet.contracts.messages.jobs import ATTEMPTS_MAX, TASK_MAX, TASK_TEXT_MAX, TASKS_MAX, Name
from placet.contracts.messages.message import Identifier
from placet.domain.reliability import Record, votes_needed
from placet.gateway.http.pages import Page
from placet.gateway.jobs.store import Row
from placet.gateway.texts import Body, Labels, Text, saying_something

_PLAN = JobPlan()
_BUDGET = JobBudget()

JobStateName = Literal["dividing", "running", "waiting", "withdrawing", "done", "failed", "cancelled"]
OVER = frozenset({"done", "failed", "cancelled"})
"""The states that a job does not leave."""
ChangesName = Literal["staged", "waiting", "committed", "partly_committed", "conflicted", "unknown", "discarded"]


def _once(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))


class TaskIn(Body):
    """One task of a division made before."""

    id: Name
    task: Annotated[Text, Field(min_length=1, max_length=TASK_TEXT_MAX), AfterValidator(saying_something)]
    needs: Annotated[list[Name], Field(max_length=64)] = Field(default_factory=list)
    produces: Annotated[list[Name], Field(max_length=64)] = Field(default_factory=list)


class BudgetIn(Body):
    """What a job may use up."""

    tokens: Annotated[int | None, Strict(), Field(ge=1, description="Of all attempts; none: any number.")] = None
    cost: Annotated[float | None, Strict(), Field(gt=0, description="Of all attempts, in US dollars.")] = None
    tokens_per_attempt: Annotated[int, Strict(), Field(ge=1, le=10_000_000)] = _BUDGET.tokens_per_attempt

    @model_validator(mode="after")
    def _pays_an_attempt(self) -> Self:
        if self.tokens is not None and self.tokens < self.tokens_per_attempt:
            raise ValueError(f"tokens is {self.tokens}: less than tokens_per_attempt, {self.tokens_per_attempt}")
        return self


class JobIn(Body):
    """A job."""

    id: Annotated[
        Identifier | None,
        Field(
            description="Chosen by you: the same id with the same body is the same job, with another one it is "
            "refused. Its whole id is in the answer."
        ),
    ] = None
    agent: Identifier = "default"
    task: Annotated[Text, Field(min_length=1, max_length=TASK_MAX), AfterValidator(saying_something)]
    context: Annotated[Text, Field(max_length=TASK_MAX)] = ""
    root: Annotated[Text, Field(max_length=1_024)] = ""
    outputs: Annotated[
        list[Name], AfterValidator(_once), Field(max_length=64, description="What it must produce, each once.")
    ] = Field(default_factory=list)
    tasks: Annotated[
        list[TaskIn] | None, Field(max_length=TASKS_MAX, description="A division made before; null: the agent divides.")
    ] = None
    answer_schema: Annotated[
        dict[str, Any] | None, Field(description="JSON Schema of each task's answer, an object.")
    ] = None
    budget: BudgetIn = BudgetIn()
    k: Annotated[int | None, Strict(), Field(ge=1, le=20)] = None
    p: Annotated[float | None, Strict(), Field(gt=0.5, le=1)] = None
    epsilon: Annotated[float, Strict(), Field(gt=0, lt=1)] = _PLAN.epsilon
    attempts_max: Annotated[int, Strict(), Field(ge=1, le=ATTEMPTS_MAX)] = _PLAN.attempts_max
    parallel_max: Annotated[int, Strict(), Field(ge=1, le=100)] = _PLAN.parallel_max
    tasks_max: Annotated[int, Strict(), Field(ge=1, le=TASKS_MAX)] = _PLAN.tasks_max
    min_complexity: Annotated[int, Strict(), Field(ge=0, le=10)] = _PLAN.min_complexity
    answer_tokens_max: Annotated[int | None, Strict(), Field(ge=1)] = None
    attempt_seconds: Annotated[int, Strict(), Field(ge=1, le=2_592_000)] = _PLAN.attempt_seconds
    language: Annotated[str, Field(pattern=r"^[a-z]{2}$")] = "en"
    labels: Labels = Field(default_factory=dict)

    @model_validator(mode="after")
    def _can_be_won(self) -> Self:
        # Whoever is ahead by k has k votes at least: what is paid for less decides nothing.
        if self.k is None and self.p is None:
            return self
        needed = votes_needed(self.k, self.p, Record(), tasks=len(self.tasks or ()) or 1, epsilon=self.epsilon)
        if self.attempts_max < needed.k:
            raise ValueError(f"attempts_max is {self.attempts_max}: no answer can be ahead by k, {needed.k}")
        if needed.misses(self.epsilon):
            raise ValueError(f"epsilon cannot be met: {needed.said(self.epsilon)}")
        return self

    def plan(self) -> JobPlan:
        """Return how the job goes about its task."""
        return JobPlan(**{name: getattr(self, name) for name in JobPlan.model_fields})

    def division(self) -> list[JobTask]:
        """Return the tasks that were given."""
        return [JobTask(**each.model_dump()) for each in self.tasks or ()]


class JobSent(BaseModel):
    """A job is safe, and will be done."""

    id: str
    state: Literal["accepted"] = "accepted"


class JobOut(BaseModel):
    """One job."""

    id: str
    state: JobStateName
    agent: str
    author: str
    task: str
    tasks_total: int = Field(description="Tasks of its division; 0 until there is one.")
    tasks_decided: int
    attempts: int = Field(description="Drawn so far.")
    attempts_running: int
    attempts_thrown_out: int
    tokens: int
    cost: float | None = Field(description="In US dollars; null where a price is not known.")
    reason: str = Field(description="Why it ended where it is not done.")
    changes: ChangesName | None = Field(
        description="What became of what its winners left staged; null: they staged nothing."
    )
    changes_total: int = Field(description="Entries in its workspace; once committed, those that took effect.")
    created_at: datetime
    ended_at: datetime | None


class JobPage(Page[JobOut]):
    """Jobs, newest first."""


class AttemptOut(BaseModel):
    """One attempt at a task."""

    id: str
    attempt: int
    conversation_id: str
    state: str
    vote: str | None = Field(description="Hash of its answer: attempts that share it agree.")
    answer: dict[str, Any] | None
    flags: list[str] = Field(description="Why it was thrown out.")
    reason: str
    tokens: int
    cost: float | None
    calls: int
    asked_again: int = Field(description="Times that a model was asked again because a worker died: paid twice.")
    waits_for: list[str] = Field(
        description="Approvals that people are asked for in it and in jobs that it does, oldest first."
    )
    begun_at: datetime
    ended_at: datetime | None


class TaskOut(BaseModel):
    """One task."""

    id: str
    number: int
    task: str
    state: str
    group: int
    needs: list[str]
    produces: list[str]
    k: int
    votes: dict[str, int]
    votes_from: int = Field(description="Number of the first attempt whose vote counts: a conflict voids those before.")
    answer: dict[str, Any] | None
    reason: str
    attempts: list[AttemptOut]


class WholeJobOut(JobOut):
    """One job with its tasks and their attempts."""

    result: dict[str, Any] | None
    plan: dict[str, Any]
    budget: dict[str, Any]
    p: float | None = Field(description="Share of the votes that were for the winners; null before the first.")
    division: TaskOut | None = None
    tasks: list[TaskOut]
    waits_for: list[str] = Field(
        description="Approvals that it waits for: of its attempts and the jobs that these do, and of its changes."
    )
    last_event_id: int


class LineOut(BaseModel):
    """One line of a log."""

    id: int
    type: str
    at: str
    data: dict[str, Any]


class JobLine(BaseModel):
    """What a job's log says of one thing; beside the sentence, the members that its type has."""

    line: str = Field(description="It in one sentence.")
    at: datetime
    state: str | None = Field(default=None, description="Of the job, task or attempt.")
    task: str | None = None
    number: int | None = Field(default=None, description="Of the task; 0 is the division.")
    votes: dict[str, int] | None = Field(default=None, description="Of a task: how often each answer was given.")
    k: int | None = None
    attempt: int | None = None
    attempt_id: str | None = None
    conversation_id: str | None = None
    key: str | None = Field(default=None, description="Of an attempt: the answer that it votes for.")
    flags: list[str] | None = None
    tokens: int | None = None
    cost: float | None = None
    calls: int | None = None
    asked_again: int | None = None
    tasks: int | None = Field(default=None, description="Of a division: how many there are, and in how many groups.")
    groups: int | None = None
    result: dict[str, Any] | None = None
    changes: str | None = None
    entries: int | None = Field(default=None, description="Changes that people are asked about.")
    reason: str | None = None


class JobEvent(BaseModel):
    """One line of a job's log, as its event stream tells it: described here, and not checked while it is sent."""

    id: int
    type: Literal["job", "division", "task", "attempt", "changes"]
    data: JobLine


class LogOut(BaseModel):
    """Lines of a log, oldest first."""

    items: list[LineOut]
    last_event_id: int


def job_out(row: Row) -> dict[str, Any]:
    """Return what is told of a job in a list."""
    told = {
        name: row[name] for name in ("state", "agent", "author", "task", "tokens", "reason", "created_at", "ended_at")
    }
    return told | {
        "id": row["job_id"],
        "tasks_total": row["tasks"],
        "tasks_decided": row["decided"],
        "attempts": row["attempts"],
        "attempts_running": row["running"],
        "attempts_thrown_out": row["flagged"],
        "cost": None if row["unpriced"] else row["cost"],
        "changes": row["changes"] or None,
        "changes_total": row["entries"],
    }


def whole_out(row: Row, tasks: Sequence[Row], attempts: Sequence[Row], cards: Sequence[tuple[str, str]]) -> WholeJobOut:
    """Return all that is told of a job; `cards` are its conversations with what waits there, the oldest first."""
    tried: dict[int, list[AttemptOut]] = {}
    waiting: dict[str, list[str]] = {}
    for conversation_id, approval_id in cards:
        waiting.setdefault(conversation_id, []).append(approval_id)
    for each in attempts:
        tried.setdefault(each["number"], []).append(_attempt_out(each, waiting.get(each["conversation_id"], [])))
    told = [_task_out(each, tried.get(each["number"], [])) for each in tasks]
    return WholeJobOut(
        **job_out(row),
        result=row["result"],
        plan=row["spec"]["plan"],
        budget=row["spec"]["budget"],
        p=row["agreed"] / row["cast"] if row["cast"] else None,
        division=next((each for each in told if each.number == 0), None),
        tasks=[each for each in told if each.number],
        waits_for=list(dict.fromkeys(approval_id for _, approval_id in cards)),
        last_event_id=row["log_seq"],
    )


def _task_out(row: Row, attempts: list[AttemptOut]) -> TaskOut:
    told = {name: row[name] for name in ("number", "state", "needs", "produces", "k", "votes", "answer", "reason")}
    places = {"group": row["group_number"], "votes_from": row["drawn_before"] + 1}
    return TaskOut(id=row["task_id"], task=row["text"], attempts=attempts, **places, **told)


def _attempt_out(row: Row, cards: list[str]) -> AttemptOut:
    names = ("attempt", "conversation_id", "state", "answer", "flags", "reason", "cost", "calls", "asked_again")
    told = {name: row[name] for name in (*names, "begun_at", "ended_at")}
    tokens = row["input_tokens"] + row["output_tokens"]
    return AttemptOut(id=row["attempt_id"], vote=row["vote_key"], tokens=tokens, waits_for=cards, **told)
