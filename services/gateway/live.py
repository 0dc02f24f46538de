"""Passing on what is new to the clients of this instance, without a database or a broker in sight.

A hub knows who follows which conversation. A client that does not keep up is let go: its stream ends, it reconnects
with the number of its last item, and memory stays bounded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from prometheus_client import Counter, Gauge

CLIENTS = Gauge("placet_gateway_streams", "Event streams that are open now.")
SLOW = Counter("placet_gateway_slow_streams_total", "Event streams closed because their client did not keep up.")


@dataclass(frozen=True, slots=True)
class Topic:
    """What a client follows: one conversation, or all approvals of a tenant where no conversation is named."""

    tenant: str
    conversation_id: str = ""


@dataclass(frozen=True, slots=True)
class Advanced:
    """New feed items of one conversation, each {id, type, at, data}, in order."""

    items: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Transient:
    """Something that is shown now and never kept."""

    event: str
    data: dict[str, Any]


Signal = Advanced | Transient


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
    """Who follows what, on this instance."""

    def __init__(self, backlog_max: int) -> None:
        self._backlog_max = backlog_max
        self._following: dict[Topic, set[Following]] = {}
        self._closed = False

    @property
    def streams(self) -> int:
        """Streams that follow something now."""
        return len({id(each) for followings in self._following.values() for each in followings})

    @property
    def is_followed(self) -> bool:
        """Whether anybody follows anything here."""
        return bool(self._following)

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
                self._leave(topic, following)

    def tell(self, topic: Topic, signal: Signal) -> None:
        """Hand `signal` to everybody who follows `topic`."""
        for following in tuple(self._following.get(topic, ())):
            following.push(signal)

    def close(self) -> None:
        """End every stream, and those that begin later."""
        self._closed = True
        for followings in tuple(self._following.values()):
            for following in tuple(followings):
                following.close()

    def _leave(self, topic: Topic, following: Following) -> None:
        followings = self._following[topic]
        followings.discard(following)
        if not followings:
            del self._following[topic]
