"""Comments on an approval as a fragment: on its page, beside the list, and on the card in the chat."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from placet.gateway.approvals.comments import CommentIn, comment, comments_of
from placet.gateway.http.callers import DepsOf, PathId
from placet.gateway.http.deps import Deps
from placet.gateway.identity.auth import Caller
from placet.gateway.store.read import Row
from placet.gateway.web.render import PageRoute, Posted, SignedIn, field, form_model, render

router = APIRouter(prefix="/ui/approvals", include_in_schema=False)
#: What a browser without scripts posts to: its errors are pages.
page_router = APIRouter(prefix="/inbox", include_in_schema=False, route_class=PageRoute)

Place = Annotated[Literal["page", "list", "chat"], Query()]


class CommentForm(CommentIn):
    """A comment as a form sends it."""

    #: What a form sends are texts.
    question: bool = False


@router.get("/{approval_id}/comments")
async def show(deps: DepsOf, caller: SignedIn, approval_id: PathId, place: Place = "page") -> HTMLResponse:
    """Show what people said."""
    return await _shown(deps, caller, await deps.decisions.find(caller, approval_id), place)


@router.post("/{approval_id}/comments")
async def write(
    deps: DepsOf, caller: SignedIn, approval_id: PathId, form: Posted, place: Place = "page"
) -> HTMLResponse:
    """Keep a comment, and show all of them."""
    row = await deps.decisions.find(caller, approval_id)
    if field(form, "text").strip():
        await comment(deps.runtime.units, caller, row, form_model(form, CommentForm))
    return await _shown(deps, caller, row, place)


@page_router.post("/{approval_id}/comments")
async def write_and_return(deps: DepsOf, caller: SignedIn, approval_id: PathId, form: Posted) -> Response:
    """Keep a comment, and lead back to the approval."""
    row = await deps.decisions.find(caller, approval_id)
    await comment(deps.runtime.units, caller, row, form_model(form, CommentForm))
    return RedirectResponse(f"/inbox/{approval_id}", 303)


async def _shown(deps: Deps, caller: Caller, row: Row, place: str) -> HTMLResponse:
    comments = await comments_of(deps, caller, row)
    values = {"comments": comments, "approval_id": row["approval_id"], "asker": row["requester"], "place": place}
    return render("comments.html", caller=caller, **values)
