"""Saving a list of the inbox under a name, and forgetting it."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import RedirectResponse

from placet.contracts.errors import Refused
from placet.gateway.approvals.store.saved_views import NAME_MAX, VIEWS_MAX, remove_view, save_view
from placet.gateway.conversations.access import writing
from placet.gateway.http.callers import DepsOf
from placet.gateway.identity.keys import Scope
from placet.gateway.web.inbox import back_of
from placet.gateway.web.render import PageRoute, Posted, SignedIn, field
from placet.surfaces.texts import text

router = APIRouter(prefix="/inbox/views", include_in_schema=False, route_class=PageRoute)

#: Characters of an address.
ADDRESS_MAX = 2_000


@router.post("")
async def save(deps: DepsOf, caller: SignedIn, form: Posted) -> Response:
    """Keep the list that the form was on, under the name that was typed, and lead back to it."""
    caller.need(Scope.DECIDE)
    name, address = " ".join(field(form, "name").split()), back_of(field(form, "back"))
    if not name or len(name) > NAME_MAX or len(address) > ADDRESS_MAX:
        words = text(caller.language, "A view needs a name of at most {count} characters.", count=NAME_MAX)
        raise Refused(words, status=400, kind="invalid-view")
    async with writing(deps.runtime.units, caller) as work:
        kept = await save_view(work.connection, caller.tenant, caller.person, name, address)
    if not kept:
        words = text(caller.language, "You keep {count} views already: delete one first.", count=VIEWS_MAX)
        raise Refused(words, status=409, kind="too-many-views")
    if kept != address:
        words = text(caller.language, "You keep another view of that name: delete it first, or choose another name.")
        raise Refused(words, status=409, kind="view-exists")
    return RedirectResponse(address, 303)


@router.post("/delete")
async def delete(deps: DepsOf, caller: SignedIn, form: Posted) -> Response:
    """Forget a view, and lead back to the list."""
    caller.need(Scope.DECIDE)
    async with writing(deps.runtime.units, caller) as work:
        await remove_view(work.connection, caller.tenant, caller.person, field(form, "name"))
    return RedirectResponse(back_of(field(form, "back")), 303)
