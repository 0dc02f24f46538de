"""The operators' pages at `/operator`: which conversations people hold, and one of them with a box to answer in.

Everything works without scripts: each button is a form that changes and leads back. With scripts they stay current.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from placet.contracts.errors import Refused
from placet.contracts.messages.conversations import TEXT_MAX
from placet.contracts.visitors import visitor_id
from placet.gateway.conversations.access import no_conversation
from placet.gateway.conversations.items import READ_BY_PEOPLE
from placet.gateway.conversations.store import find_conversation, tail
from placet.gateway.dialects.posted import MESSAGE_ID
from placet.gateway.http.callers import After, DepsOf, PathId
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.operators.routes import HeldState, list_them
from placet.gateway.operators.service import Answer
from placet.gateway.store import reading
from placet.gateway.web.inbox import led_back
from placet.gateway.web.render import PageRoute, Posted, SignedIn, field, render
from placet.gateway.web.words import title_of
from placet.surfaces.texts import text as translated

#: Number of an item, as a page has it.
_SEEN = re.compile(r"[0-9]{1,15}")

router = APIRouter(prefix="/operator", include_in_schema=False, route_class=PageRoute)

#: Conversations on a page, and items of one conversation.
PAGE = 25
ITEMS_MAX = 200

Narrowed = Annotated[HeldState | None, Query()]


@router.get("")
async def show_list(deps: DepsOf, caller: SignedIn, holder: Narrowed = None, cursor: After = None) -> HTMLResponse:
    """Show the conversations that people hold, those held last first."""
    page = await list_them(deps, caller, holder, PAGE, cursor)
    return render(
        "operator.html",
        caller=caller,
        here="operator",
        found=page.items,
        narrowed=holder or "",
        cursor=cursor,
        address=_address(holder, cursor),
        newest=_address(holder, None),
        following=_address(holder, page.next) if page.next else None,
    )


@router.get("/{conversation_id}")
async def show(deps: DepsOf, caller: SignedIn, conversation_id: PathId) -> HTMLResponse:
    """Show one conversation: what was said, who answers, and what this operator can do."""
    return await _page(deps, caller, conversation_id)


@router.post("/{conversation_id}/takeover")
async def take_over(deps: DepsOf, caller: SignedIn, conversation_id: PathId, _: Posted) -> Response:
    """Take a conversation over; where another operator was faster, the page says who."""
    return await _after(deps.operators.take_over(caller, conversation_id), deps, caller, conversation_id)


@router.post("/{conversation_id}/release")
async def release(deps: DepsOf, caller: SignedIn, conversation_id: PathId, _: Posted) -> Response:
    """Give a conversation back to the agent."""
    return await _after(deps.operators.release(caller, conversation_id), deps, caller, conversation_id)


@router.post("/{conversation_id}/end")
async def end(deps: DepsOf, caller: SignedIn, conversation_id: PathId, _: Posted) -> Response:
    """End a conversation."""
    caller.need(Scope.OPERATE)
    await deps.posts.end(caller, conversation_id)
    return _back(conversation_id)


@router.post("/{conversation_id}/messages")
async def answer(deps: DepsOf, caller: SignedIn, conversation_id: PathId, form: Posted) -> Response:
    """Answer in a conversation; the page keeps a text that could not be sent."""
    caller.need(Scope.OPERATE)
    text, seen = field(form, "text").strip(), field(form, "seen")
    fault = _fault_of(text, caller.language)
    try:
        if fault is None:
            # Of what no page of ours sends nothing is kept.
            named = MESSAGE_ID.fullmatch(field(form, "message_id"))
            wish = Answer(text, named and named[0], int(seen) if _SEEN.fullmatch(seen) else None)
            known = await deps.log.tail(caller.tenant, conversation_id, 1)
            await deps.operators.answer(caller, conversation_id, wish)
            await deps.log.appears(caller, conversation_id, known[-1].id if known else 0)
    except Refused as refusal:
        fault = refusal
    if fault:
        return await _refused(deps, caller, conversation_id, fault, text)
    return led_back(f"/operator/{conversation_id}", sent="message")


async def _after(move: Awaitable[object], deps: DepsOf, caller: Caller, conversation_id: str) -> Response:
    try:
        await move
    except Refused as refusal:
        return await _refused(deps, caller, conversation_id, refusal)
    return _back(conversation_id)


def _fault_of(text: str, language: str) -> Refused | None:
    if text and len(text) <= TEXT_MAX and "\x00" not in text:
        return None
    words = translated(language, "Write something, at most {count} characters.", count=TEXT_MAX)
    return Refused(words, status=400, kind="invalid-text")


async def _refused(deps: DepsOf, caller: Caller, conversation_id: str, refusal: Refused, text: str = "") -> Response:
    if refusal.status in {403, 404}:
        raise refusal
    return await _page(deps, caller, conversation_id, refusal, text)


async def _page(
    deps: DepsOf, caller: Caller, conversation_id: str, fault: Refused | None = None, text: str = ""
) -> HTMLResponse:
    caller.need(Scope.OPERATE)
    place = (caller.tenant, conversation_id)
    async with reading(deps.runtime.database) as connection:
        conversation = await find_conversation(connection, *place)
        if conversation is None or not caller.sees(conversation_id):
            raise no_conversation()
        items = await tail(connection, *place, ITEMS_MAX, READ_BY_PEOPLE)
    return render(
        "operator_talk.html",
        fault.status if fault else 200,
        caller=caller,
        here="operator",
        conversation=conversation,
        visitor=visitor_id(conversation.visitor, conversation_id),
        since=conversation.held_since,
        reason=conversation.held_reason,
        items=items,
        seen=items[-1].id if items else 0,
        mine=conversation.operator == caller.person,
        fault=title_of(fault, caller.language) if fault else "",
        text=text,
    )


def _address(holder: HeldState | None, cursor: str | None) -> str:
    """Return the address of a list."""
    query = urlencode({name: value for name, value in (("holder", holder), ("cursor", cursor)) if value})
    return f"/operator?{query}" if query else "/operator"


def _back(conversation_id: str) -> Response:
    return RedirectResponse(f"/operator/{conversation_id}", 303)
