"""API keys over HTTP: create, list, revoke. For administrators of a tenant, within that tenant."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from placet.contracts.errors import Refused
from placet.contracts.visitors import NAME_PATTERN
from placet.gateway.http.callers import CallerOf, DepsOf, PathId
from placet.gateway.http.errors import described
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope, parse_secret, person_id
from placet.gateway.identity.store.keys import ApiKey, add_key, list_keys, revoke_key
from placet.gateway.store import reading
from placet.runtime.work import Change

router = APIRouter(prefix="/v1/keys", tags=["keys"], route_class=StrictRoute)

SHOWN_MAX = 1000


class KeyIn(BaseModel):
    """Whose key it is and what it may do."""

    model_config = ConfigDict(extra="forbid")

    person: Annotated[str, Field(pattern=NAME_PATTERN, description="Its owner, who decides as `person:<this>`.")]
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=10)]


class KeyOut(BaseModel):
    """An API key without its secret."""

    id: str
    tenant: str
    person: str
    scopes: list[str]
    created_at: datetime
    created_by: str
    revoked_at: datetime | None = None


class NewKeyOut(BaseModel):
    """A new API key."""

    id: str
    key: str = Field(description="The key itself, shown this once.")
    tenant: str
    person: str
    scopes: list[str]


class KeyList(BaseModel):
    """Keys, newest first."""

    items: list[KeyOut]


@router.get("", responses=described(401, 403, 503))
async def list_all(deps: DepsOf, caller: CallerOf) -> KeyList:
    """List the keys of your tenant, revoked ones too."""
    caller.need(Scope.ADMIN)
    async with reading(deps.runtime.database) as connection:
        found = await list_keys(connection, caller.tenant, SHOWN_MAX)
    return KeyList(items=[_out(key) for key in found])


@router.post("", status_code=201, responses=described(400, 401, 403, 413, 415, 503))
async def create(deps: DepsOf, caller: CallerOf, body: KeyIn) -> NewKeyOut:
    """Create a key; its secret is in this answer and nowhere else."""
    caller.need(Scope.ADMIN)
    scopes = sorted(set(body.scopes))
    async with deps.runtime.units.begin() as work:
        key = await add_key(
            work.connection, tenant=caller.tenant, person=body.person, scopes=scopes, created_by=caller.person
        )
        parsed = parse_secret(key)
        key_id = parsed.key_id if parsed else ""
        work.record(_change(caller, key_id, "created", None, "active", owner=person_id(body.person)))
    return NewKeyOut(id=key_id, key=key, tenant=caller.tenant, person=body.person, scopes=list(scopes))


@router.delete("/{key_id}", status_code=204, responses=described(401, 403, 404, 503))
async def revoke(deps: DepsOf, caller: CallerOf, key_id: PathId) -> Response:
    """Revoke a key; it and the sessions that began with it stop working at once here, within a second elsewhere."""
    caller.need(Scope.ADMIN)
    async with deps.runtime.units.begin() as work:
        if not await revoke_key(work.connection, caller.tenant, key_id, caller.person):
            raise Refused("There is no such working key.", status=404, kind="not-found")
        work.record(_change(caller, key_id, "revoked", "active", "revoked"))
    deps.authenticator.forget(key_id)
    return Response(status_code=204)


def _change(caller: Caller, key_id: str, event: str, before: str | None, after: str, **detail: str) -> Change:
    return Change(caller.tenant, "api-key", key_id, event, before, after, caller.person, detail=dict(detail))


def _out(key: ApiKey) -> KeyOut:
    return KeyOut(
        id=key.key_id,
        tenant=key.tenant,
        person=key.person,
        scopes=list(key.scopes),
        created_at=key.created_at,
        created_by=key.created_by,
        revoked_at=key.revoked_at,
    )
