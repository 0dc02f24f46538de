"""All SQL of the jobs service, by name from `queries.sql`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic_core import from_json, to_json

from placet.contracts.messages import ACCOMPLISH_TOOL, JobTask, MergedEntry, RunJob
from placet.jobs.course import Course
from placet.jobs.job_state import Attempt, Job, Task
from placet.jobs.states import JOB_MACHINE, AttemptState, Changes, JobState, TaskState
from placet.runtime.queries import load_queries
from placet.runtime.sql import Connection

QUERIES = load_queries(__file__)
_DUE = {
    "asked": QUERIES.due_attempts,
    "lost": QUERIES.lost_attempts,
    "held": QUERIES.held_retries,
    "untaken": QUERIES.untaken_attempts,
}
#: Columns of `write` that are the job's own.
_COUNTS = (
    *("state", "tasks", "decided", "active", "attempts", "running", "flagged", "agreed", "cast", "tokens", "cost"),
    *("cost_most", "unpriced", "starved", "staged", "workspace", "entries", "changes", "conflicted"),
    *("retried", "silent_since", "log_seq", "reason"),
)
_NEW_TASK = (
    *("number", "task_id", "text", "state", "needs", "produces", "open_needs", "k", "votes", "drawn", "running"),
    "reason",
)
_TASK = (
    *("number", "state", "k", "votes", "drawn", "running", "reason", "answer", "winner", "drawn_before", "conflicts"),
    *("thrown_out", "base", "behind", "entries"),
)
_NEW_ATTEMPT = ("attempt_id", "number", "attempt", "conversation_id", "state", "begins_at")
_ATTEMPT = (
    *("attempt_id", "state", "vote_key", "answer", "tree_digest", "staged", "flags", "reason", "input_tokens"),
    *("output_tokens", "cost", "calls", "asked_again", "begins_at"),
)


async def add_job(connection: Connection, spec: RunJob) -> bool:
    """Store a new job; tell whether it is new."""
    given = {"job_id": spec.job_id, "tenant": spec.tenant, "agent": spec.agent, "author": spec.author.id}
    # The tasks that came with it are rows of their own, and what is stored is read with every vote.
    stored = spec.model_dump(exclude={"tasks"})
    return bool(await connection.run(QUERIES.add_job, **given, spec=_json(stored)))


async def is_stopped(connection: Connection, spec: RunJob) -> bool:
    """Tell whether an administrator stopped such jobs; one that a person asked for is no call of a tool."""
    tool = ACCOMPLISH_TOOL if spec.caller else ""
    return bool(await connection.run(QUERIES.stopped, tenant=spec.tenant, agent=spec.agent, tool=tool))


async def lock_job(connection: Connection, job_id: str, tenant: str) -> Job | None:
    """Return a tenant's job, locked until the transaction ends; None where it has none of that id."""
    rows = await connection.run(QUERIES.lock_job, job_id=job_id, tenant=tenant)
    if not rows:
        return None
    found = dict(rows[0])
    spec = RunJob.model_validate_json(found.pop("spec"))
    found["result"] = from_json(found["result"]) if found["result"] else None
    return Job(**found | {"spec": spec, "state": JobState(found["state"]), "changes": Changes(found["changes"])})


async def is_there(connection: Connection, job_id: str) -> bool:
    """Tell whether any tenant has a job of this id."""
    return bool(await connection.run(QUERIES.is_there, job_id=job_id))


async def load_task(connection: Connection, job_id: str, number: int) -> Task:
    """Return a task of a locked job, with the answers that it needs."""
    (row,) = await connection.run(QUERIES.load_task, job_id=job_id, number=number)
    return _task(row)


async def load_attempt(connection: Connection, job_id: str, attempt_id: str) -> Attempt | None:
    """Return an attempt of a locked job; None where it has none of that id."""
    rows = await connection.run(QUERIES.load_attempt, job_id=job_id, attempt_id=attempt_id)
    return _attempt(rows[0]) if rows else None


async def unblock(connection: Connection, job_id: str, task_id: str) -> list[tuple[int, str]]:
    """Tell what needs a task that it is decided; return numbers and ids of what needs nothing more."""
    return [(row[0], row[1]) for row in await connection.run(QUERIES.unblock, job_id=job_id, task_id=task_id)]


async def startable(connection: Connection, job_id: str, *, places: int, starved: bool) -> list[int]:
    """Return the tasks of a locked job that may begin or go on now, at most `places`."""
    if places <= 0:
        return []
    found = await connection.run(QUERIES.startable, job_id=job_id, places=places, starved=starved)
    return [row[0] for row in found]


