"""The agent's log as clients get it: what is stored after an item, then what comes, without gap or repeat.

A client is subscribed before the log is read, and what comes live is passed on only where its number is the next one;
anything else sends us back to the log, which has no gaps. Announcements may get lost, so a stream that has been silent
for a heartbeat reads the log too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

import structlog

from placet.contracts.errors import Refused
from placet.gateway.conversations import store
from placet.gateway.conversations.items import Delta, Item
from placet.gateway.conversations.listeners import Listener
from placet.gateway.conversations.live import Closed, Following, Hub, Notice, Topic
from placet.gateway.conversations.stream_limits import StreamLimits
from placet.gateway.identity.auth import Caller
from placet.runtime.database import Database, is_outage
from placet.runtime.driver import DatabaseError

log = structlog.get_logger(__name__)

#: Items read from the log at a time.
PAGE = 200
#: How long a client is served while an outage keeps us from knowing whether they still may be, in seconds.
DOUBT_SECONDS = 60.0
#: How long a page without scripts waits for what was just posted on it, in seconds.
APPEARS_SECONDS = 2.0


@dataclass(frozen=True)
class ConversationLog:
    """Reads the log of conversations, and follows it for the clients of this instance."""

    database: Database
    hub: Hub
    heartbeat_seconds: float
    #: Whether a caller's rights hold still; asked once a heartbeat.
    still_allowed: Callable[[Caller], Awaitable[bool]]
    limits: StreamLimits

    async def read(self, tenant: str, conversation_id: str, after: int, limit: int) -> list[Item]:
        """Return the items after the number `after`, oldest first."""
        async with self.database.single() as connection:
            return await store.read_log(connection, tenant, conversation_id, after, limit)

    async def tail(self, tenant: str, conversation_id: str, limit: int) -> list[Item]:
        """Return the newest items, oldest first."""
        async with self.database.single() as connection:
            return await store.tail(connection, tenant, conversation_id, limit)

    async def wait_for_items(
        self, caller: Caller, conversation_id: str, after: int, limit: int, wait_seconds: float
    ) -> list[Item]:
        """Return the items after the number `after`, as soon as there is one; none where none came in time.

        Raises Refused (429) where one more who waits would be too many.
        """
        found = await self.read(caller.tenant, conversation_id, after, limit)
        if found or not wait_seconds:
            return found
        # Others who came meanwhile may have taken the last place.
        self.limits.check(caller, Topic(caller.tenant, conversation_id))
        try:
            async with asyncio.timeout(wait_seconds), aclosing(self.follow(caller, conversation_id, after)) as entries:
                async for entry in entries:
                    if isinstance(entry, Item):
                        break
        except TimeoutError:
            pass
        return await self.read(caller.tenant, conversation_id, after, limit)

    async def appears(self, caller: Caller, conversation_id: str, after: int) -> None:
        """Return when there is an item after the number `after`: what was just posted; or after a while without."""
        with suppress(Refused):
            await self.wait_for_items(caller, conversation_id, after, 1, APPEARS_SECONDS)

    async def follow(
        self, caller: Caller, conversation_id: str, after: int, *, heartbeat_seconds: float | None = None
    ) -> AsyncGenerator[Item | Delta | None, None]:
        """Yield items and pieces of text, and None for a heartbeat with nothing to tell.

        It ends when the client is let go or no longer allowed.
        """
        topic = Topic(caller.tenant, conversation_id)
        async with aclosing(self.follow_topics(caller, topic, (topic,), after, heartbeat_seconds)) as entries:
            await anext(entries)
            async for entry in entries:
                if not isinstance(entry, Notice):
                    yield entry

    async def follow_topics(
        self,
        caller: Caller,
        conversation: Topic | None,
        topics: tuple[Topic, ...],
        after: int,
        heartbeat_seconds: float | None = None,
    ) -> AsyncGenerator[Item | Delta | Notice | None, None]:
        """Yield what `follow` does, and the notices of `topics`; without a conversation nothing else.

        The first of all is None: from then on nothing is missed. There is nothing else where too many streams are open.
        """
        with self.limits.counted(caller, conversation) as has_room, self.hub.follow(topics) as following:
            yield None
            if not has_room:
                return
            listener = self.listener(caller, heartbeat_seconds)
            async with aclosing(self._entries(listener, conversation, following, after)) as entries:
                async for entry in entries:
                    # Before anything is told, old or new: it may be what they must not hear any more.
                    if not await listener.may_hear(in_silence=entry is None):
                        return
                    yield entry

    def listener(self, caller: Caller, heartbeat_seconds: float | None = None) -> Listener:
        """Return a caller who is let in now, for whoever tells them something that takes a while."""
        return Listener(caller, self.still_allowed, heartbeat_seconds or self.heartbeat_seconds, DOUBT_SECONDS)

    async def _entries(
        self, listener: Listener, conversation: Topic | None, following: Following, after: int
    ) -> AsyncGenerator[Item | Delta | Notice | None, None]:
        # In the same breath: what is written later comes live and joins on.
        drafts = self.hub.drafts(conversation) if conversation else []
        written = set()
        async for item in self._stored(conversation, after):
            after = item.id
            written.add(item.data.get("message_id"))
            yield item
        for draft in drafts:
            if draft.message_id not in written:
                yield draft
        async for entry in self._live(listener, conversation, following, after):
            yield entry

    async def _live(
        self, listener: Listener, conversation: Topic | None, following: Following, last: int
    ) -> AsyncIterator[Item | Delta | Notice | None]:
        while True:
            try:
                signal = await following.next(listener.seconds_left)
            except Closed:
                return
            if isinstance(signal, Delta | Notice):
                yield signal
                continue
            if signal is None:
                yield None
            async for item in self._next_items(conversation, signal or (), last):
                last = item.id
                yield item

    async def _next_items(
        self, conversation: Topic | None, announced: tuple[Item, ...], last: int
    ) -> AsyncIterator[Item]:
        """Yield what follows item `last`: from the announcement where it fits, else from the log."""
        fresh = [item for item in announced if item.id > last]
        if announced and not fresh:
            return
        if fresh and fresh[0].id == last + 1 and fresh[-1].id == last + len(fresh):
            for item in fresh:
                yield item
            return
        try:
            async for item in self._stored(conversation, last):
                yield item
        except DatabaseError as error:
            if not is_outage(error):
                raise
            # The client keeps its stream; the next heartbeat reads again from where it is.
            log.warning("stream.waiting", error=type(error).__name__)

    async def _stored(self, conversation: Topic | None, after: int) -> AsyncIterator[Item]:
        """Yield what the log has after item `after`, a page at a time."""
        while conversation is not None:
            page = await self.read(conversation.tenant, conversation.conversation_id, after, PAGE)
            for item in page:
                after = item.id
                yield item
            if len(page) < PAGE:
                return


def announced_items(items: list[dict[str, Any]]) -> tuple[Item, ...]:
    """Return the items of an announcement."""
    return tuple(Item(each["id"], each["type"], each["at"], each["data"]) for each in items)
