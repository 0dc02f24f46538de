"""Jobs over HTTP: ask for one, see how it stands, follow it, read its log, cancel it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from placet.contracts.canonical import data_digest
from placet.contracts.errors import Refused
from placet.contracts.ids import job_conversation_id, new_id, own_id
from placet.contracts.messages import Author, CancelJob, JobBudget, RunJob
from placet.domain.division import Unsound, checked
from placet.gateway.conversations.access import writing
from placet.gateway.conversations.items import Item
from placet.gateway.conversations.live import Closed
from placet.gateway.conversations.service import known_agent, may_open
from placet.gateway.conversations.sse import HEARTBEAT, HELLO, described_stream, event_stream, item_frame
from placet.gateway.conversations.store import read_log as read_conversation
from placet.gateway.conversations.streaming import After, AfterItem, ItemLimit, LastEventId, wanted_after
from placet.gateway.http.callers import After as Cursor
from placet.gateway.http.callers import CallerOf, DepsOf, JobId, Limit, PathId
from placet.gateway.http.deps import Deps
from placet.gateway.http.errors import described
from placet.gateway.http.pages import cursor_of, next_of
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.jobs import store
from placet.gateway.jobs.answer_schema import check_answer_schema
from placet.gateway.jobs.log import job_topic
from placet.gateway.jobs.schemas import (
    OVER,
    JobIn,
    JobOut,
    JobPage,
    JobSent,
    JobStateName,
    LineOut,
    LogOut,
    WholeJobOut,
    job_out,
    whole_out,
)
from placet.gateway.store import reading

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=StrictRoute)

#: How long an answer waits for the job to be there, in seconds: what is asked for next should find it.
APPEARS_SECONDS = 2.0
_SHOWN = described(401, 403, 404, 503)
#: Server-sent events, and each when it is decoded.
_EVENTS = {
    "type": "string",
    "description": "`id` and `event` are the line's `id` and `type`; `data` is its `data`.",
    "contentSchema": {"$ref": "#/components/schemas/JobEvent"},
}


@router.post("", status_code=202, responses=described(400, 401, 403, 409, 413, 415, 422, 429, 503))
async def run(deps: DepsOf, caller: CallerOf, body: JobIn, response: Response) -> JobSent:
    """Have a job done; follow it by its events. The same id again is the same job; with another body it is a 409."""
    may_open(caller)
    agent = known_agent(deps.agents, caller.tenant, body.agent)
    deps.rates.admit(caller)
    if body.answer_schema is not None:
        await asyncio.to_thread(check_answer_schema, body.answer_schema)
    await asyncio.to_thread(_check_division, body)
    job = RunJob(
        tenant=caller.tenant,
        job_id=own_id(caller.tenant, body.id or new_id()),
        agent=body.agent,
        author=Author(kind="person", id=caller.person),
        task=body.task,
        context=body.context,
        root=body.root,
        outputs=body.outputs,
        tasks=body.division(),
        answer_schema=body.answer_schema,
        plan=body.plan(),
        budget=JobBudget(**body.budget.model_dump()),
        language=body.language,
        labels={**agent.labels, **body.labels},
        asked=data_digest({"by": caller.person, "job": body.model_dump(mode="json")}),
    )
    with deps.hub.follow((job_topic(caller.tenant, job.job_id),)) as following:
        if not (body.id and await _is_there(deps, job)):
            async with writing(deps.runtime.units, caller) as work:
                work.emit(job)
            with suppress(Closed):
                await following.next(APPEARS_SECONDS)
            if body.id:
                # Two may have asked at once: the first to arrive is the job.
                await _is_there(deps, job)
    response.headers["location"] = f"/v1/jobs/{job.job_id}"
    return JobSent(id=job.job_id)


async def _is_there(deps: Deps, job: RunJob) -> bool:
    """Tell whether a job is stored already; raise Refused (409) where another one is that was asked for by its id."""
    async with reading(deps.runtime.database) as connection:
        row = await store.find_job(connection, job.tenant, job.job_id)
    if row is not None and row["spec"].get("asked") != job.asked:
        detail = "The same id is the same job only with the same body, from the same person; choose another id."
        raise Refused("This id is another job's.", status=409, kind="job-id-used", detail=detail)
    return row is not None


def _check_division(body: JobIn) -> None:
    """Raise Refused (422) where nothing could be tried by the division that was given."""
    if body.tasks is None:
        return
    try:
        checked(body.division(), body.outputs, tasks_max=body.tasks_max)
    except Unsound as error:
        fault = {"detail": str(error), "pointer": "#/tasks"}
        raise Refused("The division cannot be used.", status=422, kind="unsound-division", errors=[fault]) from error


@router.get("", responses=described(400, 401, 403, 503))
async def list_all(
    deps: DepsOf,
    caller: CallerOf,
    state: Annotated[JobStateName | None, Query(description="Only jobs in this state.")] = None,
    limit: Limit = 50,
    after: Cursor = None,
) -> JobPage:
    """List the jobs that you may see, newest first."""
    caller.need(Scope.CHAT, Scope.DECIDE, Scope.OPERATE)
    if caller.conversation_id is not None:
        raise _no_job()
    whose = None if caller.sees_job(None) else caller.person
    async with reading(deps.runtime.database) as connection:
        cursor = cursor_of(after)
        rows = await store.list_jobs(connection, caller.tenant, whose=whose, state=state, after=cursor, limit=limit + 1)
    following = next_of(rows, limit, "created_at", "job_id")
    return JobPage(items=[JobOut(**job_out(row)) for row in rows[:limit]], next=following)


@router.get("/{job_id}", responses=_SHOWN)
async def show(deps: DepsOf, caller: CallerOf, job_id: JobId) -> WholeJobOut:
    """Show a job with its tasks, their attempts and votes."""
    return await whole_job(deps, caller, job_id)


@router.post("/{job_id}/cancel", status_code=202, responses=_SHOWN)
async def cancel(deps: DepsOf, caller: CallerOf, job_id: JobId) -> JobOut:
    """Cancel a job: its attempts are withdrawn; one that is over stays as it ended."""
    may_open(caller)
    return JobOut(**await cancel_job(deps, caller, job_id))


@router.get(
    "/{job_id}/events",
    response_class=StreamingResponse,
    responses={
        **described_stream("Events.", _EVENTS),
        204: {"description": "The job is over, and its log has no later line: do not ask again."},
        **described(400, 401, 403, 404, 429, 503),
    },
)
async def follow(
    deps: DepsOf, caller: CallerOf, job_id: JobId, last_event_id: LastEventId = None, after: After = None
) -> Response:
    """Follow a job: every line of its log after the given one, then what comes, without gap or repeat, to its end.

    Attempts may still end after their job: whoever asks again gets their lines, and 204 where none is left to come.
    """
    job = await found_job(deps, caller, job_id)
    # A number from before a restored backup must not silence the stream for ever.
    start = min(wanted_after(last_event_id, after), job["log_seq"])
    over = job["ended_at"] is not None and not job["running"]
    if over and start == job["log_seq"]:
        return Response(status_code=204)
    topic = job_topic(caller.tenant, job_id)
    deps.job_log.limits.check(caller, topic)

    async def frames() -> Any:
        async with aclosing(deps.job_log.follow_topics(caller, topic, (topic,), start)) as entries:
            await anext(entries)
            yield HELLO
            async for entry in entries:
                if isinstance(entry, Item):
                    yield item_frame(entry)
                    is_end = str(entry.type) == "job" and entry.data.get("state") in OVER
                    if entry.id >= job["log_seq"] if over else is_end:
                        return
                elif entry is None:
                    yield HEARTBEAT

    return event_stream(frames())


@router.get("/{job_id}/log", responses=described(400, 401, 403, 404, 503))
async def read_log(
    deps: DepsOf, caller: CallerOf, job_id: JobId, after: AfterItem = 0, limit: ItemLimit = 200
) -> LogOut:
    """Return lines of a job's log: `data.line` says each in one sentence."""
    await found_job(deps, caller, job_id)
    async with reading(deps.runtime.database) as connection:
        return _log_out(await store.read_log(connection, caller.tenant, job_id, after, limit), after)


