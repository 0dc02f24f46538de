"""Approval cards as fragments of the page: shown, refreshed and decided one by one."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse
from pydantic import Field

from services.gateway.api.approval_forms import ApprovalOut, VoteIn, approval_out
from services.gateway.api.callers import DepsOf, PathId
from services.gateway.auth import Caller
from services.gateway.decisions import Ask, in_words
from services.gateway.keys import Scope
from services.gateway.store import reading
from services.gateway.store.inbox import Filters, list_approvals
from services.gateway.web.render import SignedIn, check_form, render
from shared.errors import Refused

router = APIRouter(prefix="/ui/approvals", include_in_schema=False)

WAITING_MAX = 50
RECENT_MAX = 6


class CardVoteIn(VoteIn):
    """A vote as the card's form sends it."""

    form_token: Annotated[str, Field(max_length=64)] = ""
    #: What a form sends are texts.
    revision: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None


Place = Annotated[Literal["pane", "chat"], Query()]


@router.get("")
async def pane(deps: DepsOf, caller: SignedIn) -> HTMLResponse:
    """Show what waits for people, and what was decided lately."""
    caller.need(Scope.DECIDE)
    async with reading(deps.runtime.database) as connection:
        waiting = await list_approvals(connection, caller.tenant, Filters(state="pending"), limit=WAITING_MAX + 1)
        newest = await list_approvals(connection, caller.tenant, Filters(), limit=WAITING_MAX)
    recent = [approval_out(row) for row in newest if row["state"] != "pending"][:RECENT_MAX]
    return render(
        "pane.html",
        waiting=[approval_out(row, deps.directory()) for row in waiting[:WAITING_MAX]],
        more=len(waiting) > WAITING_MAX,
        recent=recent,
        place="pane",
        notice="",
        may_decide=True,
        caller=caller,
    )


@router.get("/{approval_id}")
async def card(deps: DepsOf, caller: SignedIn, approval_id: PathId, place: Place = "pane") -> HTMLResponse:
    """Show one card."""
    caller.need(Scope.DECIDE, Scope.CHAT)
    row = await deps.decisions.find(caller, approval_id)
    return _card(caller, approval_out(row, deps.directory()), place)


@router.post("/{approval_id}/decisions")
async def decide(
    deps: DepsOf,
    caller: SignedIn,
    approval_id: PathId,
    form: Annotated[CardVoteIn, Form()],
    place: Place = "pane",
) -> HTMLResponse:
    """Decide, and show the card as it is then; what went wrong stands on the card."""
    check_form(caller, form.form_token)
    notice = ""
    try:
        decided = await deps.decisions.decide(
            caller, approval_id, Ask(form.decision, form.digest, form.reason, form.revision)
        )
        notice = "" if decided else "Sent. The answer takes its time; this card follows."
    except Refused as refusal:
        if refusal.status not in {400, 403, 409}:
            raise
        notice = in_words(refusal)
    row = await deps.decisions.find(caller, approval_id)
    return _card(caller, approval_out(row, deps.directory()), place, notice)


def _card(caller: Caller, approval: ApprovalOut, place: str, notice: str = "") -> HTMLResponse:
    may_decide = caller.may(Scope.DECIDE)
    return render("card.html", approval=approval, place=place, notice=notice, may_decide=may_decide, caller=caller)
