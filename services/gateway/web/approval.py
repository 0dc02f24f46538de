"""One approval at `/inbox/{id}`: everything about it, and everything that can be done with it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse
from starlette.datastructures import FormData

from placet.contracts.canonical import readable_text
from placet.contracts.errors import Refused
from placet.domain.approvers import name_of
from placet.gateway.approvals.decisions import in_words
from placet.gateway.approvals.details import ApprovalDetailOut, detail_of
from placet.gateway.conversations.store import end_of_call, find_conversation, newest_number
from placet.gateway.http.callers import DepsOf, PathId
from placet.gateway.http.deps import Deps
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.store import reading
from placet.gateway.store.read import Row
from placet.gateway.web.decision_form import REDRAW, wish_of
from placet.gateway.web.editing import edit_form
from placet.gateway.web.inbox import Told, back_of, led_back
from placet.gateway.web.people import suggested
from placet.gateway.web.plans import MoreIsLeftOut, left_in, without_left_out
from placet.gateway.web.render import PageRoute, Posted, SignedIn, field, render
from placet.gateway.web.shown import tools_of
from placet.gateway.web.waiting import waiting_of
from placet.gateway.web.words import lined
from placet.surfaces.card import ROWS_MAX
from placet.surfaces.texts import text

router = APIRouter(prefix="/inbox", include_in_schema=False, route_class=PageRoute)

#: What a person may be told here instead of an error of its own.
_TOLD_HERE = frozenset({400, 403, 409})
_RECORDS = ("proposed", "reviewed", "approved", "executed")


@dataclass(frozen=True, slots=True)
class RecordLine:
    """One argument in the four records, in their order; None where a record does not have it."""

    name: str
    texts: tuple[str | None, ...]
    #: Whether records that have been made do not agree.
    differs: bool


@router.get("/{approval_id}")
async def show(deps: DepsOf, caller: SignedIn, approval_id: PathId, done: Told = "", sent: Told = "") -> HTMLResponse:
    """Show one approval with its whole story and its forms."""
    caller.need(Scope.DECIDE)
    row = await deps.decisions.find(caller, approval_id)
    return await _page(deps, caller, row, Aside(done, sent))


@router.post("/{approval_id}")
async def decide(deps: DepsOf, caller: SignedIn, approval_id: PathId, form: Posted) -> Response:
    """Do what a form of the card asks, and lead back; what cannot be done is said on the card as it is now."""
    caller.need(Scope.DECIDE)
    row = await deps.decisions.find(caller, approval_id)
    if field(form, "decision") == REDRAW:
        return await _page(deps, caller, row, Aside(typed=form))
    try:
        wish = await asyncio.to_thread(wish_of, form, row, deps.settings.rulebook, caller.language)
        ask = await without_left_out(deps, row, left_in(form), wish.ask())
        decided = await deps.decisions.decide(caller, approval_id, ask)
    except MoreIsLeftOut as more:
        aside = Aside(fault=more.said(caller.language), typed=form, left=more.entries)
        return await _page(deps, caller, row, aside, 409)
    except Refused as refusal:
        if refusal.status not in _TOLD_HERE:
            raise
        now = await deps.decisions.find(caller, approval_id)
        # What was marked stays so: sent again, the form must not approve more than before.
        aside = Aside(fault=_said(refusal, caller), typed=form, left=left_in(form))
        return await _page(deps, caller, now, aside, refusal.status)
    back = back_of(field(form, "back") or f"/inbox/{approval_id}")
    if back != f"/inbox/{approval_id}":
        return led_back(back, **{"done" if decided else "sent": approval_id})
    return led_back(back, **{"done" if decided else "sent": wish.decision})


@dataclass(frozen=True, slots=True)
class Aside:
    """What a page says beside the approval itself."""

    done: str = ""
    sent: str = ""
    fault: str = ""
    #: What somebody sent that could not be done.
    typed: FormData | None = None
    #: Entries of a commit that are marked to be left out.
    left: Collection[str] = ()


async def _page(deps: Deps, caller: Caller, row: Row, aside: Aside, status: int = 200) -> HTMLResponse:
    tools = await tools_of(deps.settings.rulebook)
    place = (row["tenant"], row["conversation_id"])
    async with reading(deps.runtime.database) as connection:
        (card,) = await waiting_of(connection, caller, [row], deps.directory(), tools)
        # In this order, for each may go on meanwhile: what the page does not show, its stream tells.
        newest = await newest_number(connection, *place) if await find_conversation(connection, *place) else None
        ended = await end_of_call(connection, place, row["call_id"])
    detail = await detail_of(deps.runtime.database, row, deps.directory())
    people = await suggested(deps, caller, row["deciders"] or ())
    # Nobody delegates to themselves, nor to whom four eyes keep out.
    barred = deps.directory().excluded(card.rule.exclude, row["requester"], row["agent"]) | {name_of(caller.person)}
    edit = await edit_form(card, detail, row, deps.settings.rulebook, aside.typed)
    return render(
        "approval.html",
        status,
        caller=caller,
        here="inbox",
        card=card,
        approval=detail,
        records=_records(detail),
        rows_max=ROWS_MAX,
        ended=ended,
        result=lined(ended["data"]) if ended and ended["data"] is not None else "",
        blocks=ended["ui_blocks"] if ended else [],
        newest=newest,
        edit=edit,
        others=[each for each in people if each.active and each.id not in barred],
        typed_reason=field(aside.typed, "reason") if aside.typed is not None and not (edit and edit.open) else "",
        fault=aside.fault,
        left=aside.left,
        done=aside.done,
        sent=bool(aside.sent),
        undo_seconds=deps.settings.gateway_undo_seconds,
        back="",
    )


def _said(refusal: Refused, reader: Caller) -> str:
    if refusal.kind == "stale-card":
        words = "This card changed after it was shown to you. Nothing was decided. Review the current version."
        return text(reader.language, words)
    return in_words(refusal, reader.language, reader.people)


def _records(approval: ApprovalDetailOut) -> tuple[RecordLine, ...]:
    """Return the four records argument by argument; none where one is no object that may be seen, or has very many."""
    made = [getattr(approval.records, name) for name in _RECORDS]
    known = [record.arguments if record is not None else {} for record in made]
    if not all(isinstance(each, dict) for each in known):
        return ()
    names = dict.fromkeys(name for each in known for name in each)
    if len(names) > ROWS_MAX:
        return ()
    return tuple(
        RecordLine(name, tuple(lined(each[name]) if name in each else None for each in known), _differ(made, name))
        for name in names
    )


def _differ(made: Sequence[Any], name: str) -> bool:
    values = [readable_text(each.arguments[name]) if name in each.arguments else None for each in made if each]
    return len(set(values)) > 1
