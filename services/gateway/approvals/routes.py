"""Approvals over HTTP: what waits for people, and deciding it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from placet.contracts.errors import Refused
from placet.gateway.approvals.answers import refuse_risky
from placet.gateway.approvals.details import ApprovalDetailOut, detail_of
from placet.gateway.approvals.filters import InboxQuery
from placet.gateway.approvals.forms import (
    Accepted,
    ApprovalOut,
    ApprovalPage,
    BatchIn,
    BatchItemIn,
    BatchItemOut,
    BatchOut,
    DecisionIn,
    approval_out,
    approvals_out,
)
from placet.gateway.approvals.leaving_out import ask_of
from placet.gateway.approvals.listing import Wanted, list_page, with_surfaced
from placet.gateway.approvals.together import decide_in_turn, not_in_turn
from placet.gateway.http.callers import CallerOf, DepsOf, PathId
from placet.gateway.http.deps import Deps
from placet.gateway.http.errors import described, document, wished
from placet.gateway.http.pages import cursor_of
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.store import reading
from placet.gateway.store.paging import encode_cursor
from placet.gateway.store.read import list_untold

router = APIRouter(prefix="/v1/approvals", tags=["approvals"], route_class=StrictRoute)


@router.get("", responses=described(400, 401, 403, 503))
async def list_all(
    deps: DepsOf,
    caller: CallerOf,
    asked: Annotated[InboxQuery, Query()],
) -> ApprovalPage:
    """List approvals that fit everything asked, in the order asked for; a conversation token sees its own alone."""
    caller.need(Scope.DECIDE)
    filters, after, directory = asked.filters(caller), cursor_of(asked.cursor), deps.directory()
    if filters is None:
        return ApprovalPage(items=[])
    async with reading(deps.runtime.database) as connection:
        filters = await with_surfaced(connection, caller, filters)
        wanted = Wanted(filters, mine=asked.mine, order=asked.sort)
        page = await list_page(connection, caller, directory, wanted, after=after, limit=asked.limit)
        untold = await list_untold(connection, caller.tenant, page.rows)
    following = encode_cursor(page.next) if page.next else None
    return ApprovalPage(items=await approvals_out(page.rows, directory, untold), next=following)


@router.get("/{approval_id}", responses=described(401, 403, 404, 503))
async def show(deps: DepsOf, caller: CallerOf, approval_id: PathId) -> ApprovalDetailOut:
    """Show one approval with everything that happened to it: arguments, verdict, votes, edits, timers, execution."""
    caller.need(Scope.DECIDE)
    row = await deps.decisions.find(caller, approval_id)
    return await detail_of(deps.runtime.database, row, deps.directory())


@router.post("/decisions", responses=described(400, 401, 403, 413, 415, 503))
async def decide_many(deps: DepsOf, caller: CallerOf, body: BatchIn, request: Request) -> BatchOut:
    """Decide several approvals at once; each has its own outcome, and one that fails does not stop the others."""
    caller.need(Scope.DECIDE)
    first = {item.id: at for at, item in reversed(list(enumerate(body.items)))}
    language = wished(request)

    async def outcome(number: int, *, unsure: bool) -> tuple[BatchItemOut, bool]:
        item = body.items[number]
        made = await _outcome(deps, caller, item, language, twice=first[item.id] < number, unsure=unsure)
        return made, made.approval is None and made.problem is None

    approved = [item.id if item.decision == "approve" else "" for item in body.items]
    return BatchOut(items=await decide_in_turn(deps.runtime.database, caller.tenant, approved, outcome))


@router.post(
    "/{approval_id}/decisions",
    response_model=ApprovalOut,
    responses={
        202: {"model": Accepted, "description": "Sent; the answer takes its time. `Location` says where to look."},
        **described(400, 401, 403, 404, 409, 413, 415, 429, 503),
    },
)
async def decide(deps: DepsOf, caller: CallerOf, approval_id: PathId, body: DecisionIn) -> Response | ApprovalOut:
    """Decide about a call exactly as it was shown; 409 where somebody was faster or the card has changed."""
    ask = await ask_of(deps.runtime.database, deps.decisions, caller, approval_id, body)
    approval = await deps.decisions.decide(caller, approval_id, ask)
    if approval is not None:
        return approval_out(approval)
    headers = {"location": f"/v1/approvals/{approval_id}"}
    return JSONResponse(Accepted(id=approval_id).model_dump(), 202, headers)


async def _outcome(
    deps: Deps, caller: Caller, item: BatchItemIn, language: str, *, twice: bool, unsure: bool
) -> BatchItemOut:
    """Return what became of one item.

    `twice`: one before it is about the same approval; `unsure`: nobody has answered one that must be approved before.
    """
    decisions = deps.decisions
    try:
        _refuse_again(twice=twice)
        if unsure:
            raise not_in_turn()
        if item.decision == "approve":
            refuse_risky(await decisions.find(caller, item.id))
        ask = await ask_of(deps.runtime.database, decisions, caller, item.id, item)
        row = await decisions.decide(caller, item.id, ask)
    except Refused as refusal:
        told = document(refusal.status, refusal.title, refusal.kind, language, **refusal.facts)
        return BatchItemOut(id=item.id, status=refusal.status, problem=told)
    if row is None:
        return BatchItemOut(id=item.id, status=202)
    return BatchItemOut(id=item.id, status=200, approval=approval_out(row))


def _refuse_again(*, twice: bool) -> None:
    if twice:
        detail = "Another item of this batch, before this one, is about the same approval: only that one is made."
        raise Refused("This approval is given twice.", kind="given-twice", detail=detail)
