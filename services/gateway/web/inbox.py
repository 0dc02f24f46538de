"""The inbox at `/inbox`: what waits, found by filters and decided one by one or several at once.

Everything works without scripts: filters are a form that asks, decisions are forms that change and lead back.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import ValidationError

from placet.contracts.errors import Refused
from placet.contracts.messages.approvals import REASON_MAX
from placet.contracts.messages.tool_calls import Category
from placet.gateway.approvals.decisions import Ask, in_words
from placet.gateway.approvals.filters import InboxQuery
from placet.gateway.approvals.forms import BATCH_MAX
from placet.gateway.approvals.mine import count_mine, list_mine
from placet.gateway.approvals.search import COUNT_MAX
from placet.gateway.approvals.store.inbox import count_approvals, list_approvals
from placet.gateway.http.callers import DepsOf, PathId
from placet.gateway.http.deps import Deps
from placet.gateway.http.pages import cursor_of, next_of
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.store import reading
from placet.gateway.store.paging import encode_cursor
from placet.gateway.store.read import Row, load_approvals
from placet.gateway.web.cards import CardVoteIn, made
from placet.gateway.web.render import PageRoute, Posted, SignedIn, field, form_model, render, set_up_was_run
from placet.gateway.web.shown import tools_of
from placet.gateway.web.waiting import DIFFERING_MAX, Waiting, grouped, waiting_of
from placet.surfaces.texts import LANGUAGES, text

router = APIRouter(prefix="/inbox", include_in_schema=False, route_class=PageRoute)

#: Cards on a page.
PAGE = 25
_ASKED = ("state", "tool", "agent", "conversation", "category", "older_than", "q")

_ITEM = re.compile(r"([A-Za-z0-9_-]{1,64})\.([0-9a-f]{64})\.([0-9]{1,9})")

Told = Annotated[str, Query(pattern=r"^[A-Za-z0-9_-]{0,64}$")]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address asks for: the filters as they were typed, and what they mean."""

    mine: bool
    typed: Mapping[str, str]
    cursor: str
    #: None where what was typed means nothing; `fault` then says why.
    query: InboxQuery | None
    fault: str = ""

    def link(self, **changes: str) -> str:
        """Return the address of this list with changes; an empty value leaves its part out."""
        view = {} if self.mine else {"view": "all"}
        given = {**view, **self.typed, **changes}
        query = urlencode({name: value for name, value in given.items() if value})
        return f"/inbox?{query}" if query else "/inbox"

    @property
    def narrowed(self) -> bool:
        """Whether any filter is set."""
        return bool(self.typed)

    @property
    def finely(self) -> bool:
        """Whether a filter is set that is folded away otherwise."""
        return bool(self.typed.keys() - {"q", "state"})


def asked_of(parameters: Mapping[str, str], language: str = LANGUAGES[0]) -> Asked:
    """Return what an address asks for; empty fields of the form ask for nothing. A fault is told in `language`."""
    mine, cursor = parameters.get("view") != "all", parameters.get("cursor", "")
    typed = {name: value.strip() for name in _ASKED if (value := parameters.get(name, "")).strip()}
    if mine:
        typed.pop("state", None)
    try:
        query = InboxQuery.model_validate({**typed, "mine": mine, "limit": PAGE, "cursor": cursor or None})
    except ValidationError as error:
        wrong = ", ".join(sorted({str(each["loc"][0]).replace("_", " ") for each in error.errors()}))
        fault = text(language, "Nothing can be found with this: {wrong}.", wrong=wrong)
        return Asked(mine, typed, cursor, None, fault)
    return Asked(mine, typed, cursor, query)


@router.get("")
async def show(deps: DepsOf, caller: SignedIn, request: Request, done: Told = "", sent: Told = "") -> HTMLResponse:
    """Show what waits for somebody, or everything that fits."""
    caller.need(Scope.DECIDE)
    asked = asked_of(request.query_params, caller.language)
    cards, following, total = await _found(deps, caller, asked)
    told = await _cards(deps, caller, [done or sent]) if done or sent else []
    return render(
        "inbox.html",
        400 if asked.query is None else 200,
        language=caller.language,
        caller=caller,
        here="inbox",
        asked=asked,
        groups=grouped(cards),
        differing_max=DIFFERING_MAX,
        following=following,
        total=total,
        cards=len(cards),
        done=next(iter(told), None),
        sent=bool(sent),
        categories=list(Category),
        set_up=set_up_was_run(),
        undo_seconds=deps.settings.gateway_undo_seconds,
        back=asked.link(cursor=asked.cursor),
    )


@router.get("/{approval_id}/card")
async def card(deps: DepsOf, caller: SignedIn, approval_id: PathId) -> HTMLResponse:
    """Show one card of the list as it is now."""
    caller.need(Scope.DECIDE)
    row = await deps.decisions.find(caller, approval_id)
    (found,) = await _with_votes(deps, caller, [row])
    return render("inbox_card.html", language=caller.language, card=found, caller=caller, back="/inbox")