@router.get("/{job_id}/attempts/{attempt_id}/log", responses=described(400, 401, 403, 404, 503))
async def read_attempt(
    deps: DepsOf, caller: CallerOf, job_id: JobId, attempt_id: PathId, after: AfterItem = 0, limit: ItemLimit = 200
) -> LogOut:
    """Return what the agent of one attempt was told, said, called and got: the log of its conversation."""
    await found_job(deps, caller, job_id)
    async with reading(deps.runtime.database) as connection:
        conversation_id = await store.conversation_of(connection, caller.tenant, job_id, attempt_id)
        if conversation_id is None:
            raise Refused("There is no such attempt.", status=404, kind="not-found")
        return _log_out(await read_conversation(connection, caller.tenant, conversation_id, after, limit), after)


async def found_job(deps: Deps, caller: Caller, job_id: str) -> store.Row:
    """Return a job that the caller may see; raise Refused (403, 404)."""
    caller.need(Scope.CHAT, Scope.DECIDE, Scope.OPERATE)
    async with reading(deps.runtime.database) as connection:
        row = await store.find_job(connection, caller.tenant, job_id)
    if row is None or not caller.sees_job(row["author"]):
        raise _no_job()
    return row


async def whole_job(deps: Deps, caller: Caller, job_id: str) -> WholeJobOut:
    """Return a job that the caller may see with its tasks and attempts; raise Refused (403, 404)."""
    row = await found_job(deps, caller, job_id)
    async with reading(deps.runtime.database) as connection:
        tasks = await store.tasks_of(connection, caller.tenant, job_id)
        attempts = await store.attempts_of(connection, caller.tenant, job_id)
        asking = [each["conversation_id"] for each in attempts if each["state"] == "running"]
        asking += [job_conversation_id(caller.tenant, "job-conversation", job_id)] if row["state"] == "waiting" else []
        cards = await store.open_cards(connection, caller.tenant, asking) if asking else []
    return whole_out(row, tasks, attempts, cards)


async def cancel_job(deps: Deps, caller: Caller, job_id: str) -> dict[str, Any]:
    """Cancel a job; return it as it was."""
    row = await found_job(deps, caller, job_id)
    if row["ended_at"] is None:
        async with writing(deps.runtime.units, caller) as work:
            work.emit(CancelJob(tenant=caller.tenant, job_id=job_id, by=caller.person))
    return job_out(row)


def _log_out(items: list[Item], after: int) -> LogOut:
    lines = [LineOut(id=each.id, type=each.type, at=str(each.at), data=each.data) for each in items]
    return LogOut(items=lines, last_event_id=lines[-1].id if lines else after)


def _no_job() -> Refused:
    return Refused("There is no such job.", status=404, kind="not-found")
