"""Approval cards as fragments of the page: shown, refreshed and decided one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from pydantic import Field
from starlette.datastructures import FormData

from placet.contracts.errors import Refused
from placet.gateway.approvals.decisions import Ask, in_words
from placet.gateway.approvals.forms import VoteIn, approval_out, approvals_out
from placet.gateway.approvals.mine import list_mine, survey_mine
from placet.gateway.approvals.store.inbox import Filters, list_approvals
from placet.gateway.http.callers import DepsOf, PathId
from placet.gateway.http.deps import Deps
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.store import reading
from placet.gateway.store.read import Row
from placet.gateway.web.decision_form import wish_of
from placet.gateway.web.editing import edit_form
from placet.gateway.web.plans import MoreIsLeftOut, left_in, without_left_out
from placet.gateway.web.render import Posted, SignedIn, form_model, render
from placet.gateway.web.shown import shown_calls, tools_of
from placet.gateway.web.waiting import cards_of
from placet.gateway.workspaces.plans import plans_of
from placet.surfaces.duty import DutyNow
from placet.surfaces.texts import text

router = APIRouter(prefix="/ui/approvals", include_in_schema=False)

WAITING_MAX = 50
RECENT_MAX = 6


class CardVoteIn(VoteIn):
    """A vote as the card's form sends it."""

    #: What a form sends are texts.
    revision: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None


Place = Annotated[Literal["pane", "chat"], Query()]


@router.get("")
async def pane(deps: DepsOf, caller: SignedIn) -> HTMLResponse:
    """Show what waits for the caller, as the inbox does, and what was decided lately."""
    caller.need(Scope.DECIDE)
    tools, here = await tools_of(deps.settings.rulebook), Filters(state="pending")
    async with reading(deps.runtime.database) as connection:
        page = await list_mine(connection, caller, deps.directory(), here, limit=WAITING_MAX)
        waiting, total = page.rows, len(page.rows)
        if page.next is not None:
            total = (await survey_mine(connection, caller, deps.directory(), here)).total
        newest = await list_approvals(connection, caller.tenant, Filters(), limit=WAITING_MAX)
        drawn = await shown_calls(connection, waiting, tools)
        plans = await plans_of(connection, waiting, tools)
    recent = [approval_out(row) for row in newest if row["state"] != "pending"][:RECENT_MAX]
    duty = DutyNow(deps.directory(), caller.language, datetime.now(UTC))
    return render(
        "pane.html",
        waiting=await approvals_out(waiting, deps.directory()),
        drawn=drawn,
        plans=plans,
        on_call={row["approval_id"]: _on_call(duty, row) for row in waiting},
        total=total,
        recent=recent,
        place="pane",
        notice="",
        edit=None,
        may_decide=True,
        comments=False,
        caller=caller,
    )


def _on_call(duty: DutyNow, row: Row) -> tuple[str, ...]:
    exclude = row["approval_rule"].get("exclude") or ()
    return duty.of(row["approvers"], duty.directory.excluded(exclude, row["requester"], row["agent"], row["opened_by"]))


@router.get("/{approval_id}")
async def card(deps: DepsOf, caller: SignedIn, approval_id: PathId, place: Place = "pane") -> HTMLResponse:
    """Show one card."""
    caller.need(Scope.DECIDE, Scope.CHAT)
    return await _card(deps, caller, await deps.decisions.find(caller, approval_id), place)


@router.post("/{approval_id}/decisions")
async def decide(
    deps: DepsOf,
    caller: SignedIn,
    approval_id: PathId,
    form: Posted,
    place: Place = "pane",
) -> HTMLResponse:
    """Decide, and show the card as it is then; what went wrong stands on the card."""
    vote = form_model(form, CardVoteIn)
    ask = Ask(vote.decision, vote.digest, vote.reason, vote.revision, vote.restored_at)
    row, left = await deps.decisions.find(caller, approval_id), left_in(form)
    try:
        ask = await without_left_out(deps, row, left, ask)
    except MoreIsLeftOut as more:
        return await _card(deps, caller, row, place, more.said(caller.language), left=more.entries)
    except Refused as refusal:
        return await _card(deps, caller, row, place, in_words(refusal, caller.language, caller.people), left=left)
    notice = await _made(deps, caller, approval_id, ask)
    return await _card(deps, caller, await deps.decisions.find(caller, approval_id), place, notice, left=left)


@router.post("/{approval_id}/edits")
async def edit(
    deps: DepsOf, caller: SignedIn, approval_id: PathId, form: Posted, place: Place = "chat"
) -> HTMLResponse:
    """Change the arguments, and show the card as it is then; what cannot be done leaves the form as it was typed."""
    said = await do_as_asked(deps, caller, await deps.decisions.find(caller, approval_id), form)
    now = await deps.decisions.find(caller, approval_id)
    return await _card(deps, caller, now, place, said, form if said else None)


async def do_as_asked(deps: Deps, caller: Caller, row: Row, form: FormData) -> str:
    """Do what a form asks; return what its card says of it, nothing where it was counted."""
    try:
        wish = await asyncio.to_thread(wish_of, form, row, deps.settings.rulebook, caller.language)
    except Refused as refusal:
        return in_words(refusal, caller.language, caller.people)
    return await _made(deps, caller, row["approval_id"], wish.ask())


async def _made(deps: Deps, caller: Caller, approval_id: str, ask: Ask) -> str:
    """Make a decision; return what its card says of it, nothing where it was counted."""
    try:
        decided = await deps.decisions.decide(caller, approval_id, ask)
    except Refused as refusal:
        if refusal.status not in {400, 403, 409}:
            raise
        return in_words(refusal, caller.language, caller.people)
    return (
        "" if decided else text(caller.language, "Sent. The answer is taking longer than usual; the card will update.")
    )


async def _card(
    deps: Deps,
    caller: Caller,
    row: Row,
    place: str,
    notice: str = "",
    typed: FormData | None = None,
    *,
    left: Collection[str] = (),
) -> HTMLResponse:
    (approval,) = await approvals_out([row], deps.directory())
    (card,), edit = await cards_of(deps, caller, [row]), None
    may_decide = caller.may(Scope.DECIDE) and card.mine
    if place == "chat" and may_decide and card.open:
        edit = await edit_form(card, approval, row, deps.settings.rulebook, typed)
    return render(
        "card.html",
        200,
        # What was typed stays a draft.
        {"placet-notice": "1"} if notice else {},
        caller=caller,
        card=card,
        approval=approval,
        place=place,
        notice=notice,
        may_decide=may_decide,
        comments=place == "chat" and (caller.may(Scope.DECIDE) or caller.person == approval.requester),
        shown=card.shown,
        plan=card.plan,
        left=left,
        on_duty=card.on_duty,
        edit=edit,
    )
