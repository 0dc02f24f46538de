"""The page of emergency stops at `/stops`, and the line above every page while something is stopped."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.datastructures import FormData

from placet.contracts.errors import Refused
from placet.gateway.admin.stop_routes import EmergencyStopIn, resume_calls, stop_calls, stop_out
from placet.gateway.approvals.decisions import in_words
from placet.gateway.http.callers import DepsOf, PathId
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.store import reading, stops
from placet.gateway.web.render import PageRoute, Posted, SignedIn, field, render
from placet.gateway.web.sheets import common
from placet.surfaces.texts import text

router = APIRouter(include_in_schema=False, route_class=PageRoute)

#: Stops on the page; what is active comes first.
SHOWN_MAX = 100
#: Lines on every other page.
LINES_MAX = 5


@router.get("/stops")
async def show(deps: DepsOf, caller: SignedIn) -> HTMLResponse:
    """Show what is stopped and what was, and let an administrator stop calls."""
    return await _page(deps, caller)


@router.post("/stops")
async def stop(deps: DepsOf, caller: SignedIn, form: Posted) -> Response:
    """Stop calls."""
    what, name = field(form, "what"), field(form, "name").strip()
    if what == "tenant" and not name:
        name = caller.tenant
    given: dict[str, Any] = {"all": True} if what == "all" else {what: name}
    given |= {each: field(form, each) == "yes" for each in ("by_another", "anyway")}
    try:
        wanted = EmergencyStopIn.model_validate({**given, "reason": field(form, "reason").strip()})
    except ValueError:
        return await _page(deps, caller, 400, invalid=True)
    try:
        await stop_calls(deps, caller, wanted)
    except Refused as refusal:
        near = refusal.facts.get("near")
        fault = text(caller.language, refusal.title) if near is not None else in_words(refusal, caller.language)
        return await _page(deps, caller, refusal.status, fault=fault, near=near, typed=form)
    return RedirectResponse("/stops", 303)


@router.post("/stops/{stop_id}/resume")
async def resume(deps: DepsOf, caller: SignedIn, stop_id: PathId, form: Posted) -> Response:
    """Lift a stop."""
    try:
        await resume_calls(deps, caller, stop_id, field(form, "reason").strip()[:500])
    except Refused as refusal:
        return await _page(deps, caller, refusal.status, fault=in_words(refusal, caller.language))
    return RedirectResponse("/stops", 303)


@router.get("/ui/stops")
async def banner(deps: DepsOf, caller: SignedIn) -> HTMLResponse:
    """Show in one line each what is stopped of this tenant's calls, all of them first; nothing while nothing is."""
    async with reading(deps.runtime.database) as connection:
        active = await stops.list_stops(connection, caller.tenant, active=True, after=None, limit=SHOWN_MAX)
    widest = sorted(active, key=lambda each: bool(each["tool"] or each["agent"]))
    lines, more = widest[:LINES_MAX], len(widest[LINES_MAX:])
    may_lift = caller.may(Scope.ADMIN)
    return render("stops_banner.html", caller=caller, active=lines, more=more, may_lift=may_lift)


async def _page(
    deps: DepsOf,
    caller: Caller,
    status: int = 200,
    *,
    fault: str = "",
    invalid: bool = False,
    near: object = None,
    typed: FormData | None = None,
) -> HTMLResponse:
    """Show the page, with what was wrong; `near` are names like a misspelt one, where that is it."""
    caller.need(Scope.ADMIN)
    tenant = None if caller.of_house else caller.tenant
    async with reading(deps.runtime.database) as connection:
        active = await stops.list_stops(connection, tenant, active=True, after=None, limit=SHOWN_MAX)
        lifted = await stops.list_stops(connection, tenant, active=False, after=None, limit=SHOWN_MAX)
    return render(
        "stops.html",
        status,
        **common(caller, "stops"),
        active=[stop_out(deps, row) for row in active],
        lifted=[stop_out(deps, row) for row in lifted],
        house=caller.of_house,
        fault=fault,
        invalid=invalid,
        near=near,
        typed=typed or {},
        another_asked=deps.settings.gateway_stops_by_another,
    )
