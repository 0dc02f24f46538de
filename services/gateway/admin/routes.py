"""What administrators look after, over HTTP: dead letters, deliveries of cards, webhook events, and grants.

Each is a list of a view that its owner shows; what an administrator wants done with a row goes to its owner by message.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from placet.contracts.dead_letters import events_in
from placet.contracts.errors import Refused
from placet.contracts.messages import Message, ResolveDeadLetter, RetryDelivery, RetryWebhookEvent, RevokeGrant
from placet.contracts.messages.approvals import GrantScope
from placet.gateway.admin import store
from placet.gateway.admin.store import DEAD_LETTERS, DELIVERIES, GRANTS, WEBHOOK_EVENTS, Listed, Row
from placet.gateway.conversations.access import writing
from placet.gateway.conversations.items import arguments_value
from placet.gateway.http.callers import After, CallerOf, DepsOf, Limit, PathId
from placet.gateway.http.deps import Deps
from placet.gateway.http.errors import described
from placet.gateway.http.pages import Page, cursor_of, next_of
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.store import reading

dead_letters = APIRouter(prefix="/v1/dead-letters", tags=["dead letters"], route_class=StrictRoute)
deliveries = APIRouter(prefix="/v1/deliveries", tags=["deliveries"], route_class=StrictRoute)
webhook_events = APIRouter(prefix="/v1/webhook-events", tags=["deliveries"], route_class=StrictRoute)
grants = APIRouter(prefix="/v1/grants", tags=["grants"], route_class=StrictRoute)

_LISTED = described(400, 401, 403, 503)
_SHOWN = described(401, 403, 404, 503)
_WISHED = described(401, 403, 404, 409, 503)


async def page(
    deps: Deps, caller: Caller, listed: Listed, limit: int, after: str | None, **filters: str | None
) -> dict[str, Any]:
    """Return a page of rows, {items, next}, newest first; each row has its `id` beside its columns."""
    cursor = cursor_of(after)
    async with reading(deps.runtime.database) as connection:
        rows = await store.list_page(connection, listed, caller.tenant, after=cursor, limit=limit + 1, **filters)
    items = [{**row, "id": row[listed.id]} for row in rows[:limit]]
    return {"items": items, "next": next_of(rows, limit, listed.at, listed.id)}


async def _found(deps: Deps, caller: Caller, listed: Listed, row_id: str, name: str) -> Row:
    """Return a row; raise Refused (404) where there is none."""
    async with reading(deps.runtime.database) as connection:
        row = await store.find(connection, listed, caller.tenant, row_id)
    if row is None:
        raise Refused(f"There is no such {name}.", status=404, kind="not-found")
    return row


async def _send(deps: Deps, caller: Caller, response: Response, message: Message, location: str) -> None:
    """Send what an administrator wants; `location` is where to look for what becomes of it."""
    async with writing(deps.runtime.units, caller) as work:
        work.emit(message)
    response.headers["location"] = location


LetterState = Literal["open", "replayed", "discarded"]


class LetterOut(BaseModel):
    """One dead letter."""

    id: str
    state: str
    queue: str
    service: str
    reason: str
    message_id: str
    message_type: str
    received_at: datetime
    resolved_at: datetime | None = None
    resolved_by: str | None = None


class WholeLetterOut(LetterOut):
    """One dead letter with what it says."""

    body: str


class LetterPage(Page[LetterOut]):
    """Dead letters, newest first."""


class LetterActionSent(BaseModel):
    """The wish is on its way to the service that keeps dead letters."""

    id: str
    action: Literal["replay", "discard"]


@dead_letters.get("", response_model=LetterPage, responses=_LISTED)
async def list_letters(
    deps: DepsOf,
    caller: CallerOf,
    state: Annotated[LetterState | None, Query(description="Only letters in this state.")] = None,
    limit: Limit = 50,
    after: After = None,
) -> Any:
    """List dead letters of your tenant, newest first."""
    caller.need(Scope.ADMIN)
    return await page(deps, caller, DEAD_LETTERS, limit, after, state=state)


@dead_letters.get("/{letter_id}", responses=_SHOWN)
async def show_letter(deps: DepsOf, caller: CallerOf, letter_id: PathId) -> WholeLetterOut:
    """Show one dead letter with its body."""
    caller.need(Scope.ADMIN)
    row = await _found(deps, caller, DEAD_LETTERS, letter_id, "dead letter")
    return WholeLetterOut.model_validate({**row, "id": letter_id})


@dead_letters.post("/{letter_id}/replay", status_code=202, responses=_WISHED)
async def replay(deps: DepsOf, caller: CallerOf, letter_id: PathId, response: Response) -> LetterActionSent:
    """Send a dead letter back to the queue it came from."""
    return await _resolve(deps, caller, letter_id, "replay", response)


@dead_letters.post("/{letter_id}/discard", status_code=202, responses=_WISHED)
async def discard(deps: DepsOf, caller: CallerOf, letter_id: PathId, response: Response) -> LetterActionSent:
    """Give a dead letter up; it stays on record."""
    return await _resolve(deps, caller, letter_id, "discard", response)


async def _resolve(
    deps: Deps, caller: Caller, letter_id: str, action: Literal["replay", "discard"], response: Response
) -> LetterActionSent:
    caller.need(Scope.ADMIN)
    letter = await _found(deps, caller, DEAD_LETTERS, letter_id, "dead letter")
    if letter["state"] != "open":
        facts = {"state": letter["state"], "resolved_by": letter["resolved_by"]}
        raise Refused("This dead letter is already resolved.", status=409, kind="already-resolved", **facts)
    if action == "replay":
        _need_events(letter["body"])
    wish = ResolveDeadLetter(tenant=caller.tenant, dead_letter_id=letter_id, action=action, by=caller.person)
    await _send(deps, caller, response, wish, f"/v1/dead-letters/{letter_id}")
    return LetterActionSent(id=letter_id, action=action)


def _need_events(body: str) -> None:
    try:
        events_in(body)
    except ValueError as error:
        detail = "Its body holds no events. It can only be discarded."
        title = "This dead letter cannot be replayed."
        raise Refused(title, status=409, kind="not-replayable", state="open", detail=detail) from error


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


class DeliveryPage(Page[DeliveryOut]):
    """Deliveries, the newest change first."""


class DeliveryRetrySent(BaseModel):
    """The wish is on its way to the service that shows cards."""

    id: str
    action: Literal["retry"] = "retry"


@deliveries.get("", response_model=DeliveryPage, responses=_LISTED)
async def list_deliveries(
    deps: DepsOf,
    caller: CallerOf,
    state: Annotated[
        Literal["due", "kept", "sent", "given_up"] | None, Query(description="Only deliveries in this state.")
    ] = None,
    limit: Limit = 50,
    after: After = None,
) -> Any:
    """List deliveries of your tenant, the newest change first."""
    caller.need(Scope.ADMIN)
    return await page(deps, caller, DELIVERIES, limit, after, state=state)


@deliveries.post("/{delivery_id}/retry", status_code=202, responses=_WISHED)
async def retry_delivery(deps: DepsOf, caller: CallerOf, delivery_id: PathId, response: Response) -> DeliveryRetrySent:
    """Show a card again where its channel failed for good."""
    caller.need(Scope.ADMIN)
    row = await _found(deps, caller, DELIVERIES, delivery_id, "delivery")
    if row["state"] != "given_up":
        title = "Only a delivery that was given up can be retried."
        raise Refused(title, status=409, kind="not-given-up", state=row["state"])
    wish = RetryDelivery(tenant=caller.tenant, delivery_id=delivery_id, by=caller.person)
    await _send(deps, caller, response, wish, "/v1/deliveries")
    return DeliveryRetrySent(id=delivery_id)


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


class WebhookEventPage(Page[WebhookEventOut]):
    """Events for webhooks, the newest first."""


class WebhookRetrySent(BaseModel):
    """The wish is on its way to the service that posts events."""

    id: str
    action: Literal["retry"] = "retry"


@webhook_events.get("", response_model=WebhookEventPage, responses=_LISTED)
async def list_webhook_events(
    deps: DepsOf,
    caller: CallerOf,
    state: Annotated[Literal["due", "sent", "given_up"] | None, Query(description="Only events in this state.")] = None,
    limit: Limit = 50,
    after: After = None,
) -> Any:
    """List what webhooks of your tenant were to hear, the newest first; what was taken is forgotten after some days."""
    caller.need(Scope.ADMIN)
    return await page(deps, caller, WEBHOOK_EVENTS, limit, after, state=state)


@webhook_events.post("/{event_id}/retry", status_code=202, responses=_WISHED)
async def retry_webhook_event(deps: DepsOf, caller: CallerOf, event_id: PathId, response: Response) -> WebhookRetrySent:
    """Post an event again that its webhook never took, to the byte as it was."""
    caller.need(Scope.ADMIN)
    row = await _found(deps, caller, WEBHOOK_EVENTS, event_id, "webhook event")
    if row["state"] != "given_up":
        title = "Only an event that was given up can be posted again."
        raise Refused(title, status=409, kind="not-given-up", state=row["state"])
    wish = RetryWebhookEvent(tenant=caller.tenant, event_id=event_id, by=caller.person)
    await _send(deps, caller, response, wish, "/v1/webhook-events")
    return WebhookRetrySent(id=event_id)


GrantState = Literal["active", "used_up", "expired", "revoked", "void"]


class GrantOut(BaseModel):
    """One grant."""

    id: str
    state: GrantState
    owner: str = Field(description="Who allowed such calls; only they and administrators may take it back.")
    tool: str
    rule: str = Field(description="Name of the rule that would hold the calls.")
    approval_id: str = Field(description="The approval that it was given with.")
    scope: GrantScope
    subject: str = Field(description="The conversation, agent or tenant whose calls it covers.")
    arguments: Any = Field(description="Arguments of the approved call, redacted.")
    bounds: list[str] = Field(
        description="Arguments that may vary: smaller numbers, texts that fit `name=glob`; all others must be equal."
    )
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


class GrantPage(Page[GrantOut]):
    """Grants, newest first."""


class Revoking(BaseModel):
    """The wish is on its way to policy; look at the grant for what became of it."""

    id: str
    action: Literal["revoke"] = "revoke"


@grants.get("", response_model=GrantPage, responses=_LISTED)
async def list_grants(
    deps: DepsOf,
    caller: CallerOf,
    state: Annotated[GrantState | None, Query(description="Only grants in this state.")] = None,
    limit: Limit = 50,
    after: After = None,
) -> Any:
    """List your own grants, newest first; administrators see everybody's."""
    found = await page(deps, caller, GRANTS, limit, after, owner=_owner(caller), state=state)
    return {**found, "items": [_grant_out(row) for row in found["items"]]}


