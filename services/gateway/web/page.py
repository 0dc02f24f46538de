"""The page itself, its one event stream, and its composer for who has no scripts."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse

from placet.contracts.errors import Refused
from placet.contracts.messages.conversations import TEXT_MAX
from placet.gateway.conversations.access import find_for, no_conversation
from placet.gateway.conversations.items import Item
from placet.gateway.conversations.live import Topic
from placet.gateway.conversations.service import Plan, Writing, open_conversation
from placet.gateway.conversations.sse import BEGUN
from placet.gateway.conversations.store import recent_conversations, tail
from placet.gateway.conversations.streaming import After, LastEventId, start_of, streaming
from placet.gateway.http.callers import DepsOf
from placet.gateway.identity.keys import Scope
from placet.gateway.store import reading
from placet.gateway.web import words
from placet.gateway.web.render import PageRoute, Posted, SignedIn, field, render
from placet.gateway.web.shown import tools_of
from placet.gateway.web.staged import staged_values
from placet.gateway.web.suggestions import suggestions
from placet.surfaces.texts import text as translated

router = APIRouter(include_in_schema=False)
#: What a browser's address leads to: its errors are pages.
page_router = APIRouter(include_in_schema=False, route_class=PageRoute)

#: Where who has no conversations of their own begins.
_PLACES = {Scope.DECIDE: "/inbox", Scope.OPERATE: "/operator", Scope.ADMIN: "/admin"}
RECENT_MAX = 20
#: Messages of a conversation that a browser without scripts shows.
SAID_MAX = 200
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

ConversationId = Annotated[str, Query(alias="conversation", pattern=r"^[A-Za-z0-9_-]{0,64}$")]


@page_router.api_route("/", methods=["GET", "HEAD"])
async def show(deps: DepsOf, caller: SignedIn, conversation_id: ConversationId = "") -> Response:
    """Show the chat on the left and what waits for people on the right; who never writes is led to what they do."""
    if not conversation_id and not caller.may(Scope.CHAT):
        for scope, page in _PLACES.items():
            if caller.may(scope):
                return RedirectResponse(page, 303)
    async with reading(deps.runtime.database) as connection:
        recent = await recent_conversations(connection, caller.tenant, caller.person, RECENT_MAX)
        if conversation_id and not await find_for(connection, caller, conversation_id):
            raise no_conversation()
        place = (caller.tenant, conversation_id)
        said = await tail(connection, *place, SAID_MAX, ["message"]) if conversation_id else []
        staged = await staged_values(connection, deps, caller, conversation_id)
    agents = deps.agents.of(caller.tenant)
    tools = () if conversation_id else await tools_of(deps.settings.rulebook)
    return render(
        "page.html",
        here="chat",
        notice="",
        recent=recent,
        agents=agents,
        suggested=suggestions(agents, tools),
        said=[item for item in said if item.data["text"]],
        may_decide=caller.may(Scope.DECIDE),
        **staged,
    )


@page_router.post("/ui/messages")
async def write(deps: DepsOf, caller: SignedIn, form: Posted) -> Response:
    """Post what was written and lead back to it; without a conversation one begins, with the agent that was chosen."""
    text, conversation_id, agent = (field(form, name).strip() for name in ("text", "conversation", "agent"))
    if not text or len(text) > TEXT_MAX or not all(_ID.fullmatch(each) for each in (conversation_id, agent) if each):
        words = translated(caller.language, "Write something, at most {count} characters.", count=TEXT_MAX)
        raise Refused(words, status=400, kind="invalid-text")
    if not conversation_id:
        plan = Plan(agent or "default")
        conversation_id, _ = await open_conversation(deps.runtime.units, caller, plan, agents=deps.agents)
    known = await deps.log.tail(caller.tenant, conversation_id, 1)
    await deps.posts.post(caller, conversation_id, Writing(text))
    await deps.log.appears(caller, conversation_id, known[-1].id if known else 0)
    return RedirectResponse(f"/?conversation={conversation_id}", 303)


@router.get("/ui/conversations")
async def list_recent(deps: DepsOf, caller: SignedIn) -> HTMLResponse:
    """Show the newest conversations of who is signed in."""
    async with reading(deps.runtime.database) as connection:
        recent = await recent_conversations(connection, caller.tenant, caller.person, RECENT_MAX)
    return render("recent.html", caller=caller, recent=recent)


@router.get("/ui/events")
async def follow(
    deps: DepsOf,
    caller: SignedIn,
    conversation_id: ConversationId = "",
    last_event_id: LastEventId = None,
    after: After = None,
) -> StreamingResponse:
    """Follow one conversation and, beside it, every change of an approval: one connection for the whole page."""
    caller.need(Scope.CHAT, Scope.DECIDE, Scope.OPERATE)
    topics = (Topic(caller.tenant),) if caller.may(Scope.DECIDE) or caller.may(Scope.OPERATE) else ()
    if not conversation_id:
        return streaming(deps, caller, topics, None, 0, hello=BEGUN)
    topic = Topic(caller.tenant, conversation_id)
    start = await start_of(deps, caller, conversation_id, last_event_id, after)

    def told(item: Item) -> Item:
        names = words.names_in(item.data, caller.people)
        return replace(item, data={**item.data, "names": names}) if names else item

    return streaming(deps, caller, (topic, *topics), topic, start, told, BEGUN)
