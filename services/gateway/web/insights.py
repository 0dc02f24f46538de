"""The page of insights at `/admin/insights`: plots with a table beside each, and rule changes to consider."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from placet.contracts.errors import Refused
from placet.contracts.ids import new_id
from placet.gateway.approvals.decisions import in_words
from placet.gateway.http.callers import DepsOf
from placet.gateway.identity.keys import Scope
from placet.gateway.insights.numbers import BOUNDS
from placet.gateway.insights.routes import Days, Named, ProposalIn, asked_no_more, insights, propose, suggestion
from placet.gateway.insights.store import waits
from placet.gateway.store import reading
from placet.gateway.web.plots import HEIGHT, WIDTH, bars, line, shares
from placet.gateway.web.render import PageRoute, Posted, SignedIn, field, form_model, render
from placet.gateway.web.sheets import common
from placet.gateway.web.words import title_of

router = APIRouter(prefix="/admin/insights", include_in_schema=False, route_class=PageRoute)

#: Windows to choose from, in days.
WINDOWS = (1, 7, 30)
#: Rules and people on the page; the API has all.
ROWS_MAX = 50
#: How a call ends, in the order of the bars.
ENDS = ("approved", "edited", "denied", "answered", "expired", "overtaken")


@router.get("")
async def show(deps: DepsOf, caller: SignedIn, days: Days = 7) -> HTMLResponse:
    """Show how long people take to decide what, and how they decide."""
    found = await insights(deps, caller, days)
    rules = found.rules[:ROWS_MAX]
    took = [sum(column) for column in zip(*(each.histogram for each in found.rules), strict=True)]
    return render(
        "insights.html",
        **common(caller, "insights"),
        found=found,
        days=days,
        windows=WINDOWS,
        rules=[(each, shares([getattr(each, end) for end in ENDS])) for each in rules],
        people=found.people[:ROWS_MAX],
        ends=ENDS,
        bounds=BOUNDS,
        asked_no_more=await asked_no_more(deps, found.always_approved),
        took=took,
        histograms=[(each.rule, each.histogram) for each in rules],
        bars=bars,
        line=line,
        width=WIDTH,
        height=HEIGHT,
    )


@router.get("/suggestion")
async def show_suggestion(deps: DepsOf, caller: SignedIn, rule: Named, tool: Named) -> HTMLResponse:
    """Show a rule that would let through what people always approved, and what it would have let through."""
    return await _suggestion(deps, caller, rule, tool)


@router.post("/suggestion")
async def propose_suggestion(deps: DepsOf, caller: SignedIn, form: Posted) -> HTMLResponse:
    """Propose it: from here on it is a call that waits for people."""
    rule, tool = field(form, "rule"), field(form, "tool")
    try:
        proposed = await propose(deps, caller, form_model(form, ProposalIn))
    except Refused as refusal:
        return await _suggestion(deps, caller, rule, tool, in_words(refusal, caller.language), refusal.status)
    return await _suggestion(deps, caller, rule, tool, proposed=proposed.conversation_id)


async def _suggestion(
    deps: DepsOf, caller: SignedIn, rule: str, tool: str, fault: str = "", status: int = 200, proposed: str = ""
) -> HTMLResponse:
    caller.need(Scope.ADMIN)
    found = None
    if not fault and not proposed:
        try:
            found = await suggestion(deps, caller, rule, tool)
        except Refused as refusal:
            if refusal.status == HTTPStatus.FORBIDDEN:
                raise
            fault = title_of(refusal, caller.language)
    values: dict[str, Any] = {"rule": rule, "tool": tool, "found": found, "fault": fault, "proposed": proposed}
    agent = deps.settings.gateway_rulebook_agent
    waiting = False
    if found is not None and agent:
        async with reading(deps.runtime.database) as connection:
            waiting = await waits(connection, caller.tenant, agent)
    values |= {"proposes": agent, "proposal_id": new_id(), "waiting": waiting}
    return render("suggestion.html", status, **common(caller, "insights"), **values)
