"""Conversations over HTTP: open one, write in it, see how it stands, follow it; and the agents to open one with."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from placet.contracts.visitors import visitor_id
from placet.gateway.approvals.forms import approval_out
from placet.gateway.approvals.store.inbox import Filters, list_approvals
from placet.gateway.conversations import service, store
from placet.gateway.conversations.access import check_for, may_read
from placet.gateway.conversations.items import ITEM_TYPES, Item
from placet.gateway.conversations.live import Topic
from placet.gateway.conversations.rules import Call, call_status, conversation_status
from placet.gateway.conversations.service import Plan, Posted, Writing, known_agent, may_open, open_conversation
from placet.gateway.conversations.sse import described_stream
from placet.gateway.conversations.streaming import After, AfterItem, ItemLimit, LastEventId, start_of, streaming
from placet.gateway.dialects.native_schemas import (
    AgentList,
    AgentOut,
    CallSummary,
    ConversationIn,
    ConversationOut,
    FeedOut,
    MessageIn,
    MessageOut,
    OpenedOut,
    PostedOut,
    StopOut,
    TokenOut,
)
from placet.gateway.http.callers import CallerOf, ConversationId, DepsOf
from placet.gateway.http.errors import described
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.auth import NoCaller
from placet.gateway.operators.service import Answer
from placet.gateway.store import read, reading
from placet.gateway.texts import answer_of

router = APIRouter(prefix="/v1/conversations", tags=["conversations"], route_class=StrictRoute)
agents_router = APIRouter(prefix="/v1/agents", tags=["conversations"], route_class=StrictRoute)

#: Messages, calls and approvals that a look at a conversation shows, and the items of the log that it reads for them.
SHOWN_MAX = 200
ITEMS_SHOWN_MAX = 1_000
#: Longest wait for an item, in seconds: proxies often end a request that is silent for a minute.
WAIT_SECONDS_MAX = 50

_PLAIN = ConversationIn()

Wait = Annotated[
    float, Query(ge=0, le=WAIT_SECONDS_MAX, description="Seconds to wait for an item where there is none yet.")
]

_FOLLOWED = (
    "Follow a conversation: everything after the given event, then what comes, without gap or repeat.\n\n"
    f"Types: {', '.join(ITEM_TYPES[:-1])} and {ITEM_TYPES[-1]} have a number; delta, a text being written, has none."
)
#: Server-sent events; the decoded `data` of each, and beside an item's number and type its members and `at`.
_EVENTS = {
    "type": "string",
    "description": "`id` and `event` are the item's `id` and `type`; `data` is its `data` with `at` in it.",
    "contentSchema": {
        "anyOf": [{"$ref": "#/components/schemas/FeedItem"}, {"$ref": "#/components/schemas/DeltaEvent"}]
    },
}


@agents_router.get("", responses=described(400, 401, 403))
async def list_agents(deps: DepsOf, caller: CallerOf) -> AgentList:
    """List the agents that conversations can be opened with; without a file of agents that is `default` alone."""
    may_open(caller)
    known = deps.agents.of(caller.tenant)
    return AgentList(items=[AgentOut(name=name, description=each.description) for name, each in known.items()])


@router.post("", status_code=201, responses=described(400, 401, 403, 413, 415, 422, 503))
async def open_one(deps: DepsOf, caller: CallerOf, response: Response, body: ConversationIn = _PLAIN) -> OpenedOut:
    """Open a conversation; everything about it has a default."""
    plan = Plan(body.agent, body.language, body.labels, body.visitor)
    seconds = deps.settings.gateway_token_seconds
    conversation_id, token = await open_conversation(
        deps.runtime.units, caller, plan, agents=deps.agents, token_seconds=seconds
    )
    labels = {**known_agent(deps.agents, caller.tenant, plan.agent).labels, **plan.labels}
    response.headers["location"] = f"/v1/conversations/{conversation_id}"
    requester = visitor_id(body.visitor, conversation_id)
    fields = body.model_dump(exclude={"visitor", "labels"})
    return OpenedOut(id=conversation_id, token=token, requester=requester, labels=labels, **fields)


@router.post(
    "/{conversation_id}/messages",
    status_code=202,
    responses=described(400, 401, 403, 404, 409, 413, 415, 422, 429, 503),
)
async def post(deps: DepsOf, caller: CallerOf, conversation_id: ConversationId, body: MessageIn) -> PostedOut:
    """Write in a conversation; the answer comes by its event stream."""
    if body.author == "operator":
        answer = Answer(body.text, body.message_id, body.seen_event_id)
        return _posted_out(await deps.operators.answer(caller, conversation_id, answer))
    writing = Writing(body.text, body.message_id, body.author)
    taken = await deps.consents.take(caller, conversation_id, writing)
    posted = taken.posted if taken else await deps.posts.post(caller, conversation_id, writing)
    return _posted_out(posted, taken.outcome if taken else None)


def _posted_out(posted: Posted, outcome: str | None = None) -> PostedOut:
    return PostedOut(
        message_id=posted.message_id,
        conversation_id=posted.conversation_id,
        taken_as=dict(posted.taken_as) if posted.taken_as else None,
        outcome=outcome,
    )


@router.post("/{conversation_id}/token", responses=described(401, 403, 404, 409, 503))
async def renew_token(deps: DepsOf, caller: CallerOf, conversation_id: ConversationId) -> TokenOut:
    """Give a conversation another token; the one before is good no more. Its holder may do that too, in time."""
    seconds = deps.settings.gateway_token_seconds
    token, ends = await service.renew_token(deps.runtime.units, caller, conversation_id, seconds)
    deps.authenticator.forget_token(caller.token_hash)
    return TokenOut(token=token, expires_at=ends)


@router.delete("/{conversation_id}/token", status_code=204, responses=described(401, 403, 404, 503))
async def revoke_token(deps: DepsOf, caller: CallerOf, conversation_id: ConversationId) -> None:
    """Take a conversation's token back: streams that it opened end, and nobody writes with it any more."""
    await service.renew_token(deps.runtime.units, caller, conversation_id, 0, revoke=True)
    deps.authenticator.forget_token(caller.token_hash)