@router.post("/{approval_id}/card")
async def decide_in_place(deps: DepsOf, caller: SignedIn, approval_id: PathId, form: Posted) -> HTMLResponse:
    """Decide a card of the list, and show it as it is then; what went wrong stands on the card."""
    caller.need(Scope.DECIDE)
    vote = form_model(form, CardVoteIn)
    notice = await made(deps, caller, approval_id, Ask(vote.decision, vote.digest, vote.reason.strip(), vote.revision))
    (found,) = await _with_votes(deps, caller, [await deps.decisions.find(caller, approval_id)])
    values = {"card": found, "caller": caller, "back": "/inbox", "notice": notice}
    return render("inbox_card.html", language=caller.language, **values)


@router.post("/decisions")
async def decide_together(deps: DepsOf, caller: SignedIn, form: Posted) -> HTMLResponse:
    """Decide what was checked, each with the digest that was shown, and say what became of each."""
    caller.need(Scope.DECIDE)
    language, verb = caller.language, field(form, "decision")
    reason = field(form, "reason").strip()[:REASON_MAX]
    items = [_item(str(each)) for each in form.getlist("item")]
    if verb not in {"approve", "deny"} or not items or len(items) > BATCH_MAX or None in items:
        words = text(language, "Check at least one card and at most {count}.", count=BATCH_MAX)
        raise Refused(words, status=400, kind="invalid-batch")
    chosen = {each[0]: each for each in items if each is not None}
    cards = await _cards(deps, caller, list(chosen))

    async def outcome(card: Waiting) -> tuple[Waiting, str]:
        _, digest, revision = chosen[card.approval.id]
        if card.alone:
            why = text(language, card.alone)
            return card, text(language, "Not decided: {why}, so it is decided by itself.", why=why)
        try:
            ask = Ask("approve" if verb == "approve" else "deny", digest, reason, revision)
            decided = await deps.decisions.decide(caller, card.approval.id, ask)
        except Refused as refusal:
            return card, text(language, "Not decided: {why}", why=in_words(refusal, language))
        return card, "" if decided else text(language, "Sent. The answer takes its time.")

    outcomes = await asyncio.gather(*(outcome(card) for card in cards))
    now = {card.approval.id: card for card in await _cards(deps, caller, list(chosen))}
    return render(
        "batch.html",
        language=caller.language,
        caller=caller,
        here="inbox",
        outcomes=[(now.get(card.approval.id, card), fault) for card, fault in outcomes],
        missing=len(chosen) - len(cards),
        set_up=set_up_was_run(),
        back=back_of(field(form, "back")),
    )


def back_of(path: str) -> str:
    """Return where a form leads back to: a place in the inbox, whatever the form says."""
    return path if path == "/inbox" or path.startswith(("/inbox?", "/inbox/")) else "/inbox"


def led_back(path: str, **told: str) -> Response:
    """Lead to a page with what it shall tell."""
    joint = "&" if "?" in path else "?"
    return RedirectResponse(f"{path}{joint}{urlencode(told)}", 303)


async def _found(deps: Deps, caller: Caller, asked: Asked) -> tuple[tuple[Waiting, ...], str | None, int]:
    """Return a page of cards, the address of the next one, and how many there are in all, at most COUNT_MAX + 1."""
    filters = asked.query.filters(caller) if asked.query else None
    if asked.query is None or filters is None:
        return (), None, 0
    after, directory = cursor_of(asked.query.cursor), deps.directory()
    tools = await tools_of(deps.settings.rulebook)
    async with reading(deps.runtime.database) as connection:
        if asked.mine:
            page = await list_mine(connection, caller, directory, filters, after=after, limit=PAGE)
            rows, following = page.rows, encode_cursor(page.next) if page.next else None
        else:
            found = await list_approvals(connection, caller.tenant, filters, after=after, limit=PAGE + 1)
            rows, following = found[:PAGE], next_of(found, PAGE, "created_at", "approval_id")
        if not following and not asked.cursor:
            total = len(rows)
        elif asked.mine:
            total = await count_mine(connection, caller, directory, filters)
        else:
            total = await count_approvals(connection, caller.tenant, filters, most=COUNT_MAX + 1)
        cards = await waiting_of(connection, caller, rows, directory, tools)
    return cards, asked.link(cursor=following) if following else None, total


async def _cards(deps: Deps, caller: Caller, approval_ids: list[str]) -> list[Waiting]:
    """Return the cards of these approvals that exist for the caller, in this order."""
    async with reading(deps.runtime.database) as connection:
        found = await load_approvals(connection, [(caller.tenant, each) for each in approval_ids])
    rows = [found[key] for each in approval_ids if (key := (caller.tenant, each)) in found]
    return list(await _with_votes(deps, caller, [row for row in rows if caller.sees(row["conversation_id"])]))


async def _with_votes(deps: Deps, caller: Caller, rows: list[Row]) -> tuple[Waiting, ...]:
    tools = await tools_of(deps.settings.rulebook)
    async with reading(deps.runtime.database) as connection:
        return await waiting_of(connection, caller, rows, deps.directory(), tools)


def _item(text: str) -> tuple[str, str, int] | None:
    """Return approval, digest and revision of a checked card; None for what no card of ours says."""
    found = _ITEM.fullmatch(text)
    return (found[1], found[2], int(found[3])) if found else None