async def tried_anew(connection: Connection, job_id: str) -> int:
    """Return how many tasks of a locked job are under way whose winner conflicted before."""
    return int((await connection.run(QUERIES.tried_anew, job_id=job_id))[0][0])


async def load_open(connection: Connection, job_id: str) -> tuple[list[Task], list[Attempt]]:
    """Return what is not over of a locked job."""
    tasks = await connection.run(QUERIES.open_tasks, job_id=job_id)
    attempts = await connection.run(QUERIES.running_attempts, job_id=job_id)
    return [_task(row) for row in tasks], [_attempt(row) for row in attempts]


async def load_entries(connection: Connection, job_id: str) -> list[MergedEntry]:
    """Return what is in the workspace of a job, in order."""
    rows = await connection.run(QUERIES.entries, job_id=job_id)
    return [MergedEntry(**each) for row in rows for each in from_json(row["entries"])]


async def load_answers(connection: Connection, job_id: str) -> tuple[list[JobTask], dict[str, Any]]:
    """Return the tasks of a job without its division, and their answers by id."""
    rows = await connection.run(QUERIES.answers, job_id=job_id)
    tasks = [JobTask(id=row["task_id"], task=row["text"], needs=row["needs"], produces=row["produces"]) for row in rows]
    return tasks, {row["task_id"]: from_json(row["answer"]) for row in rows}


async def losers(connection: Connection, job_id: str, number: int | None) -> list[str]:
    """Return conversations of ended attempts that did not win and left something staged: of one task, or of all."""
    return [row[0] for row in await connection.run(QUERIES.losers, job_id=job_id, number=number)]


async def due(
    connection: Connection, what: Literal["asked", "lost", "held", "untaken"], limit: int, **given: float
) -> list[tuple[str, str, str, int]]:
    """Return attempts with which time brings something about: tenant, job, attempt, and number of the task.

    Those whose agents are to be asked now; whose time is over; in which people are asked and that hold up other tasks;
    or that no agent has taken for `seconds`, as nobody was told yet.
    """
    rows = await connection.run(_DUE[what], limit=limit, **given)
    return [(row["tenant"], row["job_id"], row["attempt_id"], row["number"]) for row in rows]


async def live_before(connection: Connection, moment: datetime) -> list[tuple[str, str]]:
    """Return jobs that began until a moment and are not over: tenant and job."""
    return [(row["tenant"], row["job_id"]) for row in await connection.run(QUERIES.live_before, moment=moment)]


async def write(connection: Connection, course: Course) -> None:
    """Store what became of a locked job."""
    job = course.job
    new = {each.number for each in course.new_tasks}
    await connection.run(
        QUERIES.write,
        **{name: getattr(job, name) for name in _COUNTS},
        job_id=job.job_id,
        tenant=job.spec.tenant,
        result=None if job.result is None else _json(job.result),
        ended=job.state in JOB_MACHINE.final,
        lease=timedelta(seconds=job.spec.plan.attempt_seconds),
        new_tasks=_json([_row(each, _NEW_TASK) | {"group_number": each.group} for each in course.new_tasks]),
        tasks_now=_json([_row(each, _TASK) for each in course.tasks.values() if each.number not in new]),
        new_attempts=_json([_row(each, _NEW_ATTEMPT) for each in course.new_attempts]),
        attempts_now=_json([_row(each, _ATTEMPT) for each in course.attempts.values()]),
        log=_json(
            [
                {"seq": seq, "type": kind, "data": data}
                for seq, (kind, data) in enumerate(course.log, job.log_seq - len(course.log) + 1)
            ]
        ),
    )


def _row(value: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _json(value: Any) -> str:
    return to_json(value).decode()


def _task(row: Mapping[str, Any]) -> Task:
    found = dict(row)
    found["group"] = found.pop("group_number")
    found["votes"], found["state"] = from_json(found["votes"]), TaskState(found["state"])
    found["entries"], found["thrown_out"] = from_json(found["entries"]), from_json(found["thrown_out"])
    found["inputs"] = from_json(found["inputs"]) if found["inputs"] else {}
    return Task(**found)


def _attempt(row: Mapping[str, Any]) -> Attempt:
    known = {each.name for each in fields(Attempt)}
    found = {name: value for name, value in row.items() if name in known}
    return Attempt(**found | {"state": AttemptState(found["state"])})
