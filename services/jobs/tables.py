"""Rows of the jobs service."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.jobs.states import ATTEMPT_MACHINE, JOB_MACHINE, TASK_MACHINE, AttemptState, Changes, JobState, TaskState
from placet.runtime.database import MOMENT, check_states, column, metadata, one_of

_NOW = {"server_default": sa.func.clock_timestamp()}
_TEXTS = pg.ARRAY(sa.Text)
#: Conversation of the call that a job answers.
_CALLER = "(spec #>> '{caller,conversation_id}')"
#: Tables whose rows change often: room on each page, so that a change stays there.
_CHANGING: dict[str, Any] = {"schema": "jobs", "postgresql_with": {"fillfactor": "70"}}


#: One job. Its row is the lock under which everything in it changes.
JOBS = sa.Table(
    "jobs",
    metadata,
    column("job_id", sa.String, primary_key=True),
    column("tenant", sa.String),
    column("agent", sa.String),
    column("author", sa.String),
    column("state", sa.String, default=JOB_MACHINE.initial),
    #: As it was asked: RunJob, without its tasks.
    column("spec", pg.JSONB),
    #: Of its division; 0 until there is one.
    column("tasks", sa.Integer, default=0),
    column("decided", sa.Integer, default=0),
    #: Tasks whose attempts are under way.
    column("active", sa.Integer, default=0),
    #: Drawn so far.
    column("attempts", sa.Integer, default=0),
    #: Attempts under way: each has its share of the budget reserved.
    column("running", sa.Integer, default=0),
    column("flagged", sa.Integer, default=0),
    #: Votes for the winners of decided tasks.
    column("agreed", sa.Integer, default=0),
    #: All votes of decided tasks.
    column("cast", sa.Integer, default=0),
    column("tokens", sa.BigInteger, default=0),
    #: Of the attempts whose price is known, in US dollars.
    column("cost", sa.Float, default=0.0),
    column("cost_most", sa.Float, default=0.0),
    column("unpriced", sa.Boolean, default=False),
    #: Whether an attempt waits for room in the budget.
    column("starved", sa.Boolean, default=False),
    #: Whether any attempt left something staged.
    column("staged", sa.Boolean, default=False),
    #: Where its winners' entries are; none: nothing is.
    column("workspace", sa.String, nullable=True),
    #: Of its workspace.
    column("entries", sa.Integer, default=0),
    #: What became of its workspace; empty: there is none.
    column("changes", sa.String, default=""),
    #: Tasks whose winner conflicted with what others left.
    column("conflicted", sa.Integer, default=0),
    #: The one of them that is tried anew, alone.
    column("retried", sa.Integer, nullable=True),
    #: Since then no model answered.
    column("silent_since", MOMENT, nullable=True),
    column("log_seq", sa.Integer, default=0),
    column("reason", sa.String, default=""),
    column("result", pg.JSONB, nullable=True),
    column("created_at", MOMENT, **_NOW),
    column("ended_at", MOMENT, nullable=True),
    check_states("state", JobState),
    check_states("changes", Changes),
    sa.CheckConstraint(
        f"({one_of('state', sorted(JOB_MACHINE.final))}) = (ended_at IS NOT NULL)", name="ended_iff_final"
    ),
    sa.Index("ix_jobs_newest", "tenant", sa.text("created_at DESC"), sa.text("job_id DESC")),
    sa.Index("ix_jobs_author", "tenant", "author", sa.text("created_at DESC"), sa.text("job_id DESC")),
    sa.Index("ix_jobs_retried", "job_id", postgresql_where=sa.text("retried IS NOT NULL AND ended_at IS NULL")),
    sa.Index("ix_jobs_caller", sa.text(_CALLER), postgresql_where=sa.text(f"{_CALLER} IS NOT NULL")),
    **_CHANGING,
)


#: One task of a job; number 0 divides it.
TASKS = sa.Table(
    "tasks",
    metadata,
    column("job_id", sa.String, primary_key=True),
    column("number", sa.Integer, primary_key=True),
    #: As the division calls it; empty for the division itself.
    column("task_id", sa.String),
    column("text", sa.String),
    column("state", sa.String, default=TASK_MACHINE.initial),
    column("needs", _TEXTS),
    column("produces", _TEXTS),
    column("group_number", sa.Integer, default=0),
    #: Tasks that it needs and that are not decided.
    column("open_needs", sa.Integer, default=0),
    column("k", sa.Integer, default=0),
    column("votes", pg.JSONB),
    column("drawn", sa.Integer, default=0),
    column("running", sa.Integer, default=0),
    column("answer", pg.JSONB, nullable=True),
    #: Attempt whose staged entries are to be moved, or were.
    column("winner", sa.String, nullable=True),
    #: Entries of the job's workspace that its attempts read.
    column("base", sa.Integer, default=0),
    #: Entries of the job's workspace before its own.
    column("behind", sa.Integer, nullable=True),
    #: Its own: call_id and digest, in order.
    column("entries", pg.JSONB),
    #: Attempts drawn before its last conflict.
    column("drawn_before", sa.Integer, default=0),
    #: In a row, with nothing moved meanwhile that explains them.
    column("conflicts", sa.Integer, default=0),
    #: Attempts since then without a vote, by flag.
    column("thrown_out", pg.JSONB),
    column("reason", sa.String, default=""),
    check_states("state", TaskState),
    sa.Index("ix_tasks_by_id", "job_id", "task_id", unique=True),
    sa.Index("ix_tasks_ready", "job_id", "number", postgresql_where=sa.text("state = 'ready'")),
    sa.Index("ix_tasks_needs", "needs", postgresql_using="gin", postgresql_where=sa.text("state = 'blocked'")),
    **_CHANGING,
)


#: One attempt at a task, in a conversation of its own.
ATTEMPTS = sa.Table(
    "attempts",
    metadata,
    column("attempt_id", sa.String, primary_key=True),
    column("job_id", sa.String),
    #: Of its task.
    column("number", sa.Integer),
    #: Its place among the attempts at the task, from 1.
    column("attempt", sa.Integer),
    column("conversation_id", sa.String),
    column("state", sa.String, default=ATTEMPT_MACHINE.initial),
    column("vote_key", sa.String, nullable=True),
    column("answer", pg.JSONB, nullable=True),
    column("tree_digest", sa.String, nullable=True),
    #: Entries that it left in its workspace.
    column("staged", sa.Integer, default=0),
    column("flags", _TEXTS),
    column("reason", sa.String, default=""),
    column("input_tokens", sa.Integer, default=0),
    column("output_tokens", sa.Integer, default=0),
    column("cost", sa.Float, nullable=True),
    column("calls", sa.Integer, default=0),
    column("asked_again", sa.Integer, default=0),
    column("begun_at", MOMENT, **_NOW),
    #: When its agent is asked; none: it was.
    column("begins_at", MOMENT, nullable=True),
    #: Nothing heard until then: it is lost.
    column("deadline", MOMENT),
    column("ended_at", MOMENT, nullable=True),
    check_states("state", AttemptState),
    sa.Index("ix_attempts_of_task", "job_id", "number", "attempt", unique=True),
    sa.Index("ix_attempts_deadline", "deadline", postgresql_where=sa.text("state = 'running'")),
    sa.Index("ix_attempts_begins", "begins_at", postgresql_where=sa.text("begins_at IS NOT NULL")),
    **_CHANGING,
)


#: One line of a job's log.
LOG = sa.Table(
    "log",
    metadata,
    column("job_id", sa.String, primary_key=True),
    #: Gapless, from 1.
    column("seq", sa.Integer, primary_key=True),
    column("tenant", sa.String),
    column("type", sa.String),
    column("at", MOMENT, **_NOW),
    column("data", pg.JSONB),
    schema="jobs",
)
