"""Streams of a conversation for those who follow it: where one begins, and its items as server-sent events."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Annotated

from fastapi import Header, Query
from fastapi.responses import StreamingResponse

from placet.gateway.conversations import store
from placet.gateway.conversations.access import check_for
from placet.gateway.conversations.items import Delta, Item
from placet.gateway.conversations.live import Notice, Topic
from placet.gateway.conversations.sse import HEARTBEAT, HELLO, event_frame, event_stream, item_frame
from placet.gateway.http.deps import Deps
from placet.gateway.http.errors import invalid_request
from placet.gateway.identity.auth import Caller
from placet.gateway.store import reading

#: Items of one answer.
ITEMS_MAX = 1_000

_NUMBER = re.compile(r"[0-9]{1,18}")

LastEventId = Annotated[str | None, Header(description="Number of the last event seen; browsers send it.")]
After = Annotated[str | None, Query(description="The same, for clients that cannot set headers.")]
AfterItem = Annotated[
    int,
    Query(
        alias="after",
        ge=0,
        le=10**18 - 1,
        description="Number of the last item seen; `last_event_id` of the answer before.",
    ),
]
ItemLimit = Annotated[int, Query(ge=1, le=ITEMS_MAX, description="Items of one answer, the oldest first.")]


async def start_of(
    deps: Deps, caller: Caller, conversation_id: str, last_event_id: str | None, after: str | None
) -> int:
    """Return the number after which a client wants items; raise Refused for no number (400) or conversation (404)."""
    wanted = wanted_after(last_event_id, after)
    place = (caller.tenant, conversation_id)
    async with reading(deps.runtime.database) as connection:
        await check_for(connection, caller, conversation_id)
        # A number from before a restored backup must not silence the stream for ever.
        return min(wanted, await store.newest_number(connection, *place)) if wanted else 0


def streaming(
    deps: Deps,
    caller: Caller,
    topics: tuple[Topic, ...],
    conversation: Topic | None,
    after: int,
    told: Callable[[Item], Item] = lambda item: item,
    hello: bytes = HELLO,
) -> StreamingResponse:
    """Return the stream of what a caller follows, its items as `told`; raise Refused (429) where they have too many.

    `hello` is said once nothing can be missed any more.
    """
    deps.log.limits.check(caller, conversation)

    async def frames() -> AsyncIterator[bytes]:
        entries = deps.log.follow_topics(caller, conversation, topics, after)
        await anext(entries)
        yield hello
        async for entry in entries:
            match entry:
                case None:
                    yield HEARTBEAT
                case Item():
                    yield item_frame(told(entry))
                case Delta():
                    yield event_frame("delta", entry.data)
                case Notice():
                    yield event_frame(entry.event, entry.data)

    return event_stream(frames())


def wanted_after(last_event_id: str | None, after: str | None) -> int:
    """Return the number after which a client wants events; raise Refused (400) for no number.

    The header wins: a browser that reconnects keeps its first address and sends the newer number beside it.
    """
    name, text = ("last-event-id", last_event_id) if last_event_id else ("after", after or "0")
    if not _NUMBER.fullmatch(text):
        raise invalid_request("not the number of an event", parameter=name)
    return int(text)
