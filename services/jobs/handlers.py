"""What the jobs service does with its messages, and with attempts of which nothing was heard in their time.

Each is one transaction under the lock of the job's row: what happened, what follows from it, and the messages to send.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from prometheus_client import Counter

from placet.contracts.errors import Poison, Transient
from placet.contracts.messages import AttemptEnded, CancelJob, Event, JobCommitted, JobEvents, RunJob, WorkspaceMerged
from placet.jobs import store
from placet.jobs.answer import answer_of
from placet.jobs.course import Course
from placet.jobs.drawing import UNTAKEN_SECONDS
from placet.jobs.job_state import Attempt, Job, Task
from placet.jobs.rules.budget import no_room
from placet.jobs.states import JOB_MACHINE, AttemptState, TaskState
from placet.runtime.sql import Connection
from placet.runtime.work import UnitOfWork, Work

Announce = Callable[[Event], None]

ATTEMPTS = Counter("placet_jobs_attempts_total", "Attempts that ended, by how.", ["state"])
#: Attempts that one sweep begins, and that it gives up.
SWEPT_MAX = 100


async def run(message: RunJob, work: Work, announce: Announce) -> None:
    """Begin a job, unless it is stopped; the same one again changes nothing. Poison where its id is another one's."""
    if not await store.add_job(work.connection, message):
        known = await store.lock_job(work.connection, message.job_id, message.tenant)
        if known is None or known.spec.asked != message.asked:
            raise Poison(f"job {message.job_id} is another one, which was asked for before")
        return
    course = Course(Job(message.job_id, message))
    course.begin(stopped=await store.is_stopped(work.connection, message))
    if course.job.state not in JOB_MACHINE.final:
        await _save_first(course, work)
    await _advance(course, work)
    await _save(course, work, announce)


async def cancel(message: CancelJob, work: Work, announce: Announce) -> None:
    """Leave a job undone; one that is over stays as it ended."""
    job = await store.lock_job(work.connection, message.job_id, message.tenant)
    if job is None:
        # What begins it may be on its way still; another tenant's it will never be.
        kind = Poison if await store.is_there(work.connection, message.job_id) else Transient
        raise kind(f"tenant {message.tenant} has no job {message.job_id}")
    course = Course(job)
    course.cancel(message.by)
    if course.ended:
        await _close(course, work.connection)
    await _save(course, work, announce)


@asynccontextmanager
async def without_broken_off(units: UnitOfWork, announce: Announce) -> AsyncIterator[None]:
    """Cancel, before anything is consumed, the jobs that began before a restore from a backup.

    Their attempts end, and new ones would do again what was done after the backup.
    """
    async with units.database.single() as connection:
        restored = units.database.restored
        broken_off = await store.live_before(connection, restored.at) if restored else []
    for tenant, job_id in broken_off:
        async with units.begin() as work:
            await cancel(CancelJob(tenant=tenant, job_id=job_id, by="restore"), work, announce)
    yield


async def take_attempt(message: AttemptEnded, work: Work, announce: Announce) -> None:
    """Take the end of an attempt, and go on with its job."""
    course, task, attempt = await _load(message, work)
    if attempt.state in {AttemptState.VOTED, AttemptState.FLAGGED}:
        return
    course.take(task, attempt, message, work.now)
    ATTEMPTS.labels(attempt.state).inc()
    await _advance(course, work)
    await _save(course, work, announce)


async def take_merged(message: WorkspaceMerged, work: Work, announce: Announce) -> None:
    """Take what became of moving a winner's entries into the workspace of its job, and go on with the job."""
    course, task, attempt = await _load(message, work)
    course.take_merged(task, attempt, message)
    await _advance(course, work)
    await _save(course, work, announce)


async def take_committed(message: JobCommitted, work: Work, announce: Announce) -> None:
    """Take what became of a job's workspace, and end the job."""
    job = await store.lock_job(work.connection, message.job_id, message.tenant)
    if job is None:
        raise Poison(f"tenant {message.tenant} has no job {message.job_id}")
    course = Course(job)
    course.take_committed(message)
    await _save(course, work, announce)


