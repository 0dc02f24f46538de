"""Erasures over HTTP, for administrators of the house: asked for here, done by the next `placet purge`.

The gateway may not change what other services keep, nor any history. It keeps the wish; who owns the schemas does it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from placet.contracts.ids import new_id
from placet.gateway.admin import store
from placet.gateway.conversations.access import writing
from placet.gateway.http.callers import CallerOf, DepsOf
from placet.gateway.http.errors import described
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.keys import Scope
from placet.gateway.store import reading
from placet.gateway.texts import Body
from placet.runtime.work import Change

router = APIRouter(prefix="/v1/erasures", tags=["erasures"], route_class=StrictRoute)


class ErasureIn(Body):
    """Who is to be erased."""

    who: Annotated[
        str,
        Field(
            pattern=r"^([a-z0-9][a-z0-9-]{0,62}/visitor:)?[A-Za-z0-9._@+-]{1,100}$",
            description="A person's id in the directory, or a tenant's visitor: `acme/visitor:v77`.",
        ),
    ]


class ErasureOut(BaseModel):
    """One erasure."""

    id: str
    who: str = Field(description="Once it is done: the pseudonym in their place; empty where nothing has their name.")
    asked_by: str
    asked_at: datetime
    done_at: datetime | None = Field(description="When `placet purge` did it; null: it is still to come.")
    waits_for: list[str] = Field(
        description="Where something of theirs went on or waited when `placet purge` last tried: conversations, jobs"
        " and stops. It tries again; end these, or wait."
    )


class ErasureList(BaseModel):
    """The newest erasures."""

    items: list[ErasureOut]


@router.post("", status_code=202, responses=described(400, 401, 403, 413, 415, 503))
async def ask(deps: DepsOf, caller: CallerOf, body: ErasureIn, response: Response) -> ErasureOut:
    """Have a person erased, for good: the next `placet purge` does it."""
    caller.need(Scope.ADMIN)
    caller.need_house()
    async with writing(deps.runtime.units, caller) as work:
        row = await store.ask_erasure(work.connection, new_id(), body.who, by=caller.person)
        # Not whom: this row stays.
        work.record(Change(caller.tenant, "erasure", row["erasure_id"], "asked", None, "asked", caller.person))
    response.headers["location"] = "/v1/erasures"
    return ErasureOut(id=row["erasure_id"], **{name: row[name] for name in ErasureOut.model_fields if name != "id"})


@router.get("", response_model=ErasureList, responses=described(401, 403, 503))
async def list_erasures(deps: DepsOf, caller: CallerOf) -> Any:
    """List the newest erasures; for administrators of the house."""
    caller.need(Scope.ADMIN)
    caller.need_house()
    async with reading(deps.runtime.database) as connection:
        rows = await store.list_erasures(connection)
    return {"items": [{**row, "id": row["erasure_id"]} for row in rows]}
