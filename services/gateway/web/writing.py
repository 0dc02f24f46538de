"""Writing in the chat without scripts: the composer is a form that begins a conversation, or goes on in one."""

from __future__ import annotations

import re

from fastapi import APIRouter, Response
from fastapi.responses import RedirectResponse

from placet.contracts.errors import Refused
from placet.contracts.messages.conversations import TEXT_MAX
from placet.gateway.conversations.service import Plan, Writing, open_conversation
from placet.gateway.http.callers import DepsOf
from placet.gateway.web.render import PageRoute, Posted, SignedIn, field
from placet.surfaces.texts import text as translated

router = APIRouter(prefix="/ui", include_in_schema=False, route_class=PageRoute)

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@router.post("/messages")
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
