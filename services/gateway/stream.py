"""One client's event stream: what is stored after its last item, then what comes, without gap or repeat.

The client is subscribed before the store is read, and what comes live is passed on only where its number is the next
one; anything else sends us back to the store, which has no gaps. Announcements may get lost, so the store is also
read at each heartbeat with nothing to tell.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import structlog

from services.gateway.drafts import Drafts
from services.gateway.live import Advanced, Closed, Following, Hub, Topic, Transient
from services.gateway.store import reading
from services.gateway.store.feed import StoredItem, load_feed
from shared.database import Database, is_outage
from shared.driver import DatabaseError

log = structlog.get_logger(__name__)

#: Items read from the store at a time.
PAGE = 200
#: How long a client is told on while nobody can say whether they may still be, in seconds: one vain wait for a
#: connection to the database, and two heartbeats. Then they come again and are asked as everybody is.
DOUBT_SECONDS = 60.0
# Neither ends with an empty line: some readers take a block without data for an event.
#: First bytes of a stream: how long a browser waits before it reconnects.
_HELLO = b"retry: 1000\n"
_HEARTBEAT = b": still here\n"


@dataclass(frozen=True)
class Stream:
    """What one client follows, and from where."""

    hub: Hub
    drafts: Drafts
    database: Database
    topics: tuple[Topic, ...]
    #: The conversation whose items are replayed; None for a stream of transient events only.
    conversation: Topic | None
    after: int
    heartbeat_seconds: float
    #: Asked once a heartbeat, however much there is to tell; the stream ends when it says no, and when an outage has
    #: kept it from saying anything for `doubt_seconds`.
    still_allowed: Callable[[], Awaitable[bool]]
    doubt_seconds: float = DOUBT_SECONDS

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield the bytes of the stream until the client is gone, let go, or no longer allowed."""
        yield _HELLO
        async for signal in self.signals():
            match signal:
                case None:
                    yield _HEARTBEAT
                case Transient():
                    yield transient_frame(signal)
                case _:
                    yield frame(signal)

    async def signals(self) -> AsyncGenerator[dict[str, Any] | Transient | None, None]:
        """Yield items, each {id, type, at, data}, what is transient, and None for a heartbeat with nothing to tell.

        It ends when the client is let go or no longer allowed.
        """
        with self.hub.follow(self.topics) as following:
            # In the same breath: what is written later comes live and joins on.
            drafts = self.drafts.of(self.conversation) if self.conversation else []
            last, written = self.after, set()
            async for item in self._stored(last):
                last = item["id"]
                written.add(item["data"].get("message_id"))
                yield item
            for draft in drafts:
                if draft.data["message_id"] not in written:
                    yield draft
            async for signal in self._live(following, last):
                yield signal

    async def _live(self, following: Following, last: int) -> AsyncIterator[dict[str, Any] | Transient | None]:
        now = asyncio.get_running_loop().time
        # When the client was last known to be allowed: whoever opened the stream was.
        known_at = now()
        ask_at = known_at + self.heartbeat_seconds
        while True:
            try:
                signal = await following.next(max(0.0, ask_at - now()))
            except Closed:
                return
            if signal is None or now() >= ask_at:
                # Before anything else is told: it may be what they must not hear any more.
                allowed = await self._allowed()
                if allowed is False or (allowed is None and now() >= known_at + self.doubt_seconds):
                    return
                known_at = known_at if allowed is None else now()
                ask_at = now() + self.heartbeat_seconds
            if signal is None:
                yield None
            elif isinstance(signal, Transient):
                yield signal
                continue
            async for item in self._next_items(signal, last):
                last = item["id"]
                yield item

    async def _next_items(self, signal: Advanced | None, last: int) -> AsyncIterator[dict[str, Any]]:
        """Yield what follows item `last`: from the announcement where it fits, else from the store."""
        fresh = [item for item in signal.items if item["id"] > last] if signal else []
        if signal and not fresh:
            return
        if fresh and [item["id"] for item in fresh] == list(range(last + 1, last + 1 + len(fresh))):
            for item in fresh:
                yield item
            return
        try:
            async for item in self._stored(last):
                yield item
        except DatabaseError as error:
            if not is_outage(error):
                raise
            # The client keeps its stream; the next heartbeat reads again from where it is.
            log.warning("stream.waiting", error=type(error).__name__)

    async def _stored(self, last: int) -> AsyncIterator[dict[str, Any]]:
        if self.conversation is None:
            return
        async for item in replay(self.database, self.conversation, last):
            yield item.as_wire()

    async def _allowed(self) -> bool | None:
        """Tell whether the client may still listen; None where an outage keeps us from knowing."""
        try:
            return await self.still_allowed()
        except DatabaseError as error:
            if not is_outage(error):
                raise
            log.warning("stream.unsure", error=type(error).__name__)
            return None


async def replay(database: Database, conversation: Topic, after: int) -> AsyncIterator[StoredItem]:
    """Yield what a conversation's feed has after item `after`, oldest first; read a page at a time."""
    while True:
        async with reading(database) as connection:
            page = await load_feed(connection, conversation.tenant, conversation.conversation_id, after, PAGE)
        for item in page:
            after = item.seq
            yield item
        if len(page) < PAGE:
            return


def frame(item: dict[str, Any]) -> bytes:
    """Return one feed item as a server-sent event: its number, its type, and its data with the time in it."""
    data = _json({**item["data"], "at": item["at"]})
    return f"id: {item['id']}\nevent: {item['type']}\ndata: {data}\n\n".encode()


def transient_frame(signal: Transient) -> bytes:
    """Return a transient event: no number, so that a reconnecting client does not ask from there."""
    return f"event: {signal.event}\ndata: {_json(signal.data)}\n\n".encode()


def data_frame(value: Any) -> bytes:
    """Return a JSON value as a server-sent event without type or number, as most dialects have them."""
    return f"data: {_json(value)}\n\n".encode()


def _json(value: Any) -> str:
    # ASCII only: some readers break lines at U+2028 and its like.
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)
