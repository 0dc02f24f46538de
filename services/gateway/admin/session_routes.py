"""Sessions of browsers over HTTP: who is signed in, and signing them out."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from placet.contracts.errors import Refused
from placet.gateway.conversations.access import writing
from placet.gateway.http.callers import CallerOf, DepsOf, PathId
from placet.gateway.http.errors import described
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.identity.sessions import end_one
from placet.gateway.identity.store.sessions import StoredSession, list_sessions
from placet.gateway.store import reading
from placet.gateway.texts import answer_of

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], route_class=StrictRoute)

SHOWN_MAX = 1000


class SessionOut(BaseModel):
    """One browser that is signed in."""

    id: str
    person: str
    method: Literal["key", "link", "oidc"] = Field(description="API key, one-time link, or a sign-in service.")
    key_id: str | None = Field(description="The API key whose rights it has; null for a person of a sign-in service.")
    created_at: datetime
    seen_at: datetime = Field(description="When it was last used, give or take a minute.")
    expires_at: datetime


class SessionList(BaseModel):
    """Sessions that hold, newest first."""

    items: list[SessionOut]


@router.get("", responses=described(401, 403, 503))
async def list_all(deps: DepsOf, caller: CallerOf) -> SessionList:
    """List your own sessions; administrators see those of their tenant."""
    return SessionList(items=[answer_of(SessionOut, each, id=each.session_id) for each in await _visible(deps, caller)])


@router.delete("/{session_id}", status_code=204, responses=described(401, 403, 404, 503))
async def revoke(deps: DepsOf, caller: CallerOf, session_id: PathId) -> Response:
    """End a session at once, in every browser that has its cookie."""
    known = {each.session_id for each in await _visible(deps, caller)}
    async with writing(deps.runtime.units, caller) as work:
        if session_id not in known or not await end_one(work, caller.tenant, session_id, caller.person):
            raise Refused("There is no such session.", status=404, kind="not-found")
    return Response(status_code=204)


async def _visible(deps: DepsOf, caller: Caller) -> list[StoredSession]:
    caller.need(Scope.CHAT, Scope.DECIDE, Scope.ADMIN)
    if caller.conversation_id is not None:
        return []
    person = None if caller.may(Scope.ADMIN) else caller.person
    idle = deps.settings.gateway_session_idle_seconds
    async with reading(deps.runtime.database) as connection:
        return list(await list_sessions(connection, caller.tenant, person, idle, SHOWN_MAX))
