"""`/v1/responses`: OpenAI's newer wire, which has approval requests and their answers."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from services.gateway.api.callers import CallerOf, DepsOf
from services.gateway.api.conversations import may_read
from services.gateway.api.errors import described
from services.gateway.api.events import HEADERS
from services.gateway.api.openai_chat import KeyHeader
from services.gateway.api.openai_talks import Asked, agent_of, ask, begin, found, listen, rests, tell, unread
from services.gateway.api.strict import StrictRoute
from services.gateway.auth import Caller
from services.gateway.conversations import no_conversation
from services.gateway.deps import Deps
from services.gateway.dialects.openai_ids import ResponseId, parse_response_id
from services.gateway.dialects.openai_posted import ResponseIn, invalid
from services.gateway.dialects.openai_responses import Event, ResponseWriter, Status
from services.gateway.dialects.openai_words import held_note
from services.gateway.dialects.posted import Answer
from services.gateway.dialects.talk import LOOK_BACK, Talk
from services.gateway.resting import Resting
from services.gateway.store import reading
from services.gateway.store.conversations import Conversation, load_conversation
from services.gateway.store.feed import load_item_time
from services.gateway.store.turns import load_usage
from services.gateway.stream import data_frame, replay
from shared.errors import Refused

router = APIRouter(prefix="/v1/responses", tags=["openai"], route_class=StrictRoute)

ResponsePathId = Annotated[str, Path(pattern=r"^resp_[0-9]{1,18}_[0-9]{1,18}_[A-Za-z0-9_-]{1,64}$")]


@router.post(
    "",
    response_model=None,
    responses={
        200: {
            "description": "A response, or its events.",
            "content": {
                "application/json": {"schema": {"type": "object"}},
                "text/event-stream": {"schema": {"type": "string"}},
            },
        },
        **described(400, 401, 403, 404, 409, 413, 415, 422, 429, 503),
    },
)
async def create(
    deps: DepsOf, caller: CallerOf, request: Request, body: ResponseIn, idempotency_key: KeyHeader = None
) -> Response:
    """Take what the user says, or how they answered approval requests, and tell what the agent does then.

    The response is complete when the turn is over or waits for people.
    """
    body.check()
    text, answers = body.written(), body.answers()
    conversation = await _conversation(deps, caller, body, answers)
    agent = agent_of(deps, caller, conversation, body.model)
    if conversation is None:
        conversation = await begin(deps, caller, agent, body.language)
    asked = await ask(deps, caller, conversation, text, answers, idempotency_key or "")
    response_id = ResponseId(conversation.conversation_id, asked.talk.told, asked.talk.posted)
    writer = _writer(response_id, agent, asked.talk, int(time.time()), body.previous_response_id)
    if body.stream:
        frames = _frames(deps, caller, asked, writer)
        return StreamingResponse(frames, media_type="text/event-stream", headers=HEADERS)
    async for moves in listen(deps, caller, asked, request.is_disconnected):
        for move in moves:
            unread(writer.events(move))
    waiting = asked.talk.waiting
    if asked.resting is None:
        return JSONResponse(writer.response("in_progress", waiting))
    unread(_notes(asked, asked.resting, writer))
    writer.usage = await tell(deps, asked)
    return JSONResponse(writer.response("failed" if writer.failure else "completed", waiting))


@router.get("/{response_id}", responses=described(400, 401, 403, 404, 503))
async def retrieve(deps: DepsOf, caller: CallerOf, response_id: ResponsePathId) -> dict[str, Any]:
    """Return a response as it stands: what happened since it was told is in it, up to the user's next message."""
    named = parse_response_id(response_id)
    if named is None:
        raise no_conversation()
    may_read(caller, named.conversation_id)
    place = (caller.tenant, named.conversation_id)
    talk = Talk(named.told, named.posted)
    async with reading(deps.runtime.database) as connection:
        conversation = await load_conversation(connection, *place)
        if conversation is None or max(named.told, named.posted) > conversation.feed_seq:
            raise no_conversation()
        began = await load_item_time(connection, *place, named.told + 1) or conversation.created_at
    writer = _writer(named, conversation.agent or "default", talk, int(began.timestamp()), None)
    asked = Asked(conversation, talk, max(0, named.told - LOOK_BACK))
    done = False
    async for item in replay(deps.runtime.database, asked.topic, asked.after):
        if done := talk.is_next(item.type, item.data, item.seq):
            break
        for move in talk.read(item.type, item.data, item.seq):
            unread(writer.events(move))
    resting = None if done else await rests(deps, asked.topic, talk)
    if resting is not None:
        done = True
        unread(_held(conversation, resting, writer))
    async with reading(deps.runtime.database) as connection:
        writer.usage = await load_usage(connection, *place, named.told, talk.number)
    status: Status = "in_progress" if not done else "failed" if writer.failure else "completed"
    return writer.response(status, talk.waiting)


async def _conversation(deps: Deps, caller: Caller, body: ResponseIn, answers: Sequence[Answer]) -> Conversation | None:
    """Return the conversation that a request is about; None where it begins one."""
    if body.previous_response_id:
        named = parse_response_id(body.previous_response_id)
        if named is None:
            raise _no_response()
        try:
            return await found(deps, caller, named.conversation_id)
        except Refused as refusal:
            raise _no_response() if refusal.kind == "not-found" else refusal from None
    if body.named:
        return await found(deps, caller, body.named)
    if answers:
        approval = await deps.decisions.find(caller, answers[0].approval_id)
        return await found(deps, caller, approval["conversation_id"])
    if caller.conversation_id is not None:
        return await found(deps, caller, caller.conversation_id)
    if not body.begins:
        detail = (
            "goes on with a conversation: name it as `conversation`, or its last response as `previous_response_id`"
        )
        raise invalid("input", detail, kind="conversation-required")
    return None


def _no_response() -> Refused:
    fault = {"detail": "no such response", "pointer": "#/previous_response_id"}
    return Refused("There is no such response.", status=404, kind="previous-response-not-found", errors=[fault])


def _writer(
    response_id: ResponseId, agent: str, talk: Talk, created: int, previous_response_id: str | None
) -> ResponseWriter:
    return ResponseWriter(
        str(response_id), agent, response_id.conversation_id, created, talk.calls, previous_response_id
    )


async def _frames(deps: Deps, caller: Caller, asked: Asked, writer: ResponseWriter) -> AsyncIterator[bytes]:
    yield _encode(writer.begin())
    async for moves in listen(deps, caller, asked):
        yield _encode(event for move in moves for event in writer.events(move)) if moves else b": still here\n\n"
    if asked.resting is None:
        yield _encode(writer.cut())
        return
    writer.usage = await tell(deps, asked)
    yield _encode(_notes(asked, asked.resting, writer)) + _encode(writer.end(asked.talk.waiting))


def _notes(asked: Asked, resting: Resting, writer: ResponseWriter) -> Iterator[Event]:
    """Yield the requests that the client answered, or wrote past, and that wait all the same; and who answers."""
    for card in asked.talk.waiting:
        if card["approval_id"] in asked.asked_again or resting.queued:
            yield from writer.ask(card)
    yield from _held(asked.conversation, resting, writer)


def _held(conversation: Conversation, resting: Resting, writer: ResponseWriter) -> Iterator[Event]:
    """Yield the words about who answers, where that is not the agent."""
    writer.held = resting.held
    if note := held_note(conversation.language, resting.held):
        yield from writer.say(f"holder.{resting.held.revision}", note)


def _encode(events: Iterable[Event]) -> bytes:
    return b"".join(f"event: {event['type']}\n".encode() + data_frame(event) for event in events)
