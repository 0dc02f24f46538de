"""Operators over HTTP: which conversations people hold, taking one over, giving it back."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from placet.contracts.messages.conversations import Holder
from placet.gateway.conversations.holder import Held
from placet.gateway.http.callers import After, CallerOf, ConversationId, DepsOf, Limit
from placet.gateway.http.errors import described
from placet.gateway.http.pages import cursor_of, next_of
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.keys import Scope
from placet.gateway.operators.store import list_held
from placet.gateway.states import State
from placet.gateway.store import reading

router = APIRouter(prefix="/v1/conversations", tags=["operators"], route_class=StrictRoute)

#: Ways to hold a conversation that a list can be narrowed to.
HeldState = Literal["waiting", "operator"]
Narrowed = Annotated[
    HeldState | None, Query(alias="holder", description="waiting: an operator is awaited; operator: one is there.")
]


class HeldOut(BaseModel):
    """A conversation that people hold."""

    id: str
    holder: Holder
    operator: str | None = Field(description="Stable id of the operator who answers; null while one is awaited.")
    held_since: datetime
    reason: str = Field(description="Why a tool handed it over; empty where an operator took it by themselves.")
    agent: str | None
    language: str
    newest_text: str | None = Field(description="How its newest message begins.")
    newest_role: str | None = Field(description="Who wrote that: user, assistant or operator.")
    newest_at: datetime | None


class HeldPage(BaseModel):
    """One page, those held last first."""

    items: list[HeldOut]
    next: str | None = Field(description="Cursor of the next page; null on the last.")


class HolderOut(BaseModel):
    """Who answers in a conversation now."""

    id: str
    holder: Holder
    operator: str | None
    revision: int = Field(description="How often the holder has changed.")


@router.get("", responses=described(400, 401, 403, 503))
async def list_them(
    deps: DepsOf, caller: CallerOf, holder: Narrowed = None, limit: Limit = 50, cursor: After = None
) -> HeldPage:
    """List the conversations that people hold, those held last first."""
    caller.need(Scope.OPERATE)
    state = State(holder) if holder else None
    async with reading(deps.runtime.database) as connection:
        found = await list_held(connection, caller.tenant, state, after=cursor_of(cursor), limit=limit + 1)
    following = next_of(found, limit, "held_since", "conversation_id")
    shown = [{**row, "id": row["conversation_id"], "operator": row["operator"] or None} for row in found[:limit]]
    return HeldPage.model_validate({"items": shown, "next": following})


@router.post("/{conversation_id}/takeover", responses=described(401, 403, 404, 409, 503))
async def take_over(deps: DepsOf, caller: CallerOf, conversation_id: ConversationId) -> HolderOut:
    """Take a conversation over from the agent: what visitors write from now on starts no model."""
    return _holder_out(conversation_id, await deps.operators.take_over(caller, conversation_id))


@router.post("/{conversation_id}/release", responses=described(401, 403, 404, 409, 503))
async def release(deps: DepsOf, caller: CallerOf, conversation_id: ConversationId) -> HolderOut:
    """Give a conversation back to the agent, which answers what nobody has answered yet."""
    return _holder_out(conversation_id, await deps.operators.release(caller, conversation_id))


def _holder_out(conversation_id: str, held: Held) -> HolderOut:
    told = {"holder": held.state, "operator": held.operator or None, "revision": held.revision}
    return HolderOut.model_validate({"id": conversation_id, **told})