@router.post("/{conversation_id}/end", status_code=204, responses=described(401, 403, 404, 503))
async def end(deps: DepsOf, caller: CallerOf, conversation_id: ConversationId) -> None:
    """End a conversation: calls that wait are withdrawn, nobody writes in it again. A second time does nothing."""
    await deps.posts.end(caller, conversation_id)


@router.post(
    "/{conversation_id}/stop", responses=described(401, 403, 404, 503) | {202: {"description": "It is being stopped."}}
)
async def stop(deps: DepsOf, caller: CallerOf, conversation_id: ConversationId, response: Response) -> StopOut:
    """Stop the turn that runs: 202, and its end comes by the event stream; 200 where none runs."""
    turn_id = await deps.posts.stop(caller, conversation_id)
    response.status_code = 202 if turn_id else 200
    return StopOut(conversation_id=conversation_id, state="stopping" if turn_id else "idle", turn_id=turn_id)


@router.get("/{conversation_id}", responses=described(401, 403, 404, 503))
async def show(deps: DepsOf, caller: CallerOf, conversation_id: ConversationId) -> ConversationOut:
    """Show a conversation: its newest messages and calls, and what waits for people."""
    place = (caller.tenant, conversation_id)
    async with reading(deps.runtime.database) as connection:
        conversation = await check_for(connection, caller, conversation_id)
        items = await store.tail(connection, *place, ITEMS_SHOWN_MAX)
        here = Filters(state="pending", conversation_id=conversation_id)
        waiting = await list_approvals(connection, caller.tenant, here, limit=SHOWN_MAX)
        status = conversation_status(items)
        calls = list(status.calls.values())[-SHOWN_MAX:]
        running = [call.call_id for call in calls if call.kind is None]
        executions = await read.execution_states(connection, caller.tenant, running)
    messages = [item for item in items if item.type == "message"]
    return ConversationOut(
        id=conversation_id,
        state="ended" if conversation.ended_at else status.state,
        agent=conversation.agent,
        language=conversation.language,
        labels=conversation.labels,
        requester=visitor_id(conversation.visitor, conversation_id),
        created_at=conversation.created_at,
        ended_at=conversation.ended_at,
        holder=conversation.held.state.value,
        operator=conversation.operator or None,
        last_event_id=items[-1].id if items else 0,
        messages=[
            MessageOut.model_validate({**each.data, "id": each.data["message_id"], "event_id": each.id, "at": each.at})
            for each in messages[-SHOWN_MAX:]
        ],
        calls=[_call_out(call, executions.get(call.call_id)) for call in calls],
        approvals=[approval_out(row) for row in waiting],
    )


def _call_out(call: Call, execution: str | None) -> CallSummary:
    runs = call.kind is None and call_status(None, execution) == "executing"
    return answer_of(CallSummary, call, id=call.call_id, status="executing" if runs else call.status)


@router.get(
    "/{conversation_id}/events",
    description=_FOLLOWED,
    response_class=StreamingResponse,
    responses={
        **described_stream("Events.", _EVENTS),
        **described(400, 401, 403, 404, 429, 503),
    },
)
async def follow(
    deps: DepsOf,
    caller: CallerOf,
    conversation_id: ConversationId,
    last_event_id: LastEventId = None,
    after: After = None,
) -> StreamingResponse:
    """Follow a conversation."""
    may_read(caller, conversation_id)
    topic = Topic(caller.tenant, conversation_id)
    start = await start_of(deps, caller, conversation_id, last_event_id, after)
    return streaming(deps, caller, (topic,), topic, start)


@router.get("/{conversation_id}/feed", response_model=FeedOut, responses=described(400, 401, 403, 404, 429, 503))
async def poll(
    request: Request,
    deps: DepsOf,
    caller: CallerOf,
    conversation_id: ConversationId,
    after: AfterItem = 0,
    wait: Wait = 0,
    limit: ItemLimit = 200,
) -> Response:
    """Return what happened after an item, without gap or repeat, also from another replica.

    Where nothing did, wait for it. Text as it is written is not here; the whole text follows as a message.
    """
    may_read(caller, conversation_id)
    if wait:
        deps.log.limits.check(caller, Topic(caller.tenant, conversation_id))
    start = await start_of(deps, caller, conversation_id, None, str(after))
    waiting = deps.log.wait_for_items(caller, conversation_id, start, limit, wait)
    found = await (_while_connected(request, waiting) if wait else waiting)
    # Rights may have ended meanwhile.
    if wait and not await deps.authenticator.still(caller):
        raise NoCaller("The credentials are not valid any more.")
    # The log's own JSON: what is in it is not checked again.
    items = [item.as_json() for item in found]
    return JSONResponse({"items": items, "last_event_id": found[-1].id if found else start})


async def _while_connected(request: Request, waiting: Coroutine[Any, Any, list[Item]]) -> list[Item]:
    """Return what is waited for; nothing as soon as the client has gone, so that its place is free for the next."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = asyncio.create_task(waiting), asyncio.create_task(gone())
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].result() if tasks[0].done() else []
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
