"""The inbox at `/inbox`: what waits, found by filters and decided one by one or several at once.

Everything works without scripts: filters are a form that asks, decisions are forms that change and lead back.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import StringConstraints

from placet.contracts.errors import Refused
from placet.contracts.messages.approvals import REASON_MAX
from placet.gateway.approvals.decisions import Ask, in_words
from placet.gateway.approvals.forms import BATCH_MAX
from placet.gateway.approvals.listing import KEYSET, Wanted, list_page, survey_of, with_surfaced
from placet.gateway.approvals.search import COUNT_MAX
from placet.gateway.approvals.store.saved_views import NAME_MAX, VIEWS_MAX, list_views, remove_view, save_view
from placet.gateway.approvals.survey import GROUPS, Survey, in_groups
from placet.gateway.approvals.together import decide_in_turn, not_in_turn
from placet.gateway.conversations.access import writing
from placet.gateway.http.callers import DepsOf, PathId
from placet.gateway.http.deps import Deps
from placet.gateway.http.pages import cursor_of
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.store import reading
from placet.gateway.store.paging import encode_cursor
from placet.gateway.store.read import Row, load_approvals
from placet.gateway.web.asked import ALL, PAGE, Asked, asked_of, chips_of, facets_of, orders, said
from placet.gateway.web.cards import do_as_asked
from placet.gateway.web.render import PageRoute, Posted, SignedIn, field, render
from placet.gateway.web.shown import tools_of
from placet.gateway.web.waiting import DIFFERING_MAX, Group, Waiting, cards_of, grouped, waiting_of
from placet.surfaces.texts import text

router = APIRouter(prefix="/inbox", include_in_schema=False, route_class=PageRoute)

_ITEM = re.compile(r"([A-Za-z0-9_-]{1,64})\.([0-9a-f]{64})\.([0-9]{1,9})(?:\.([0-9]{1,16}))?")

#: Characters of the address of a list that is kept.
ADDRESS_MAX = 2_000

Told = Annotated[str, Query(pattern=r"^[A-Za-z0-9_-]{0,64}$")]
Seen = Annotated[
    list[Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}\.[0-9]{1,9}$")]],
    Query(min_length=1, max_length=PAGE),
]


@router.get("")
async def show(deps: DepsOf, caller: SignedIn, request: Request, done: Told = "", sent: Told = "") -> HTMLResponse:
    """Show what waits for somebody, or everything that fits."""
    caller.need(Scope.DECIDE)
    asked, now = asked_of(request.query_params, caller.language), datetime.now(UTC)
    found = await _found(deps, caller, asked)
    told = await _cards(deps, caller, [done or sent]) if done or sent else []
    async with reading(deps.runtime.database) as connection:
        views = await list_views(connection, caller.tenant, caller.person)
    return render(
        "inbox.html",
        400 if asked.query is None else 200,
        caller=caller,
        here="inbox",
        asked=asked,
        sections=found.sections,
        differing_max=DIFFERING_MAX,
        following=found.following,
        total=found.survey.total,
        cards=sum(len(group.cards) for section in found.sections for group in section.groups),
        facets=facets_of(asked, found.survey, now, caller),
        chips=chips_of(asked, caller),
        orders=orders(found.survey, asked.order),
        looked_through=COUNT_MAX if asked.order not in KEYSET and not found.survey.complete else 0,
        choices_max=ALL,
        choosable=sum(
            len(each) for section in found.sections for group in section.groups if len(each := group.together) > 1
        ),
        views=views,
        view=next((name for name, address in views.items() if address == asked.link()), ""),
        done=next(iter(told), None),
        sent=bool(sent),
        now=now,
        undo_seconds=deps.settings.gateway_undo_seconds,
        back=asked.link(cursor=asked.cursor, whole="1" if asked.whole else ""),
    )


@router.get("/cards")
async def cards(deps: DepsOf, caller: SignedIn, seen: Seen) -> HTMLResponse:
    """Show those cards that are another revision than the one that was seen, `ID.REVISION`, or wait no more."""
    caller.need(Scope.DECIDE)
    revisions = dict(each.split(".") for each in seen)
    rows = await _rows(deps, caller, list(revisions))
    news = [row for row in rows if row["state"] != "pending" or str(row["revision"]) != revisions[row["approval_id"]]]
    found = await cards_of(deps, caller, news)
    return render("inbox_cards.html", cards=found, caller=caller, back="/inbox")


@router.post("/{approval_id}/card")
async def decide_in_place(deps: DepsOf, caller: SignedIn, approval_id: PathId, form: Posted) -> HTMLResponse:
    """Decide a card of the list, and show it as it is then; what went wrong stands on the card."""
    caller.need(Scope.DECIDE)
    notice = await do_as_asked(deps, caller, await deps.decisions.find(caller, approval_id), form)
    (found,) = await cards_of(deps, caller, [await deps.decisions.find(caller, approval_id)])
    return render("inbox_card.html", card=found, caller=caller, back="/inbox", notice=notice)


@router.post("/decisions")
async def decide_together(deps: DepsOf, caller: SignedIn, form: Posted) -> HTMLResponse:
    """Decide what was checked, each with the digest that was shown, and say what became of each."""
    caller.need(Scope.DECIDE)
    language, verb = caller.language, field(form, "decision")
    reason = field(form, "reason").strip()[:REASON_MAX]
    items = [_item(str(each), verb, reason) for each in form.getlist("item")]
    if verb not in {"approve", "deny"} or not items or len(items) > BATCH_MAX or None in items:
        words = text(language, "Select at least one card and at most {count}.", count=BATCH_MAX)
        raise Refused(words, status=400, kind="invalid-batch")
    chosen = dict(each for each in items if each is not None)
    cards = await _cards(deps, caller, list(chosen))

    async def fault_of(number: int, *, unsure: bool) -> tuple[str, bool]:
        card = cards[number]
        if card.alone:
            why = text(language, card.alone)
            return text(language, "Not decided: {why}, so it must be decided on its own.", why=why), False
        try:
            if unsure:
                raise not_in_turn()
            decided = await deps.decisions.decide(caller, card.approval.id, chosen[card.approval.id])
        except Refused as refusal:
            return text(language, "Not decided: {why}", why=in_words(refusal, language, caller.people)), False
        return "" if decided else text(language, "Sent. The answer is taking longer than usual."), decided is None

    approved = [card.approval.id if verb == "approve" and not card.alone else "" for card in cards]
    faults = await decide_in_turn(deps.runtime.database, caller.tenant, approved, fault_of)
    now = {card.approval.id: card for card in await _cards(deps, caller, list(chosen))}
    return render(
        "batch.html",
        caller=caller,
        here="inbox",
        outcomes=[(now.get(card.approval.id, card), fault) for card, fault in zip(cards, faults, strict=True)],
        missing=len(chosen) - len(cards),
        back=back_of(field(form, "back")),
    )


@router.post("/views")
async def save_list(deps: DepsOf, caller: SignedIn, form: Posted) -> Response:
    """Keep the list that the form was on, under the name that was typed, and lead back to it."""
    caller.need(Scope.DECIDE)
    name, address = " ".join(field(form, "name").split()), back_of(field(form, "back"))
    if not name or len(name) > NAME_MAX or len(address) > ADDRESS_MAX:
        words = text(caller.language, "A view needs a name of at most {count} characters.", count=NAME_MAX)
        raise Refused(words, status=400, kind="invalid-view")
    async with writing(deps.runtime.units, caller) as work:
        kept = await save_view(work.connection, caller.tenant, caller.person, name, address)
    if not kept:
        words = text(caller.language, "You keep {count} views already: delete one first.", count=VIEWS_MAX)
        raise Refused(words, status=409, kind="too-many-views")
    if kept != address:
        words = text(caller.language, "You keep another view of that name: delete it first, or choose another name.")
        raise Refused(words, status=409, kind="view-exists")
    return RedirectResponse(address, 303)


@router.post("/views/delete")
async def forget_list(deps: DepsOf, caller: SignedIn, form: Posted) -> Response:
    """Forget a view, and lead back to the list."""
    caller.need(Scope.DECIDE)
    async with writing(deps.runtime.units, caller) as work:
        await remove_view(work.connection, caller.tenant, caller.person, field(form, "name"))
    return RedirectResponse(back_of(field(form, "back")), 303)


def back_of(path: str) -> str:
    """Return where a form leads back to: a place in the inbox, whatever the form says."""
    return path if path == "/inbox" or path.startswith(("/inbox?", "/inbox/")) else "/inbox"


def led_back(path: str, **told: str) -> Response:
    """Lead to a page with what it shall tell."""
    joint = "&" if "?" in path else "?"
    return RedirectResponse(f"{path}{joint}{urlencode(told)}", 303)


@dataclass(frozen=True, slots=True)
class Section:
    """The cards of a page that share what the list is grouped by; all of them where it is not grouped."""

    #: What they share, as people read it; empty where the list is not grouped.
    label: str
    #: How many there are in all of the list; `+` where there may be more.
    count: str
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """What a list shows."""

    survey: Survey = Survey((), complete=True)  # noqa: RUF009 - never changed
    sections: tuple[Section, ...] = ()
    #: Address of the next page; None on the last.
    following: str | None = None


async def _found(deps: Deps, caller: Caller, asked: Asked) -> Found:
    """Return what an address asks for: one page of it, and all of it looked over."""
    filters = asked.query.filters(caller) if asked.query else None
    if asked.query is None or filters is None:
        return Found()
    after, directory, limit = cursor_of(asked.query.cursor), deps.directory(), ALL if asked.whole else PAGE
    tools = await tools_of(deps.settings.rulebook)
    async with reading(deps.runtime.database) as connection:
        filters = await with_surfaced(connection, caller, filters)
        wanted = Wanted(filters, asked.mine, asked.order, asked.group)
        survey = await survey_of(connection, caller, directory, wanted)
        page = await list_page(connection, caller, directory, wanted, survey, after=after, limit=limit)
        cards = await waiting_of(connection, caller, page.rows, directory, tools)
    following = asked.link(cursor=encode_cursor(page.next)) if page.next else None
    return Found(survey, _sections(asked, survey, page.rows, cards, caller), following)


def _sections(
    asked: Asked, survey: Survey, rows: Sequence[Row], cards: Sequence[Waiting], reader: Caller
) -> tuple[Section, ...]:
    if not asked.group:
        return (Section("", "", grouped(cards, whole=asked.whole)),) if cards else ()
    by_id = {card.approval.id: card for card in cards}
    column, more = GROUPS[asked.group], "" if survey.complete else "+"
    counts = Counter(row[column] for row in survey.rows)
    return tuple(
        Section(
            said(asked.group, each[0][column], reader),
            f"{counts[each[0][column]] or len(each)}{more}",
            grouped((by_id[row["approval_id"]] for row in each), whole=asked.whole),
        )
        for each in in_groups(rows, asked.group)
    )


async def _cards(deps: Deps, caller: Caller, approval_ids: list[str]) -> list[Waiting]:
    """Return the cards of these approvals that exist for the caller, in this order."""
    return list(await cards_of(deps, caller, await _rows(deps, caller, approval_ids)))


async def _rows(deps: Deps, caller: Caller, approval_ids: list[str]) -> list[Row]:
    async with reading(deps.runtime.database) as connection:
        found = await load_approvals(connection, [(caller.tenant, each) for each in approval_ids])
    rows = [found[key] for each in approval_ids if (key := (caller.tenant, each)) in found]
    return [row for row in rows if caller.sees(row["conversation_id"])]


def _item(checked: str, verb: str, reason: str) -> tuple[str, Ask] | None:
    """Return what a checked card asks, by its approval; None for what no card of ours says."""
    found = _ITEM.fullmatch(checked)
    if found is None:
        return None
    restored_at = datetime.fromtimestamp(int(found[4]) / 1_000_000, UTC) if found[4] else None
    return found[1], Ask("approve" if verb == "approve" else "deny", found[2], reason, int(found[3]), restored_at)
