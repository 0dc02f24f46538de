"""What routes ask for in their signatures: the gateway's parts, the caller, ids."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Path, Query, Request, Security
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase

from placet.contracts.ids import own_id
from placet.gateway.http.deps import Deps
from placet.gateway.http.protocol import sender_is_known
from placet.gateway.identity.auth import Caller


async def deps_of(request: Request) -> Deps:
    """Return the parts of the gateway that serves `request`; async, because others are run in a thread."""
    return cast("Deps", request.app.state.deps)


DepsOf = Annotated[Deps, Depends(deps_of)]


class Identified(SecurityBase):
    """Who sent a request. A route that reads a body asks before it reads one byte of it."""

    def __init__(self) -> None:
        self.model = HTTPBearer(description="An API key, or the token of a conversation.")
        self.scheme_name = "HTTPBearer"

    async def __call__(self, request: Request) -> Caller:
        """Return who sent `request`; 401 where nobody proved to be anybody."""
        known: Caller | None = getattr(request.state, "caller", None)
        if known is None:
            known = await (await deps_of(request)).authenticator.caller(request)
            sender_is_known(request.scope)
        return known


CallerOf = Annotated[Caller, Security(Identified())]

_ID = r"^[A-Za-z0-9_-]{1,64}$"
PathId = Annotated[str, Path(pattern=_ID)]


async def _conversation_id(caller: CallerOf, conversation_id: PathId) -> str:
    return own_id(caller.tenant, conversation_id)


async def _job_id(caller: CallerOf, job_id: PathId) -> str:
    return own_id(caller.tenant, job_id)


#: A conversation or a job of the caller's tenant, by its whole id or by what a client of the tenant chose.
ConversationId = Annotated[str, Depends(_conversation_id)]
JobId = Annotated[str, Depends(_job_id)]
Limit = Annotated[int, Query(ge=1, le=200, description="Rows on a page.")]
After = Annotated[str | None, Query(alias="cursor", max_length=400, description="`next` of the page before.")]
