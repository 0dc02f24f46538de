"""Emergency stops over HTTP, for administrators: stop calls of a tool, an agent, a tenant or all, and lift a stop."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field, Strict, model_validator

from placet.contracts.dead_letters import HOUSE_TENANT
from placet.contracts.errors import Refused
from placet.contracts.messages.message import Identifier, Tenant
from placet.contracts.messages.tool_calls import ToolName
from placet.gateway.admin.stop_names import check_names
from placet.gateway.conversations.access import writing
from placet.gateway.http.callers import After, CallerOf, DepsOf, Limit, PathId
from placet.gateway.http.deps import Deps
from placet.gateway.http.errors import described
from placet.gateway.http.pages import Page, cursor_of, next_of
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.store import reading, stops
from placet.gateway.store.stops import Row, Stopping
from placet.gateway.texts import Body, Text
from placet.runtime.work import Change

router = APIRouter(prefix="/v1/stops", tags=["stops"], route_class=StrictRoute)

_Reason = Annotated[Text, Field(max_length=500)]


class EmergencyStopIn(Body):
    """What is to be stopped: exactly one of `tool`, `agent`, `tenant` and `all`."""

    tool: Annotated[ToolName | None, Field(description="Calls of this tool, of your tenant.")] = None
    agent: Annotated[Identifier | None, Field(description="Calls that this agent proposed, of your tenant.")] = None
    tenant: Annotated[
        Tenant | None, Field(description="All calls of a tenant: your own, or any for administrators of the house.")
    ] = None
    all: Annotated[bool, Strict(), Field(description="All calls of everybody; for administrators of the house.")] = (
        False
    )
    anyway: Annotated[bool, Strict(), Field(description="Whether to stop it though no such name is known.")] = False
    reason: Annotated[_Reason, Field(min_length=1, pattern=r"\S", description="Why; people read it.")]
    by_another: Annotated[
        bool, Strict(), Field(description="Whether only somebody else may lift it; a setting may ask it of all.")
    ] = False

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        if sum((self.tool is not None, self.agent is not None, self.tenant is not None, self.all)) != 1:
            raise ValueError("say exactly one of tool, agent, tenant and all")
        return self


class EmergencyResumeIn(Body):
    """Why such calls may run again."""

    reason: Annotated[_Reason, Field(description="For the record.")] = ""


class EmergencyStopOut(BaseModel):
    """One emergency stop."""

    id: str
    state: Literal["active", "resumed"]
    tenant: str | None = Field(description="Whose calls; null: everybody's.")
    tool: str | None = Field(description="Only calls of this tool.")
    agent: str | None = Field(description="Only calls that this agent proposed.")
    reason: str
    by_another: bool = Field(description="Whether only somebody else may lift it than who asked for it.")
    by_house: bool = Field(description="Whether the house asked for it: then the house alone lifts it.")
    stopped_at: datetime
    stopped_by: str
    resumed_at: datetime | None = None
    resumed_by: str | None = None
    resume_reason: str = ""
    genuine: bool | None = Field(
        description="Whether the gateway's signatures fit all of it; false: somebody changed it; null: they went with "
        "a person who was erased."
    )


class EmergencyStopPage(Page[EmergencyStopOut]):
    """Stops, newest first."""


@router.get("", response_model=EmergencyStopPage, responses=described(400, 401, 403, 503))
async def list_stops(
    deps: DepsOf,
    caller: CallerOf,
    state: Annotated[Literal["active", "resumed", "all"], Query(description="Only stops in this state.")] = "all",
    limit: Limit = 50,
    after: After = None,
) -> Any:
    """List the stops that cover calls of your tenant, newest first; the house's administrators see all."""
    caller.need(Scope.ADMIN)
    active = None if state == "all" else state == "active"
    tenant = None if caller.of_house else caller.tenant
    async with reading(deps.runtime.database) as connection:
        rows = await stops.list_stops(connection, tenant, active=active, after=cursor_of(after), limit=limit + 1)
    shown = [stop_out(deps, row) for row in rows[:limit]]
    return {"items": shown, "next": next_of(rows, limit, "stopped_at", "stop_id")}


@router.post("", status_code=201, responses=described(400, 401, 403, 409, 413, 415, 422, 503))
async def stop(deps: DepsOf, caller: CallerOf, body: EmergencyStopIn, response: Response) -> EmergencyStopOut:
    """Stop calls: none of them begins from now on. What waits for people stays; what runs ends by itself."""
    made = await stop_calls(deps, caller, body)
    response.headers["location"] = f"/v1/stops/{made.id}"
    return made


@router.post("/{stop_id}/resume", responses=described(400, 401, 403, 404, 409, 413, 415, 503))
async def resume(deps: DepsOf, caller: CallerOf, stop_id: PathId, body: EmergencyResumeIn) -> EmergencyStopOut:
    """Lift a stop: such calls may run again from now on."""
    return await resume_calls(deps, caller, stop_id, body.reason)


async def stop_calls(deps: Deps, caller: Caller, body: EmergencyStopIn) -> EmergencyStopOut:
    """Stop what an administrator names; raise Refused (403, 409, and 422 where there is nothing of that name)."""
    caller.need(Scope.ADMIN)
    if body.all or body.tenant not in {None, caller.tenant}:
        caller.need_house()
    tenant = None if body.all else body.tenant or caller.tenant
    by_another = body.by_another or deps.settings.gateway_stops_by_another
    wanted = Stopping(tenant, body.tool, body.agent, body.reason, by_another, caller.of_house)
    if not body.anyway:
        await check_names(deps, caller.tenant, wanted)
    async with writing(deps.runtime.units, caller) as work:
        row = await stops.place(work.connection, deps.signer, wanted, by=caller.person, at=await work.clock())
        work.record(_change(row, "stopped", None, "active", caller, body.reason))
    return stop_out(deps, row)


async def resume_calls(deps: Deps, caller: Caller, stop_id: str, reason: str) -> EmergencyStopOut:
    """Lift a stop; raise Refused: 403 (not theirs to lift), 404, 409 (lifted already)."""
    caller.need(Scope.ADMIN)
    async with writing(deps.runtime.units, caller) as work:
        row = await stops.find(work.connection, stop_id)
        if row is None or not (caller.of_house or row["tenant"] in {None, caller.tenant}):
            raise Refused("There is no such stop.", status=404, kind="not-found")
        if row["by_house"]:
            caller.need_house()
        if row["by_another"] and row["stopped_by"] == caller.person:
            raise Refused("Someone else must lift this stop.", status=403, kind="by-another")
        at = await work.clock()
        lifted = await stops.lift(work.connection, deps.signer, row, by=caller.person, reason=reason, at=at)
        if lifted is None:
            raise Refused("This stop was already lifted.", status=409, kind="already-resumed")
        work.record(_change(lifted, "resumed", "active", "resumed", caller, reason))
    return stop_out(deps, lifted)


def stop_out(deps: Deps, row: Row) -> EmergencyStopOut:
    """Return a stop as administrators see it."""
    state = "active" if row["resumed_at"] is None else "resumed"
    return EmergencyStopOut.model_validate(
        {**row, "id": row["stop_id"], "state": state, "genuine": stops.genuine(deps.verifier, row)}
    )


def _change(row: Row, event: str, before: str | None, after: str, caller: Caller, reason: str) -> Change:
    named = {name: row[name] for name in ("tenant", "tool", "agent") if row[name] is not None}
    tenant = row["tenant"] or HOUSE_TENANT
    detail = {**named, "reason": reason}
    return Change(tenant, "stop", row["stop_id"], event, before, after, caller.person, detail=detail)
