"""`/v1/responses`: OpenAI's newer wire, which has approval requests and their answers."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from itertools import takewhile
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse, Response

from placet.contracts.errors import Refused
from placet.contracts.ids import own_id
from placet.gateway.conversations.access import no_conversation
from placet.gateway.conversations.sse import described_stream, event_frame, event_stream
from placet.gateway.dialects import streams
from placet.gateway.dialects.completions_routes import KeyHeader
from placet.gateway.dialects.conversation_state import replay
from placet.gateway.dialects.openai import Goal, ResponseId, parse_request_id, parse_response_id
from placet.gateway.dialects.openai_posted import ResponseIn, invalid
from placet.gateway.dialects.openai_requests import (
    agent_of,
    ask,
    begin,
    begins_anew,
    begun_by,
    find,
    found,
    message_id_of,
    over,
    said_before,
    tell,
    token_usage,
    voted_on,
)
from placet.gateway.dialects.openai_schemas import ResponseOut
from placet.gateway.dialects.responses import Event, ResponseState
from placet.gateway.dialects.streams import Snapshot
from placet.gateway.http.callers import CallerOf, DepsOf
from placet.gateway.http.deps import Deps
from placet.gateway.http.errors import described
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.auth import Caller
from placet.gateway.store import reading
from placet.gateway.store.read import shown_in

router = APIRouter(prefix="/v1/responses", tags=["openai"], route_class=StrictRoute)

#: What OpenAI's SDKs send where a response is retrieved: passed over, as in its request, and refused where it is true.
Include = Annotated[list[str] | None, Query(alias="include[]", max_length=64, include_in_schema=False)]
NoStream = Annotated[Literal["false"] | None, Query(alias="stream", include_in_schema=False)]
ResponsePathId = Annotated[str, Path(pattern=r"^resp_[0-9]{1,18}_([0-9a-f-]{36}|0)_[A-Za-z0-9_-]{1,64}$")]


@router.post(
    "",
    response_model=None,
    responses={
        **described_stream("A response, or its events.", model=ResponseOut),
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
    deps.log.limits.check(caller)
    text, answers, key = body.written(), body.answers(), idempotency_key or ""
    snapshot = await _conversation(deps, caller, body, key)
    agent = agent_of(deps, caller, snapshot, body.model)
    if snapshot is None:
        snapshot = await begin(deps, caller, agent, body.language, begun_by(caller, key))
    text = text and body.written(said_before(snapshot, body.answered))
    message_id = message_id_of(caller, snapshot, text, key, request.headers)
    behind = parse_response_id(body.previous_response_id or "")
    goal = await ask(deps, caller, snapshot, text, answers, message_id, behind)
    response_id = str(ResponseId(goal.conversation_id, goal.told, goal.message_id))
    inbox = None if body.knows_requests else deps.settings.public_url
    state = ResponseState(goal, response_id, agent, int(time.time()), body.previous_response_id, inbox)
    if body.stream:
        frames = _frames(deps, caller, snapshot, state)
        return event_stream(frames, body.ignored)
    state, is_answer = await streams.wait_for(deps, caller, request, snapshot, state)
    usage = await tell(deps, caller, snapshot, goal, state.log.seq) if is_answer else None
    return JSONResponse(state.whole(usage), headers=body.ignored)


@router.get(
    "/{response_id}",
    response_model=None,
    responses={200: {"model": ResponseOut}, **described(400, 401, 403, 404, 503)},
)
async def retrieve(
    deps: DepsOf, caller: CallerOf, response_id: ResponsePathId, _include: Include = None, _stream: NoStream = None
) -> dict[str, Any]:
    """Return a response as it stands: what happened since it was told is in it, up to the user's next message."""
    named = parse_response_id(response_id)
    if named is None:
        raise no_conversation()
    snapshot = await streams.read(deps, caller, named.conversation_id, streams.HISTORY_MAX)
    if named.told > snapshot.newest:
        raise no_conversation()
    later = (item for item in snapshot.items if item.id > named.told)
    end = next((item for item in later if begins_anew(item, named.message_id)), None)
    items = [item for item in snapshot.items if end is None or item.id < end.id]
    conversation = snapshot.conversation
    goal = Goal(named.conversation_id, named.told, message_id=named.message_id, language=conversation.language)
    if named.message_id:
        before = takewhile(lambda item: item.data.get("message_id") != named.message_id, items)
        goal = replace(goal, over=over(snapshot._replace(items=list(before)).log))
    if end is None:
        voted = await voted_on(deps, caller, snapshot.log, goal.language)
        again = frozenset(request[0] for each in voted if (request := parse_request_id(each)))
        goal = replace(goal, holder=snapshot.holder, voted=voted, asked_again=again)
    began = snapshot.moment(named.told + 1) or conversation.created_at
    state = ResponseState(goal, response_id, conversation.agent or "default", int(began.timestamp()))
    state, _ = replay(state, items)
    until = end.moment if end else None
    usage = await token_usage(deps, caller, named.conversation_id, snapshot.moment(named.told), until)
    state.done = state.done or end is not None
    return state.response(state.status, usage)


async def _conversation(deps: Deps, caller: Caller, body: ResponseIn, key: str) -> Snapshot | None:
    """Return the conversation that a request is about; None where it begins one."""
    if body.previous_response_id:
        behind = parse_response_id(body.previous_response_id)
        # Microsoft's Agent Framework keeps the conversation's id of a response, and names it so.
        named = behind.conversation_id if behind else own_id(caller.tenant, body.previous_response_id)
        try:
            return await found(deps, caller, named)
        except Refused as refusal:
            raise _no_response() if refusal.kind == "not-found" else refusal from None
    if body.named:
        return await found(deps, caller, own_id(caller.tenant, body.named))
    if body.asked:
        approval = await deps.decisions.find(caller, body.asked)
        async with reading(deps.runtime.database) as connection:
            place = caller.tenant, str(approval["conversation_id"])
            _, shown = (await shown_in(connection, [place]))[place]
        return await found(deps, caller, shown)
    if caller.conversation_id is not None:
        return await found(deps, caller, caller.conversation_id)
    if len(body.remembered) == 1:
        # Whoever may chat may name any conversation; what else the history says is not believed.
        return await found(deps, caller, *body.remembered)
    if not body.begins:
        which = (
            "goes on with a conversation, and nothing says which: name it as `conversation`, name its last response as "
            "`previous_response_id`, or post the items of its responses with their ids"
        )
        raise invalid("input", which, kind="conversation-required")
    begun = begun_by(caller, key)
    return await find(deps, caller, begun) if begun else None


def _no_response() -> Refused:
    fault = {"detail": "no such response", "pointer": "#/previous_response_id"}
    return Refused("There is no such response.", status=404, kind="previous-response-not-found", errors=[fault])


async def _frames(deps: Deps, caller: Caller, snapshot: Snapshot, state: ResponseState) -> AsyncIterator[bytes]:
    yield _encode(state.begin())
    with streams.breaking_off():
        state, events = replay(state, snapshot.items)
        yield _encode(events)
        async for after, told in streams.follow(deps, caller, state.goal.conversation_id, state):
            state = after
            yield _encode(told) or b": still here\n\n"
        if state.done:
            yield _encode([state.end(await tell(deps, caller, snapshot, state.goal, state.log.seq))])
            return
    yield _encode([state.cut()])


def _encode(events: Iterable[Event]) -> bytes:
    return b"".join(event_frame(event["type"], event) for event in events)
