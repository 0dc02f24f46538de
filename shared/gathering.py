"""What waits while a batch is handled comes along in the next one, and an idle system waits for nothing.

One batch at a time per gathering, so that a queue's own deliveries never wait for each other's row locks, and under
load a transaction carries what has arrived instead of one event. A batch that follows one of several gathers for as
long as that one took: whoever has neighbours saves them a transaction, and whoever comes alone does not wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from time import monotonic
from typing import Generic, TypeVar

T = TypeVar("T")

#: Longest time that a batch gathers under load, in seconds: a tool's answer is not felt to be later by that.
PAUSE_MAX_SECONDS = 0.02


class Gathering(Generic[T]):
    """Hands items to `handle` in batches whose sizes add up to at most `size_max`, in order of arrival."""

    def __init__(self, handle: Callable[[list[T]], Awaitable[None]], *, size_max: int) -> None:
        self._handle = handle
        self._size_max = size_max
        self._waiting: deque[tuple[T, int, asyncio.Future[None]]] = deque()
        self._runner: asyncio.Task[None] | None = None
        #: When the next batch may begin; a lonely one never waits for it.
        self._free_at = 0.0

    async def join(self, item: T, *, size: int = 1) -> None:
        """Return when the batch that `item` came along in is handled; raise what its handling raised.

        The batch goes on when this caller is cancelled: its neighbours did nothing wrong.
        """
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((item, size, done))
        if self._runner is None:
            self._runner = asyncio.create_task(self._run())
        await done

    async def _run(self) -> None:
        try:
            while self._waiting:
                # One pass of the event loop lets deliveries that came in the same moment come along.
                await asyncio.sleep(max(0.0, self._free_at - monotonic()))
                await self._next_batch()
        finally:
            self._runner = None

    async def _next_batch(self) -> None:
        began = monotonic()
        batch = [self._waiting.popleft()]
        size = batch[0][1]
        while self._waiting and size + self._waiting[0][1] <= self._size_max:
            batch.append(self._waiting.popleft())
            size += batch[-1][1]
        try:
            await self._handle([item for item, _, _ in batch])
        except BaseException as error:
            for _, _, done in batch:
                if not done.done():
                    done.set_exception(error if isinstance(error, Exception) else asyncio.CancelledError())
            if not isinstance(error, Exception):
                raise
        else:
            for _, _, done in batch:
                if not done.done():
                    done.set_result(None)
        finally:
            ended = monotonic()
            self._free_at = ended + pause_after(len(batch), ended - began)


def pause_after(number: int, seconds: float) -> float:
    """Return how many seconds the next batch gathers after one of `number` items that took `seconds`."""
    return min(seconds, PAUSE_MAX_SECONDS) if number > 1 else 0.0


def waves(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Return `items` in parts without two of the same key, those of one key in their order.

    For statements over many rows, where a row that is met twice would be judged by what it was before.
    """
    parts: list[list[T]] = []
    met: dict[Hashable, int] = {}
    for item in items:
        number = met.get(key(item), 0)
        met[key(item)] = number + 1
        if number == len(parts):
            parts.append([])
        parts[number].append(item)
    return parts
