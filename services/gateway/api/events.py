"""The event stream of a conversation: server-sent events with numbers, resumed where a client stopped."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from services.gateway.api.callers import CallerOf, DepsOf, PathId
from services.gateway.api.conversations import may_read
from services.gateway.api.errors import described
from services.gateway.api.strict import StrictRoute
from services.gateway.auth import Caller
from services.gateway.conversations import no_conversation
from services.gateway.deps import Deps
from services.gateway.feed import ITEM_TYPES
from services.gateway.live import Topic
from services.gateway.store import reading
from services.gateway.store.conversations import load_conversation
from services.gateway.stream import Stream
from shared.errors import Refused

router = APIRouter(prefix="/v1/conversations", tags=["conversations"], route_class=StrictRoute)

#: Proxies that gather output before they pass it on would hold events back.
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
_NUMBER = re.compile(r"[0-9]{1,18}")

LastEventId = Annotated[str | None, Header(description="Number of the last event seen; browsers send it.")]
After = Annotated[str | None, Query(description="The same, for clients that cannot set headers.")]

_FOLLOWED = (
    "Follow a conversation: everything after the given event, then what comes, without gap or repeat.\n\n"
    f"Types: {', '.join(ITEM_TYPES[:-1])} and {ITEM_TYPES[-1]} have a number; delta, a text being written, has none."
)


@router.get(
    "/{conversation_id}/events",
    description=_FOLLOWED,
    response_class=StreamingResponse,
    responses={
        200: {"description": "Events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
        **described(400, 401, 403, 404, 503),
    },
)
async def follow(
    deps: DepsOf,
    caller: CallerOf,
    conversation_id: PathId,
    last_event_id: LastEventId = None,
    after: After = None,
) -> StreamingResponse:
    """Follow a conversation."""
    may_read(caller, conversation_id)
    topic = Topic(caller.tenant, conversation_id)
    start = await start_of(deps, topic, last_event_id, after)
    return streaming(deps, caller, (topic,), topic, start)


async def start_of(deps: Deps, topic: Topic, last_event_id: str | None, after: str | None) -> int:
    """Return the number after which a client wants items; raise Refused for no number (400) or conversation (404).

    The header wins: a browser that reconnects keeps its first address and sends the newer number beside it.
    """
    wanted = _number("last-event-id", last_event_id) if last_event_id else _number("after", after or "0")
    async with reading(deps.runtime.database) as connection:
        conversation = await load_conversation(connection, topic.tenant, topic.conversation_id)
    if conversation is None:
        raise no_conversation()
    # A number from before a restored backup must not silence the stream for ever.
    return min(wanted, conversation.feed_seq)


def streaming(
    deps: Deps, caller: Caller, topics: tuple[Topic, ...], conversation: Topic | None, after: int
) -> StreamingResponse:
    """Return the stream of what a caller follows."""
    stream = stream_of(deps, caller, topics, conversation, after, deps.settings.gateway_heartbeat_seconds)
    return StreamingResponse(stream.frames(), media_type="text/event-stream", headers=HEADERS)


def stream_of(
    deps: Deps,
    caller: Caller,
    topics: tuple[Topic, ...],
    conversation: Topic | None,
    after: int,
    heartbeat_seconds: float,
) -> Stream:
    """Return what a caller follows, for as long as they may."""
    return Stream(
        hub=deps.hub,
        drafts=deps.drafts,
        database=deps.runtime.database,
        topics=topics,
        conversation=conversation,
        after=after,
        heartbeat_seconds=heartbeat_seconds,
        still_allowed=lambda: deps.authenticator.still(caller),
    )


def _number(name: str, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        fault = {"detail": "not the number of an event", "parameter": name}
        raise Refused("The request is not valid.", status=400, kind="invalid-request", errors=[fault])
    return int(text)