async def sweep(units: UnitOfWork, announce: Announce) -> int:
    """Do what time brings about; return in how many attempts.

    Agents are asked whose attempts waited; lost ones are given up; others begin beside one in which people are asked;
    and it is said which ones no agent takes.
    """
    async with units.database.single() as connection:
        asked = await store.due(connection, "asked", SWEPT_MAX)
        lost = await store.due(connection, "lost", SWEPT_MAX)
        held = await store.due(connection, "held", SWEPT_MAX)
        untaken = await store.due(connection, "untaken", SWEPT_MAX, seconds=UNTAKEN_SECONDS)
    found = ((Course.ask, asked), (Course.lose, lost), (Course.let_others_begin, held), (Course.note_untaken, untaken))
    steps = [(step, place) for step, places in found for place in places]
    for step, (tenant, job_id, attempt_id, number) in steps:
        async with units.begin() as work:
            job = await store.lock_job(work.connection, job_id, tenant)
            attempt = await store.load_attempt(work.connection, job_id, attempt_id) if job else None
            if job is None or attempt is None or attempt.state is not AttemptState.RUNNING:
                continue
            course = Course(job)
            step(course, await store.load_task(work.connection, job_id, number), attempt)
            if step is Course.lose:
                ATTEMPTS.labels(attempt.state).inc()
            await _advance(course, work)
            await _save(course, work, announce)
    return len(steps)


async def _load(message: AttemptEnded | WorkspaceMerged, work: Work) -> tuple[Course, Task, Attempt]:
    """Return what a message about an attempt is about, its job locked; Poison where its tenant has none such."""
    job = await store.lock_job(work.connection, message.job_id, message.tenant)
    attempt = await store.load_attempt(work.connection, message.job_id, message.attempt_id) if job else None
    if job is None or attempt is None:
        raise Poison(f"tenant {message.tenant} has no attempt {message.attempt_id} of job {message.job_id}")
    return Course(job), await store.load_task(work.connection, job.job_id, attempt.number), attempt


async def _advance(course: Course, work: Work) -> None:
    """Begin what may begin now; end a job that is complete, that can do nothing more, or that was given up."""
    job, connection = course.job, work.connection
    if course.opened or course.settled:
        # What follows reads it: tasks that begin are given the answers that they need.
        await _save_first(course, work)
    for number in course.settled:
        course.leave(await store.losers(connection, job.job_id, number))
    for task in course.decided:
        for number, task_id in await store.unblock(connection, job.job_id, task.task_id):
            course.note_ready(number, task_id)
    if course.complete:
        entries = await store.load_entries(connection, job.job_id) if job.entries else ()
        course.finish(*await store.load_answers(connection, job.job_id), entries)
        return
    if job.state not in JOB_MACHINE.final and (course.opened or job.starved):
        await _begin_tasks(course, work)
    if job.state in JOB_MACHINE.final:
        await _save_first(course, work)
        await _close(course, connection)


async def _begin_tasks(course: Course, work: Work) -> None:
    job, starved = course.job, course.job.starved
    if starved:
        # What waits for room in the budget is looked at as it is now.
        await _save_first(course, work)
    if job.conflicted:
        course.tried_anew = await store.tried_anew(work.connection, job.job_id)
    job.starved = False
    places = job.places + (job.active if starved else 0)
    for number in await store.startable(work.connection, job.job_id, places=places, starved=starved):
        task = await store.load_task(work.connection, job.job_id, number)
        if task.state is TaskState.RUNNING or course.has_place(task):
            course.start(task)
    if job.starved and not job.running:
        course.give_up(no_room(job.spec.budget, job.spent))


async def _close(course: Course, connection: Connection) -> None:
    course.close(*await store.load_open(connection, course.job.job_id))
    if course.job.staged:
        course.leave(await store.losers(connection, course.job.job_id, None))


async def _save_first(course: Course, work: Work) -> None:
    """Store what happened so far, for statements that read it."""
    await store.write(work.connection, course)
    course.saved()


async def _save(course: Course, work: Work, announce: Announce) -> None:
    await _save_first(course, work)
    if course.threw_away:
        course.drop(await store.load_entries(work.connection, course.job.job_id))
    work.emit(*course.emitted)
    if course.ended and (answer := answer_of(course, work.now)) is not None:
        work.emit(answer)
    work.record(*course.changes)
    event = _events(course, work)

    async def tell() -> None:
        announce(event)

    if course.noted:
        work.act(tell)


def _events(course: Course, work: Work) -> Event:
    """Return the event of a job's new lines, which is stored nowhere."""
    at = work.now.isoformat()
    lines = [{"id": seq, "type": kind, "at": at, "data": data} for seq, kind, data in course.noted]
    message = JobEvents(tenant=course.job.spec.tenant, job_id=course.job.job_id, events=lines)
    return work.cause.event(message, source="jobs", time=work.now)
