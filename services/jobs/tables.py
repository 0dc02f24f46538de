"""Rows of the jobs service."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlmodel import Field, SQLModel

from placet.jobs.states import ATTEMPT_MACHINE, JOB_MACHINE, TASK_MACHINE, AttemptState, Changes, JobState, TaskState
from placet.runtime.database import check_states

_MOMENT = sa.TIMESTAMP(timezone=True)
_NOW = {"server_default": sa.func.clock_timestamp()}
_TEXTS = pg.ARRAY(sa.Text)
_JOB_FINAL = ", ".join(f"'{state}'" for state in sorted(JOB_MACHINE.final))
#: Conversation of the call that a job answers.
_CALLER = "(spec #>> '{caller,conversation_id}')"
#: Tables whose rows change often: room on each page, so that a change stays there.
_CHANGING = {"schema": "jobs", "postgresql_with": {"fillfactor": "70"}}


class JobRow(SQLModel, table=True):
    """One job. Its row is the lock under which everything in it changes."""

    __tablename__ = "jobs"
    __table_args__ = (
        check_states("state", JobState),
        check_states("changes", Changes),
        sa.CheckConstraint(f"(state IN ({_JOB_FINAL})) = (ended_at IS NOT NULL)", name="ended_iff_final"),
        sa.Index("ix_jobs_newest", "tenant", sa.text("created_at DESC"), sa.text("job_id DESC")),
        sa.Index("ix_jobs_author", "tenant", "author", sa.text("created_at DESC"), sa.text("job_id DESC")),
        sa.Index("ix_jobs_retried", "job_id", postgresql_where=sa.text("retried IS NOT NULL AND ended_at IS NULL")),
        sa.Index("ix_jobs_caller", sa.text(_CALLER), postgresql_where=sa.text(f"{_CALLER} IS NOT NULL")),
        _CHANGING,
    )

    job_id: str = Field(primary_key=True)
    tenant: str
    agent: str
    author: str
    state: str = Field(default=JOB_MACHINE.initial)
    spec: dict[str, Any] = Field(sa_type=pg.JSONB, description="As it was asked: RunJob, without its tasks.")
    tasks: int = Field(default=0, description="Of its division; 0 until there is one.")
    decided: int = 0
    active: int = Field(default=0, description="Tasks whose attempts are under way.")
    attempts: int = Field(default=0, description="Drawn so far.")
    running: int = Field(default=0, description="Attempts under way: each has its share of the budget reserved.")
    flagged: int = 0
    agreed: int = Field(default=0, description="Votes for the winners of decided tasks.")
    cast: int = Field(default=0, description="All votes of decided tasks.")
    tokens: int = Field(default=0, sa_type=sa.BigInteger)
    cost: float = Field(default=0.0, description="Of the attempts whose price is known, in US dollars.")
    cost_most: float = 0.0
    unpriced: bool = False
    starved: bool = Field(default=False, description="Whether an attempt waits for room in the budget.")
    staged: bool = Field(default=False, description="Whether any attempt left something staged.")
    workspace: str | None = Field(default=None, description="Where its winners' entries are; none: nothing is.")
    entries: int = Field(default=0, description="Of its workspace.")
    changes: str = Field(default="", description="What became of its workspace; empty: there is none.")
    conflicted: int = Field(default=0, description="Tasks whose winner conflicted with what others left.")
    retried: int | None = Field(default=None, description="The one of them that is tried anew, alone.")
    silent_since: datetime | None = Field(default=None, sa_type=_MOMENT, description="Since then no model answered.")
    log_seq: int = 0
    reason: str = ""
    result: dict[str, Any] | None = Field(default=None, sa_type=pg.JSONB)
    created_at: datetime = Field(sa_type=_MOMENT, sa_column_kwargs=_NOW)
    ended_at: datetime | None = Field(default=None, sa_type=_MOMENT)


class TaskRow(SQLModel, table=True):
    """One task of a job; number 0 divides it."""

    __tablename__ = "tasks"
    __table_args__ = (
        check_states("state", TaskState),
        sa.Index("ix_tasks_by_id", "job_id", "task_id", unique=True),
        sa.Index("ix_tasks_ready", "job_id", "number", postgresql_where=sa.text("state = 'ready'")),
        sa.Index("ix_tasks_needs", "needs", postgresql_using="gin", postgresql_where=sa.text("state = 'blocked'")),
        _CHANGING,
    )

    job_id: str = Field(primary_key=True)
    number: int = Field(primary_key=True)
    task_id: str = Field(description="As the division calls it; empty for the division itself.")
    text: str
    state: str = Field(default=TASK_MACHINE.initial)
    needs: list[str] = Field(sa_type=_TEXTS)
    produces: list[str] = Field(sa_type=_TEXTS)
    group_number: int = 0
    open_needs: int = Field(default=0, description="Tasks that it needs and that are not decided.")
    k: int = 0
    votes: dict[str, int] = Field(sa_type=pg.JSONB)
    drawn: int = 0
    running: int = 0
    answer: dict[str, Any] | None = Field(default=None, sa_type=pg.JSONB)
    winner: str | None = Field(default=None, description="Attempt whose staged entries are to be moved, or were.")
    base: int = Field(default=0, description="Entries of the job's workspace that its attempts read.")
    behind: int | None = Field(default=None, description="Entries of the job's workspace before its own.")
    entries: list[dict[str, Any]] = Field(sa_type=pg.JSONB, description="Its own: call_id and digest, in order.")
    drawn_before: int = Field(default=0, description="Attempts drawn before its last conflict.")
    conflicts: int = Field(default=0, description="In a row, with nothing moved meanwhile that explains them.")
    thrown_out: dict[str, int] = Field(sa_type=pg.JSONB, description="Attempts since then without a vote, by flag.")
    reason: str = ""


class AttemptRow(SQLModel, table=True):
    """One attempt at a task, in a conversation of its own."""

    __tablename__ = "attempts"
    __table_args__ = (
        check_states("state", AttemptState),
        sa.Index("ix_attempts_of_task", "job_id", "number", "attempt", unique=True),
        sa.Index("ix_attempts_deadline", "deadline", postgresql_where=sa.text("state = 'running'")),
        sa.Index("ix_attempts_begins", "begins_at", postgresql_where=sa.text("begins_at IS NOT NULL")),
        _CHANGING,
    )

    attempt_id: str = Field(primary_key=True)
    job_id: str
    number: int = Field(description="Of its task.")
    attempt: int = Field(description="Its place among the attempts at the task, from 1.")
    conversation_id: str
    state: str = Field(default=ATTEMPT_MACHINE.initial)
    vote_key: str | None = None
    answer: dict[str, Any] | None = Field(default=None, sa_type=pg.JSONB)
    tree_digest: str | None = None
    staged: int = Field(default=0, description="Entries that it left in its workspace.")
    flags: list[str] = Field(sa_type=_TEXTS)
    reason: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    calls: int = 0
    asked_again: int = 0
    begun_at: datetime = Field(sa_type=_MOMENT, sa_column_kwargs=_NOW)
    begins_at: datetime | None = Field(
        default=None, sa_type=_MOMENT, description="When its agent is asked; none: it was."
    )
    deadline: datetime = Field(sa_type=_MOMENT, description="Nothing heard until then: it is lost.")
    ended_at: datetime | None = Field(default=None, sa_type=_MOMENT)


class LogRow(SQLModel, table=True):
    """One line of a job's log."""

    __tablename__ = "log"
    __table_args__ = ({"schema": "jobs"},)

    job_id: str = Field(primary_key=True)
    seq: int = Field(primary_key=True, description="Gapless, from 1.")
    tenant: str
    type: str
    at: datetime = Field(sa_type=_MOMENT, sa_column_kwargs=_NOW)
    data: dict[str, Any] = Field(sa_type=pg.JSONB)
