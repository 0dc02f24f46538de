"""Approvals over HTTP: what waits for people, and deciding it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from services.gateway.api.callers import After, CallerOf, DepsOf, Limit, PathId, Text
from services.gateway.api.errors import described
from services.gateway.api.pages import cursor_of, next_of
from services.gateway.api.strict import StrictRoute
from services.gateway.decisions import Ask
from services.gateway.feed import arguments_value
from services.gateway.keys import Scope
from services.gateway.store import reading
from services.gateway.store.read import Row, list_approvals
from shared.messages.approvals import REASON_MAX

router = APIRouter(prefix="/v1/approvals", tags=["approvals"], route_class=StrictRoute)

State = Literal["pending", "approved", "denied", "expired", "withdrawn"]


class CallOut(BaseModel):
    """The call that an approval is about, as it would run; only values that nobody may see are masked."""

    id: str
    tool: str
    arguments: Any = Field(description="The arguments as a JSON value.")
    arguments_text: str = Field(
        description="The bytes that the executor runs; where the tool has redacted arguments, these are `•••` here."
    )
    digest: str = Field(description="Of the real arguments, redacted or not.")
    schema_digest: str


class ApprovalOut(BaseModel):
    """One approval."""

    id: str
    state: str
    revision: int
    digest: str = Field(description="Send it back with the decision: it names what you saw.")
    summary: str = Field(description="What will happen, in the visitor's language.")
    tool: str
    rule: str = Field(description="Name of the rule that held the call.")
    rulebook_digest: str
    reason: str = Field(description="Why the call is held.")
    approvers: list[str]
    requester: str
    agent: str
    language: str
    conversation_id: str
    turn_id: str
    call: CallOut
    created_at: datetime
    expires_at: datetime
    closed_at: datetime | None = None
    decided_by: str | None = None
    decision_reason: str | None = None


class ApprovalPage(BaseModel):
    """Approvals, newest first."""

    items: list[ApprovalOut]
    next: str | None = Field(default=None, description="Cursor of the next page; null on the last.")


class DecisionIn(BaseModel):
    """A person's decision about what they saw."""

    model_config = ConfigDict(extra="forbid")

    decision: Literal["approve", "deny"]
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="The digest of the card that was shown.")]
    reason: Annotated[Text, Field(max_length=REASON_MAX)] = ""
    revision: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None


class Accepted(BaseModel):
    """The decision is on its way; look at the approval for what becomes of it."""

    id: str
    state: Literal["sent"] = "sent"


@router.get("", responses=described(400, 401, 403, 503))
async def list_all(
    deps: DepsOf,
    caller: CallerOf,
    state: Annotated[State | None, Query(description="Only approvals in this state.")] = None,
    limit: Limit = 50,
    after: After = None,
) -> ApprovalPage:
    """List approvals, newest first; a conversation token sees those of its conversation."""
    caller.need(Scope.DECIDE)
    cursor = cursor_of(after)
    async with reading(deps.runtime.database) as connection:
        rows = await list_approvals(
            connection,
            caller.tenant,
            state=state,
            conversation_id=caller.conversation_id,
            after=cursor,
            limit=limit + 1,
        )
    items = [approval_out(row) for row in rows[:limit]]
    return ApprovalPage(items=items, next=next_of(rows, limit, "created_at", "approval_id"))


@router.get("/{approval_id}", responses=described(401, 403, 404, 503))
async def show(deps: DepsOf, caller: CallerOf, approval_id: PathId) -> ApprovalOut:
    """Show one approval with the call it is about."""
    caller.need(Scope.DECIDE)
    return approval_out(await deps.decisions.find(caller, approval_id))


@router.post(
    "/{approval_id}/decisions",
    response_model=ApprovalOut,
    responses={
        202: {"model": Accepted, "description": "Sent; the answer takes its time. `Location` says where to look."},
        **described(400, 401, 403, 404, 409, 413, 415, 503),
    },
)
async def decide(deps: DepsOf, caller: CallerOf, approval_id: PathId, body: DecisionIn) -> Response | ApprovalOut:
    """Approve or deny a call exactly as it was shown; 409 where somebody was faster or the card has changed."""
    ask = Ask(body.decision, body.digest, body.reason, body.revision)
    approval = await deps.decisions.decide(caller, approval_id, ask)
    if approval is not None:
        return approval_out(approval)
    headers = {"location": f"/v1/approvals/{approval_id}"}
    return JSONResponse(Accepted(id=approval_id).model_dump(), 202, headers)


def approval_out(row: Row) -> ApprovalOut:
    """Return a row of `read.approvals` as the API shows it."""
    return ApprovalOut.model_validate(
        {
            **row,
            "id": row["approval_id"],
            "decided_by": row["decided_by"] or None,
            "decision_reason": row["decision_reason"] or None,
            "call": {
                "id": row["call_id"],
                "tool": row["tool"],
                "arguments": arguments_value(row["arguments"]),
                "arguments_text": row["arguments"],
                "digest": row["digest"],
                "schema_digest": row["schema_digest"],
            },
        }
    )
