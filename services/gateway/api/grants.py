"""Grants over HTTP: what people allowed from now on, and taking it back."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from services.gateway.api.callers import After, CallerOf, DepsOf, Limit, PathId
from services.gateway.api.errors import described
from services.gateway.api.pages import cursor_of, next_of
from services.gateway.api.strict import StrictRoute
from services.gateway.auth import Caller
from services.gateway.feed import arguments_value
from services.gateway.keys import Scope
from services.gateway.store import reading
from services.gateway.store.read import Row, list_grants, load_grant
from shared.errors import Refused
from shared.messages import RevokeGrant
from shared.messages.approvals import GrantScope

router = APIRouter(prefix="/v1/grants", tags=["grants"], route_class=StrictRoute)

State = Literal["active", "used_up", "expired", "revoked", "void"]


class GrantOut(BaseModel):
    """One grant."""

    id: str
    state: State
    owner: str = Field(description="Who allowed such calls; only they and administrators may take it back.")
    tool: str
    rule: str = Field(description="Name of the rule that would hold the calls.")
    approval_id: str = Field(description="The approval that it was given with.")
    scope: GrantScope
    subject: str = Field(description="The conversation, agent or tenant whose calls it covers.")
    arguments: Any = Field(description="Arguments of the approved call, redacted.")
    bounds: list[str] = Field(description="Arguments that may be smaller numbers; all others must be equal.")
    uses: int
    uses_left: int
    given_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None
    revoked_by: str | None = None
    void_at: datetime | None = Field(
        default=None, description="Set once a rulebook took over in which the tool is not the approved one; for good."
    )
    void_reason: str | None = Field(default=None, description="How the tool is not the approved one.")


class GrantPage(BaseModel):
    """Grants, newest first."""

    items: list[GrantOut]
    next: str | None = Field(default=None, description="Cursor of the next page; null on the last.")


class Revoking(BaseModel):
    """The wish is on its way to policy; look at the grant for what became of it."""

    id: str
    action: Literal["revoke"] = "revoke"


@router.get("", responses=described(400, 401, 403, 503))
async def list_all(
    deps: DepsOf,
    caller: CallerOf,
    state: Annotated[State | None, Query(description="Only grants in this state.")] = None,
    limit: Limit = 50,
    after: After = None,
) -> GrantPage:
    """List your own grants, newest first; administrators see everybody's."""
    cursor = cursor_of(after)
    async with reading(deps.runtime.database) as connection:
        rows = await list_grants(
            connection, caller.tenant, owner=_owner(caller), state=state, after=cursor, limit=limit + 1
        )
    items = [_out(row) for row in rows[:limit]]
    return GrantPage(items=items, next=next_of(rows, limit, "given_at", "grant_id"))


@router.get("/{grant_id}", responses=described(401, 403, 404, 503))
async def show(deps: DepsOf, caller: CallerOf, grant_id: PathId) -> GrantOut:
    """Show one grant."""
    return _out(await _find(deps, caller, grant_id))


@router.post("/{grant_id}/revoke", status_code=202, responses=described(401, 403, 404, 409, 503))
async def revoke(deps: DepsOf, caller: CallerOf, grant_id: PathId, response: Response) -> Revoking:
    """Take a grant back; calls that it let through before run all the same."""
    grant = await _find(deps, caller, grant_id)
    if grant["state"] == "revoked":
        facts = {"state": "revoked", "revoked_by": grant["revoked_by"]}
        raise Refused("This grant is revoked already.", status=409, kind="already-revoked", **facts)
    async with deps.runtime.units.begin() as work:
        work.emit(RevokeGrant(tenant=caller.tenant, grant_id=grant_id, by=caller.person))
    response.headers["location"] = f"/v1/grants/{grant_id}"
    return Revoking(id=grant_id)


def _owner(caller: Caller) -> str | None:
    """Return whose grants exist for the caller; None for everybody's."""
    caller.need(Scope.DECIDE, Scope.ADMIN)
    return None if caller.may(Scope.ADMIN) else caller.person


async def _find(deps: DepsOf, caller: Caller, grant_id: str) -> Row:
    owner = _owner(caller)
    async with reading(deps.runtime.database) as connection:
        row = await load_grant(connection, caller.tenant, grant_id)
    if row is None or owner not in {None, row["owner"]}:
        raise Refused("There is no such grant.", status=404, kind="not-found")
    return row


def _out(row: Row) -> GrantOut:
    return GrantOut.model_validate({**row, "id": row["grant_id"], "arguments": arguments_value(row["arguments"])})
