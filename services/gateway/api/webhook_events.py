"""Events for webhooks over HTTP: which were taken, which never were, and an administrator's wish to post one again."""

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
from services.gateway.store.read import list_webhook_events, load_webhook_event
from shared.errors import Refused
from shared.messages import RetryWebhookEvent

router = APIRouter(prefix="/v1/webhook-events", tags=["deliveries"], route_class=StrictRoute)

State = Literal["due", "sent", "given_up"]


class WebhookEventOut(BaseModel):
    """One event for one webhook; what is told in it is not shown here."""

    id: str = Field(description="The `webhook-id` of every try.")
    webhook: str = Field(description="As the file of webhooks names it.")
    type: str = Field(description="For example `approval.opened`.")
    state: str
    attempt: int = Field(description="Tries so far, since it was last wanted again.")
    error: str = Field(description="Why it was not taken at the last try; empty where it was.")
    due_at: datetime
    created_at: datetime


class WebhookEventPage(BaseModel):
    """Events for webhooks, the newest first."""

    items: list[WebhookEventOut]
    next: str | None = Field(default=None, description="Cursor of the next page; null on the last.")


class WebhookRetrySent(BaseModel):
    """The wish is on its way to the service that posts events."""

    id: str
    action: Literal["retry"] = "retry"


@router.get("", responses=described(400, 401, 403, 503))
async def list_all(
    deps: DepsOf,
    caller: CallerOf,
    state: Annotated[State | None, Query(description="Only events in this state.")] = None,
    limit: Limit = 50,
    after: After = None,
) -> WebhookEventPage:
    """List what webhooks of your tenant were to hear, the newest first; what was taken is forgotten after some days."""
    caller.need(Scope.ADMIN)
    cursor = cursor_of(after)
    async with reading(deps.runtime.database) as connection:
        rows = await list_webhook_events(connection, caller.tenant, state=state, after=cursor, limit=limit + 1)
    items = [WebhookEventOut.model_validate({**row, "id": row["event_id"]}) for row in rows[:limit]]
    return WebhookEventPage(items=items, next=next_of(rows, limit, "created_at", "event_id"))


@router.post("/{event_id}/retry", status_code=202, responses=described(401, 403, 404, 409, 503))
async def retry(deps: DepsOf, caller: CallerOf, event_id: PathId, response: Response) -> WebhookRetrySent:
    """Post an event again that its webhook never took, to the byte as it was."""
    caller.need(Scope.ADMIN)
    async with reading(deps.runtime.database) as connection:
        row = await load_webhook_event(connection, caller.tenant, event_id)
    if row is None:
        raise Refused("There is no such webhook event.", status=404, kind="not-found")
    if row["state"] != "given_up":
        told = "Only an event that was given up is posted again."
        raise Refused(told, status=409, kind="not-given-up", state=row["state"])
    async with deps.runtime.units.begin() as work:
        work.emit(RetryWebhookEvent(tenant=caller.tenant, event_id=event_id, by=caller.person))
    response.headers["location"] = "/v1/webhook-events"
    return WebhookRetrySent(id=event_id)
