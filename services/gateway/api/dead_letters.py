"""Dead letters over HTTP: what could not be handled, and what an administrator wants done with it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from services.gateway.api.callers import After, CallerOf, DepsOf, Limit, PathId
from services.gateway.api.errors import described
from services.gateway.api.pages import cursor_of, next_of
from services.gateway.api.strict import StrictRoute
from services.gateway.auth import Caller
from services.gateway.deps import Deps
from services.gateway.keys import Scope
from services.gateway.store import reading
from services.gateway.store.read import Row, list_dead_letters, load_dead_letter
from shared.errors import Refused
from shared.letters import events_in
from shared.messages import ResolveDeadLetter

router = APIRouter(prefix="/v1/dead-letters", tags=["dead letters"], route_class=StrictRoute)

State = Literal["open", "replayed", "discarded"]


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


class LetterPage(BaseModel):
    """Dead letters, newest first."""

    items: list[LetterOut]
    next: str | None = Field(default=None, description="Cursor of the next page; null on the last.")


class Sent(BaseModel):
    """The wish is on its way to the service that keeps dead letters."""

    id: str
    action: Literal["replay", "discard"]


@router.get("", responses=described(400, 401, 403, 503))
async def list_all(
    deps: DepsOf,
    caller: CallerOf,
    state: Annotated[State | None, Query(description="Only letters in this state.")] = None,
    limit: Limit = 50,
    after: After = None,
) -> LetterPage:
    """List dead letters of your tenant, newest first."""
    caller.need(Scope.ADMIN)
    cursor = cursor_of(after)
    async with reading(deps.runtime.database) as connection:
        rows = await list_dead_letters(connection, caller.tenant, state=state, after=cursor, limit=limit + 1)
    items = [LetterOut.model_validate({**row, "id": row["dead_letter_id"]}) for row in rows[:limit]]
    return LetterPage(items=items, next=next_of(rows, limit, "received_at", "dead_letter_id"))


@router.get("/{letter_id}", responses=described(401, 403, 404, 503))
async def show(deps: DepsOf, caller: CallerOf, letter_id: PathId) -> WholeLetterOut:
    """Show one dead letter with its body."""
    row = await _find(deps, caller, letter_id)
    return WholeLetterOut.model_validate({**row, "id": letter_id})


@router.post("/{letter_id}/replay", status_code=202, responses=described(401, 403, 404, 409, 503))
async def replay(deps: DepsOf, caller: CallerOf, letter_id: PathId, response: Response) -> Sent:
    """Send a dead letter back to the queue it came from."""
    return await _resolve(deps, caller, letter_id, "replay", response)


@router.post("/{letter_id}/discard", status_code=202, responses=described(401, 403, 404, 409, 503))
async def discard(deps: DepsOf, caller: CallerOf, letter_id: PathId, response: Response) -> Sent:
    """Give a dead letter up; it stays on record."""
    return await _resolve(deps, caller, letter_id, "discard", response)


async def _find(deps: Deps, caller: Caller, letter_id: str) -> Row:
    caller.need(Scope.ADMIN)
    async with reading(deps.runtime.database) as connection:
        row = await load_dead_letter(connection, caller.tenant, letter_id)
    if row is None:
        raise Refused("There is no such dead letter.", status=404, kind="not-found")
    return row


async def _resolve(
    deps: Deps, caller: Caller, letter_id: str, action: Literal["replay", "discard"], response: Response
) -> Sent:
    letter = await _find(deps, caller, letter_id)
    if letter["state"] != "open":
        facts = {"state": letter["state"], "resolved_by": letter["resolved_by"]}
        raise Refused("This dead letter is already resolved.", status=409, kind="already-resolved", **facts)
    if action == "replay":
        _need_events(letter["body"])
    async with deps.runtime.units.begin() as work:
        work.emit(ResolveDeadLetter(tenant=caller.tenant, dead_letter_id=letter_id, action=action, by=caller.person))
    response.headers["location"] = f"/v1/dead-letters/{letter_id}"
    return Sent(id=letter_id, action=action)


def _need_events(body: str) -> None:
    try:
        events_in(body)
    except ValueError as error:
        detail = "Its body holds no events. It can only be discarded."
        raise Refused(
            "This dead letter cannot be replayed.", status=409, kind="not-replayable", state="open", detail=detail
        ) from error
