"""`POST /v1/chat/completions`: for frontends that know no other protocol."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from services.gateway.api.callers import CallerOf, DepsOf
from services.gateway.api.errors import described
from services.gateway.api.events import HEADERS
from services.gateway.api.openai_errors import openai_error
from services.gateway.api.openai_talks import Asked, agent_of, ask, begin, find, listen, tell, unread
from services.gateway.api.strict import StrictRoute
from services.gateway.auth import Caller
from services.gateway.conversations import no_conversation
from services.gateway.deps import Deps
from services.gateway.dialects.openai_chat import ChatWriter, Chunk
from services.gateway.dialects.openai_posted import ChatCompletionIn, conversation_named, invalid
from services.gateway.dialects.openai_words import held_note, waits_note
from services.gateway.resting import Resting
from services.gateway.store.conversations import Conversation
from services.gateway.stream import data_frame
from shared.errors import Refused

router = APIRouter(prefix="/v1/chat/completions", tags=["openai"], route_class=StrictRoute)

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
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
        200: {
            "description": "A completion, or its chunks.",
            "content": {
                "application/json": {"schema": {"type": "object"}},
                "text/event-stream": {"schema": {"type": "string"}},
            },
        },
        **described(400, 401, 403, 404, 409, 413, 415, 422, 429, 502, 503),
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
    text = body.written()
    name = conversation_named(placet_conversation) or body.named or conversation_named(x_openwebui_chat_id)
    conversation = await _conversation(deps, caller, body, name or caller.conversation_id or "")
    asked = await ask(deps, caller, conversation, text, key=idempotency_key or "")
    agent = conversation.agent or body.model
    writer = ChatWriter(
        f"chatcmpl-{conversation.conversation_id}-{asked.talk.posted}",
        agent,
        conversation.conversation_id,
        int(time.time()),
    )
    headers = {"placet-conversation": conversation.conversation_id}
    if body.stream:
        frames = _frames(deps, caller, asked, writer, with_usage=body.counts)
        return StreamingResponse(frames, media_type="text/event-stream", headers={**HEADERS, **headers})
    async for moves in listen(deps, caller, asked, request.is_disconnected):
        for move in moves:
            unread(writer.chunks(move))
    if asked.resting is None:
        raise Refused("The answer takes longer than this instance lives; ask again.", status=503, kind="unavailable")
    writer.usage = await tell(deps, asked)
    if writer.failure:
        raise Refused("The agent failed.", status=502, kind="turn-failed", detail=writer.failure)
    unread(_notes(deps, asked, asked.resting, writer))
    return JSONResponse(writer.completion(asked.talk.waiting), headers=headers)


async def _conversation(deps: Deps, caller: Caller, body: ChatCompletionIn, name: str) -> Conversation:
    """Return the conversation that a request is about, opened where it is new."""
    if not name:
        if not body.begins:
            raise invalid(
                "messages",
                "goes on with a conversation, and nothing says which: name it in the header `Placet-Conversation` or "
                "in `metadata.conversation_id`",
                kind="conversation-required",
            )
        return await begin(deps, caller, agent_of(deps, caller, None, body.model), body.language)
    if not _ID.fullmatch(name):
        raise invalid("metadata.conversation_id", "must be letters, digits, _ and -, at most 64")
    known = await find(deps, caller, name)
    agent = agent_of(deps, caller, known, body.model)
    if known is not None:
        return known
    if caller.conversation_id is not None:
        raise no_conversation()
    return await begin(deps, caller, agent, body.language, name)


async def _frames(
    deps: Deps, caller: Caller, asked: Asked, writer: ChatWriter, *, with_usage: bool
) -> AsyncIterator[bytes]:
    yield _encode(writer.begin())
    async for moves in listen(deps, caller, asked):
        yield _encode(chunk for move in moves for chunk in writer.chunks(move)) if moves else b": still here\n\n"
    if asked.resting is None:
        yield _encode([_problem(503, "unavailable", "The stream ended early.")])
        return
    writer.usage = await tell(deps, asked)
    if writer.failure:
        yield _encode([_problem(502, "turn-failed", writer.failure)])
        return
    yield (
        _encode(_notes(deps, asked, asked.resting, writer))
        + _encode(writer.end(asked.talk.waiting, with_usage=with_usage))
        + b"data: [DONE]\n\n"
    )


def _notes(deps: Deps, asked: Asked, resting: Resting, writer: ChatWriter) -> Iterator[Chunk]:
    """Yield the words about what waits, and about who answers."""
    writer.held, language = resting.held, asked.conversation.language
    for note in (
        waits_note(language, asked.talk.waiting, deps.settings.public_url),
        held_note(language, resting.held),
    ):
        if note:
            yield from writer.say(note)


def _problem(status: int, kind: str, title: str) -> dict[str, Any]:
    return {"error": openai_error({"type": f"urn:placet:problem:{kind}", "title": title, "status": status})}


def _encode(chunks: Iterable[Chunk]) -> bytes:
    return b"".join(map(data_frame, chunks))
