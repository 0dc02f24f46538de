"""What is staged in a conversation, on the chat page: what waits, asking for the decision, throwing it away."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.requests import Request

from placet.contracts.errors import Refused
from placet.gateway.conversations.access import check_for
from placet.gateway.http.callers import DepsOf, PathId
from placet.gateway.http.deps import Deps
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.store import reading
from placet.gateway.web.render import PageRoute, Posted, SignedIn, form_model, render
from placet.gateway.web.shown import tools_of
from placet.gateway.workspaces import routes
from placet.gateway.workspaces.plans import staged_here
from placet.runtime.sql import Connection
from placet.surfaces.texts import text

router = APIRouter(prefix="/ui/conversations", include_in_schema=False, route_class=PageRoute)

#: Refusals of a click that comes too late.
_LATE = {"nothing-waits", "nothing-staged", "asked-already", "time-over"}
#: Entries that the page lists; the card of their commit has all.
LISTED_MAX = 50


async def staged_values(connection: Connection, deps: Deps, caller: Caller, conversation_id: str) -> Mapping[str, Any]:
    """Return what `staged.html` needs of a conversation; without one, of a page where none has begun."""
    tools = await tools_of(deps.settings.rulebook)
    found = await staged_here(connection, caller.tenant, conversation_id, tools) if conversation_id else None
    plan, asked = found or (None, "")
    return {
        "plan": plan,
        "asked": asked,
        "choosing": "",
        "left": (),
        "most": LISTED_MAX,
        "approval": {"conversation_id": conversation_id},
        "conversation_id": conversation_id,
        "may_chat": caller.may(Scope.CHAT),
        "caller": caller,
    }


@router.get("/{conversation_id}/workspace")
async def show(deps: DepsOf, caller: SignedIn, conversation_id: PathId) -> HTMLResponse:
    """Show what is staged; nothing where nothing is."""
    return await _show(deps, caller, conversation_id)


@router.post("/{conversation_id}/workspace/propose")
async def propose(deps: DepsOf, caller: SignedIn, request: Request, conversation_id: PathId, form: Posted) -> Response:
    """Have what is staged decided now."""
    del form
    told = "Asked for. A card opens, at the latest when the turn ends."
    asking = routes.propose(deps, caller, conversation_id)
    return await _answer(deps, caller, request, conversation_id, asking, told)


@router.post("/{conversation_id}/workspace/discard")
async def discard(deps: DepsOf, caller: SignedIn, request: Request, conversation_id: PathId, form: Posted) -> Response:
    """Throw away what is staged."""
    told = "Asked for. Nothing of it will happen."
    asking = routes.discard(deps, caller, conversation_id, form_model(form, routes.DiscardIn))
    return await _answer(deps, caller, request, conversation_id, asking, told)


async def _answer(
    deps: Deps, caller: Caller, request: Request, conversation_id: str, asking: Awaitable[object], told: str
) -> Response:
    """Ask the agent, and show what is staged; a click that comes too late is told so."""
    scripted = "hx-request" in request.headers
    known = [] if scripted else await deps.log.tail(caller.tenant, conversation_id, 1)
    try:
        await asking
    except Refused as refusal:
        if refusal.kind not in _LATE:
            raise
        told = "Nothing waits any more: it was decided or thrown away meanwhile."
        if refusal.kind in {"asked-already", "time-over"}:
            told = refusal.title
    else:
        # A page without scripts is not drawn again by itself.
        if not scripted:
            await deps.log.appears(caller, conversation_id, known[-1].id if known else 0)
    if scripted:
        return await _show(deps, caller, conversation_id, told)
    return RedirectResponse(f"/?conversation={conversation_id}", 303)


async def _show(deps: Deps, caller: Caller, conversation_id: str, said: str = "") -> HTMLResponse:
    async with reading(deps.runtime.database) as connection:
        await check_for(connection, caller, conversation_id)
        values = await staged_values(connection, deps, caller, conversation_id)
    notice = text(caller.language, said) if said else ""
    return render("staged.html", notice=notice, **values)
