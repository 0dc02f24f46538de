"""Passing on what is new to the clients of this instance, without a database or a broker in sight.

A hub knows who follows which conversation, and how the texts began that are being written now. A client that does not
keep up is let go: its stream ends, it reconnects with the number of its last item, and memory stays bounded.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from prometheus_client import Counter, Gauge

from placet.gateway.conversations.items import Delta, Item

CLIENTS = Gauge("placet_gateway_streams", "Event streams that are open now.")
SLOW = Counter("placet_gateway_slow_streams_total", "Event streams closed because their client did not keep up.")

#: Conversations whose texts being written are kept; the one that was quiet for longest goes.
DRAFTS_MAX = 1_000
#: Longest text that is kept while it is written, in characters.
DRAFT_TEXT_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Topic:
    """What a client follows: one conversation, or the notices of a tenant where no conversation is named."""

    tenant: str
    conversation_id: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something in a tenant that pages look at again: `approvals`, `comments`, or `held` conversations. Never kept."""

    event: str
    data: dict[str, Any]


Signal = tuple[Item, ...] | Delta | Notice


class Closed(Exception):
    """The stream is over: the client was too slow, or the instance stops."""


class Following:
    """What waits for one client."""

    def __init__(self, backlog_max: int) -> None:
        self._backlog_max = backlog_max
        self._signals: deque[Signal] = deque()
        self._awake = asyncio.Event()
        self._closed = False

    def push(self, signal: Signal) -> None:
        """Hand over a signal; a client with too many waiting is let go."""
        if self._closed:
            return
        if len(self._signals) >= self._backlog_max:
            SLOW.inc()
            self.close()
            return
        self._signals.append(signal)
        self._awake.set()

    def close(self) -> None:
        """End the stream; what waits is dropped, because the client asks for it again."""
        self._closed = True
        self._signals.clear()
        self._awake.set()

    async def next(self, timeout_seconds: float) -> Signal | None:
        """Return the next signal, or None when nothing came in time; raise Closed when the stream is over."""
        if not self._signals and not self._closed:
            self._awake.clear()
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._awake.wait()
            except TimeoutError:
                return None
        if self._closed:
            raise Closed
        return self._signals.popleft()


class Hub:
    """Who follows what on this instance, and the texts that are being written."""

    def __init__(self, backlog_max: int, drafts_max: int = DRAFTS_MAX) -> None:
        self._backlog_max = backlog_max
        self._drafts_max = drafts_max
        self._following: dict[Topic, set[Following]] = {}
        #: Message id -> its text so far, as one piece from its beginning.
        self._drafts: OrderedDict[Topic, dict[str, Delta]] = OrderedDict()
        self._closed = False

    @property
    def streams(self) -> int:
        """Streams that follow something now."""
        return len({id(each) for followings in self._following.values() for each in followings})

    @property
    def is_idle(self) -> bool:
        """Whether nobody follows anything here, and no text is being written."""
        return not self._following and not self._drafts

    @contextmanager
    def follow(self, topics: Iterable[Topic]) -> Iterator[Following]:
        """Follow `topics` while the block runs; on an instance that stops, the stream is over at once."""
        following, wanted = Following(self._backlog_max), tuple(topics)
        for topic in wanted:
            self._following.setdefault(topic, set()).add(following)
        if self._closed:
            following.close()
        CLIENTS.inc()
        try:
            yield following
        finally:
            CLIENTS.dec()
            for topic in wanted:
                self._following[topic].discard(following)
                if not self._following[topic]:
                    del self._following[topic]

    def drafts(self, topic: Topic) -> list[Delta]:
        """Return the texts being written in a conversation, as far as this instance heard them from their beginning."""
        return [draft for draft in self._drafts.get(topic, {}).values() if draft.text]

    def tell_delta(self, topic: Topic, delta: Delta) -> None:
        """Hand a piece of text to everybody who follows the conversation, and keep it for who comes in the middle."""
        drafts = self._drafts.setdefault(topic, {})
        self._drafts.move_to_end(topic)
        known = drafts.get(delta.message_id)
        so_far = known.text if known and delta.offset and not delta.reset else ""
        text = so_far + delta.text
        if len(so_far) == delta.offset and len(text) <= DRAFT_TEXT_MAX:
            drafts[delta.message_id] = replace(delta, offset=0, reset=False, text=text)
        else:
            drafts.pop(delta.message_id, None)
        while len(self._drafts) > self._drafts_max:
            self._drafts.popitem(last=False)
        self._tell(topic, delta)

    def tell_items(self, topic: Topic, items: tuple[Item, ...]) -> None:
        """Hand new items to everybody who follows the conversation, and notices of them to who follows the tenant."""
        self._forget_drafts(topic, items)
        self._tell(topic, items)
        for item in items:
            if item.type in {"holder", "conversation"}:
                self._tell(Topic(topic.tenant), Notice("held", {"conversation_id": topic.conversation_id}))
            elif item.type == "approval":
                self._tell(Topic(topic.tenant), Notice("approvals", {"approval_id": item.data.get("approval_id")}))

    def tell_comment(self, tenant: str, approval_id: str) -> None:
        """Tell who follows the tenant that somebody said something about an approval; what, they ask for."""
        self._tell(Topic(tenant), Notice("comments", {"approval_id": approval_id}))

    def close(self) -> None:
        """End every stream, and those that begin later."""
        self._closed = True
        for followings in tuple(self._following.values()):
            for following in tuple(followings):
                following.close()

    def _tell(self, topic: Topic, signal: Signal) -> None:
        for following in tuple(self._following.get(topic, ())):
            following.push(signal)

    def _forget_drafts(self, topic: Topic, items: Iterable[Item]) -> None:
        """Forget what became a message, and everything of a turn that is over; the next one may be writing already."""
        drafts = self._drafts.get(topic)
        if drafts is None:
            return
        for item in items:
            if item.type == "message":
                drafts.pop(item.data.get("message_id", ""), None)
            elif item.type == "turn" and item.data["state"] not in {"started", "continued", "paused"}:
                over = [name for name, each in drafts.items() if each.turn_id == item.data["turn_id"]]
                for name in over:
                    del drafts[name]
        if not drafts:
            del self._drafts[topic]
