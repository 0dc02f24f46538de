"""`POST /v1/chat/completions`: for frontends that know no other protocol."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import JSONResponse, Response

from placet.contracts.errors import Refused
from placet.contracts.ids import own_id
from placet.gateway.conversations.access import no_conversation
from placet.gateway.conversations.sse import data_frames, described_stream, event_stream
from placet.gateway.dialects import streams
from placet.gateway.dialects.completions import CompletionState
from placet.gateway.dialects.conversation_state import replay
from placet.gateway.dialects.openai_errors import openai_error
from placet.gateway.dialects.openai_posted import ChatCompletionIn, conversation_named, invalid, misnamed
from placet.gateway.dialects.openai_requests import (
    agent_of,
    ask,
    asked_again,
    begin,
    begun_by,
    beside,
    find,
    message_id_of,
    tell,
)
from placet.gateway.dialects.openai_schemas import CompletionOut
from placet.gateway.dialects.streams import Snapshot
from placet.gateway.http.callers import CallerOf, DepsOf
from placet.gateway.http.deps import Deps
from placet.gateway.http.errors import described
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.auth import Caller

router = APIRouter(prefix="/v1/chat/completions", tags=["openai"], route_class=StrictRoute)

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: A turn that failed is over, and its calls ran. What is 500 or above, clients repeat, whatever a header says.
_FAILED, _FAILED_KIND = 424, "turn-failed"
_NAMED = "Names the conversation; the first request with a name opens it."

ConversationHeader = Annotated[str | None, Header(alias="placet-conversation", max_length=256, description=_NAMED)]
OpenWebUiChat = Annotated[str | None, Header(alias="x-openwebui-chat-id", max_length=256, description=_NAMED)]
KeyHeader = Annotated[
    str | None, Header(alias="idempotency-key", max_length=256, description="The same key is the same message.")
]


@router.post(
    "",
    response_model=None,
    responses={
        **described_stream("A completion, or its chunks.", model=CompletionOut),
        **described(400, 401, 403, 404, 409, 413, 415, 422, 424, 429, 503),
    },
)
async def complete(
    deps: DepsOf,
    caller: CallerOf,
    request: Request,
    body: ChatCompletionIn,
    placet_conversation: ConversationHeader = None,
    x_openwebui_chat_id: OpenWebUiChat = None,
    idempotency_key: KeyHeader = None,
) -> Response:
    """Take what the user wrote last, and answer with what the agent says until it is done or waits for people.

    Of the history nothing else is read. Calls are made behind Placet and never told as `tool_calls`.
    """
    body.check()
    deps.log.limits.check(caller)
    text, key = body.written(), idempotency_key or ""
    chosen = {
        "Placet-Conversation": conversation_named(placet_conversation),
        "metadata.conversation_id": body.named,
        "X-OpenWebUI-Chat-Id": conversation_named(x_openwebui_chat_id),
    }
    where, name = next(((where, name) for where, name in chosen.items() if name), ("", caller.conversation_id or ""))
    if where and not _ID.fullmatch(name):
        raise misnamed(where)
    chat = name if where == "X-OpenWebUI-Chat-Id" else ""
    snapshot = await _conversation(deps, caller, body, name, key)
    if chat and (first := body.first()):
        snapshot = await beside(deps, caller, snapshot, first)
    message_id = message_id_of(caller, snapshot, text, key, request.headers)
    if chat and not key:
        message_id = await asked_again(deps, caller, snapshot, text, body.history)
    goal = await ask(deps, caller, snapshot, text, message_id=message_id)
    conversation_id, agent = goal.conversation_id, snapshot.conversation.agent or body.model
    completion_id = f"chatcmpl-{conversation_id}-{goal.message_id or goal.told}"
    state = CompletionState(goal, completion_id, agent, int(time.time()), deps.settings.public_url)
    headers = {"placet-conversation": conversation_id, **body.ignored}
    if body.stream:
        frames = _frames(deps, caller, snapshot, state, counts=body.counts)
        return event_stream(frames, headers)
    state, is_answer = await streams.wait_for(deps, caller, request, snapshot, state)
    if not is_answer:
        raise Refused(
            "This instance is shutting down before the answer comes; ask again.", status=503, kind="unavailable"
        )
    usage = await tell(deps, caller, snapshot, goal, state.log.seq)
    if state.failure:
        told = {"detail": state.failure, "placet": state.placet()}
        raise Refused("The agent failed.", status=_FAILED, kind=_FAILED_KIND, **told)
    return JSONResponse(state.completion(usage), headers=headers)


async def _conversation(deps: Deps, caller: Caller, body: ChatCompletionIn, name: str, key: str) -> Snapshot:
    """Return the conversation that a request is about, opened where it is new."""
    if not name:
        if not body.begins:
            raise invalid(
                "messages",
                "goes on with a conversation, and nothing says which: name it in the header `Placet-Conversation` or "
                "in `metadata.conversation_id`",
                kind="conversation-required",
            )
        name = begun_by(caller, key)
        if not name:
            return await begin(deps, caller, agent_of(deps, caller, None, body.model), body.language)
    name = own_id(caller.tenant, name)
    known = await find(deps, caller, name)
    agent = agent_of(deps, caller, known, body.model)
    if known is not None:
        return known
    if caller.conversation_id is not None:
        raise no_conversation()
    return await begin(deps, caller, agent, body.language, name)


async def _frames(
    deps: Deps, caller: Caller, snapshot: Snapshot, state: CompletionState, *, counts: bool
) -> AsyncIterator[bytes]:
    yield data_frames(*state.begin())
    with streams.breaking_off():
        state, chunks = replay(state, snapshot.items)
        yield data_frames(*chunks)
        async for after, told in streams.follow(deps, caller, state.goal.conversation_id, state):
            state = after
            yield data_frames(*told) or b": still here\n\n"
        if state.done:
            usage = await tell(deps, caller, snapshot, state.goal, state.log.seq)
            if state.failure:
                yield data_frames(_problem(_FAILED, _FAILED_KIND, state.failure) | {"placet": state.placet()})
            else:
                yield data_frames(*state.end(usage, counts=counts)) + b"data: [DONE]\n\n"
            return
    yield data_frames(_problem(503, "unavailable", "The stream ended early."))


def _problem(status: int, kind: str, title: str) -> dict[str, Any]:
    return {"error": openai_error({"type": f"urn:placet:problem:{kind}", "title": title, "status": status})}
