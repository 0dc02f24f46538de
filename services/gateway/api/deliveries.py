"""Cards over HTTP: where they were shown, which could not be, and an administrator's wish to try again."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from services.gateway.api.callers import After, CallerOf, DepsOf, Limit, PathId
from services.gateway.api.errors import described
from services.gateway.api.pages import cursor_of, next_of
from services.gateway.api.strict import StrictRoute
from services.gateway.keys import Scope
from services.gateway.store import reading
from services.gateway.store.read import list_deliveries_of_tenant, load_delivery
from shared.errors import Refused
from shared.messages import RetryDelivery

router = APIRouter(prefix="/v1/deliveries", tags=["deliveries"], route_class=StrictRoute)

State = Literal["due", "kept", "sent", "given_up"]


class DeliveryOut(BaseModel):
    """One card of one approval at one address."""

    id: str
    approval_id: str
    channel: str = Field(description="As the rule names it.")
    recipient: str = Field(description="Who or what is meant there; empty for the log.")
    person: str = Field(description="Id of the person in the directory; empty where a place is meant.")
    state: str
    pending: bool = Field(description="Whether the approval still waits for people.")
    revision: int
    sent_revision: int = Field(description="Revision of the approval that people were last shown there; 0: none yet.")
    attempt: int
    error: str = Field(description="Why it was not shown at the last try; empty where it was.")
    due_at: datetime
    updated_at: datetime


class DeliveryPage(BaseModel):
    """Deliveries, the newest change first."""

    items: list[DeliveryOut]
    next: str | None = Field(default=None, description="Cursor of the next page; null on the last.")


class Sent(BaseModel):
    """The wish is on its way to the service that shows cards."""

    id: str
    action: Literal["retry"] = "retry"


@router.get("", responses=described(400, 401, 403, 503))
async def list_all(
    deps: DepsOf,
    caller: CallerOf,
    state: Annotated[State | None, Query(description="Only deliveries in this state.")] = None,
    limit: Limit = 50,
    after: After = None,
) -> DeliveryPage:
    """List deliveries of your tenant, the newest change first."""
    caller.need(Scope.ADMIN)
    cursor = cursor_of(after)
    async with reading(deps.runtime.database) as connection:
        rows = await list_deliveries_of_tenant(connection, caller.tenant, state=state, after=cursor, limit=limit + 1)
    items = [DeliveryOut.model_validate({**row, "id": row["delivery_id"]}) for row in rows[:limit]]
    return DeliveryPage(items=items, next=next_of(rows, limit, "updated_at", "delivery_id"))


@router.post("/{delivery_id}/retry", status_code=202, responses=described(401, 403, 404, 409, 503))
async def retry(deps: DepsOf, caller: CallerOf, delivery_id: PathId, response: Response) -> Sent:
    """Show a card again where its channel failed for good."""
    caller.need(Scope.ADMIN)
    async with reading(deps.runtime.database) as connection:
        row = await load_delivery(connection, caller.tenant, delivery_id)
    if row is None:
        raise Refused("There is no such delivery.", status=404, kind="not-found")
    if row["state"] != "given_up":
        told = "Only a delivery that was given up is tried again."
        raise Refused(told, status=409, kind="not-given-up", state=row["state"])
    async with deps.runtime.units.begin() as work:
        work.emit(RetryDelivery(tenant=caller.tenant, delivery_id=delivery_id, by=caller.person))
    response.headers["location"] = "/v1/deliveries"
    return Sent(id=delivery_id)
