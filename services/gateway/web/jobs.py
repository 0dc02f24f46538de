"""The pages of jobs at `/jobs`: which there are, and one of them with a picture of its tasks.

Everything works without scripts; with them the page of a job follows its log and is drawn again as it goes on.
"""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from placet.gateway.conversations.service import may_open
from placet.gateway.http.callers import After, DepsOf, PathId
from placet.gateway.identity.keys import Scope
from placet.gateway.jobs import store
from placet.gateway.jobs.routes import cancel_job, list_all, whole_job
from placet.gateway.store import reading
from placet.gateway.store.read import load_approvals
from placet.gateway.web.job_picture import picture
from placet.gateway.web.render import PageRoute, Posted, SignedIn, render

router = APIRouter(prefix="/jobs", include_in_schema=False, route_class=PageRoute)

#: Jobs on a page; lines of the log, thrown out attempts and attempts at all on the page of a job.
PAGE = 25
LINES_MAX = 40
THROWN_OUT_MAX = 50
TRIED_MAX = 200
#: Cards that a job waits for, on its page: the oldest.
WAITS_MAX = 10


@router.get("")
async def show_list(deps: DepsOf, caller: SignedIn, cursor: After = None) -> HTMLResponse:
    """Show the jobs that the caller may see, newest first."""
    page = await list_all(deps, caller, None, PAGE, cursor)
    return render("jobs.html", caller=caller, here="jobs", found=page.items, following=page.next, cursor=cursor)


@router.get("/{job_id}")
async def show(deps: DepsOf, caller: SignedIn, job_id: PathId) -> HTMLResponse:
    """Show one job: its tasks, attempts and votes, what it used, what was thrown out and why."""
    job = await whole_job(deps, caller, job_id)
    async with reading(deps.runtime.database) as connection:
        after = max(0, job.last_event_id - LINES_MAX)
        lines = await store.read_log(connection, caller.tenant, job_id, after, LINES_MAX)
        oldest = [(caller.tenant, each) for each in job.waits_for[:WAITS_MAX]]
        found = await load_approvals(connection, oldest) if oldest else {}
    tried = [(task, each) for task in [*([job.division] if job.division else []), *job.tasks] for each in task.attempts]
    tried.sort(key=lambda each: each[1].begun_at)
    thrown_out = [(task, each) for task, each in tried if each.state in {"flagged", "conflicted", "lost"}]
    return render(
        "job.html",
        caller=caller,
        here="jobs",
        job=job,
        waits_for=[found[each] for each in oldest if each in found],
        drawn=picture(job.tasks),
        thrown_out=thrown_out[-THROWN_OUT_MAX:],
        thrown_out_total=len(thrown_out),
        lost=sum(each.state == "lost" for _, each in tried),
        tried=tried[-TRIED_MAX:],
        tried_total=len(tried),
        asked_again=sum(each.asked_again for _, each in tried),
        lines=list(reversed(lines)),
        may_cancel=job.ended_at is None and caller.may(Scope.CHAT),
    )


@router.post("/{job_id}/cancel")
async def cancel(deps: DepsOf, caller: SignedIn, job_id: PathId, _: Posted) -> Response:
    """Cancel a job."""
    may_open(caller)
    await cancel_job(deps, caller, job_id)
    return RedirectResponse(f"/jobs/{job_id}", 303)