@grants.get("/{grant_id}", responses=_SHOWN)
async def show_grant(deps: DepsOf, caller: CallerOf, grant_id: PathId) -> GrantOut:
    """Show one grant."""
    return _grant_out(await _grant(deps, caller, grant_id))


@grants.post("/{grant_id}/revoke", status_code=202, responses=_WISHED)
async def revoke_grant(deps: DepsOf, caller: CallerOf, grant_id: PathId, response: Response) -> Revoking:
    """Take a grant back; calls that it let through before run all the same."""
    grant = await _grant(deps, caller, grant_id)
    if grant["state"] == "revoked":
        facts = {"state": "revoked", "revoked_by": grant["revoked_by"]}
        raise Refused("This grant was already revoked.", status=409, kind="already-revoked", **facts)
    wish = RevokeGrant(tenant=caller.tenant, grant_id=grant_id, by=caller.person)
    await _send(deps, caller, response, wish, f"/v1/grants/{grant_id}")
    return Revoking(id=grant_id)


def _owner(caller: Caller) -> str | None:
    """Return whose grants exist for the caller; None for everybody's."""
    caller.need(Scope.DECIDE, Scope.ADMIN)
    return None if caller.may(Scope.ADMIN) else caller.person


async def _grant(deps: Deps, caller: Caller, grant_id: str) -> Row:
    owner = _owner(caller)
    row = await _found(deps, caller, GRANTS, grant_id, "grant")
    if owner not in {None, row["owner"]}:
        raise Refused("There is no such grant.", status=404, kind="not-found")
    return row


def _grant_out(row: Row) -> GrantOut:
    return GrantOut.model_validate({**row, "id": row["grant_id"], "arguments": arguments_value(row["arguments"])})
