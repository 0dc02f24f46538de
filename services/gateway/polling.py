"""Waiting for what is new in a conversation without a stream: one look at the store, and at most one wait for more.

Who waits follows the conversation before the store is read, so nothing falls between the two. What comes live is only
a word that there is more: items are read from the store, whose numbers have no gaps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from services.gateway.live import Advanced, Closed, Following, Hub, Topic
from services.gateway.store import reading
from services.gateway.store.feed import StoredItem, load_feed
from shared.database import Database


@dataclass(frozen=True)
class Poll:
    """What one client waits for."""

    hub: Hub
    database: Database
    topic: Topic
    #: Number of the last item that the client has.
    after: int
    limit: int

    async def items(self, wait_seconds: float, look_seconds: float) -> Sequence[StoredItem]:
        """Return the items after the client's last one, as soon as there is one; none where none came in time.

        Announcements may get lost, so the store is also read each `look_seconds`. An instance that stops waits no more.
        """
        ends_at = asyncio.get_running_loop().time() + wait_seconds
        with self.hub.follow((self.topic,)) as following:
            while not (found := await self._stored()):
                if not await _more(following, ends_at, look_seconds):
                    break
        return found

    async def _stored(self) -> Sequence[StoredItem]:
        async with reading(self.database) as connection:
            return await load_feed(connection, self.topic.tenant, self.topic.conversation_id, self.after, self.limit)


async def _more(following: Following, ends_at: float, look_seconds: float) -> bool:
    """Wait until a look at the store is worth it; False where the time is over, or the instance stops."""
    clock = asyncio.get_running_loop().time
    look_at = min(ends_at, clock() + look_seconds)
    while (left := look_at - clock()) > 0:
        try:
            signal = await following.next(left)
        except Closed:
            return False
        if isinstance(signal, Advanced):
            return True
    return look_at < ends_at
