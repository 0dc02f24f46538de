"""Under load, one transaction for many items; an item that comes alone is handled at once.

One batch runs at a time. What arrives meanwhile is the next batch, in order of arrival. Behind a batch of several the
next one waits for as long as that one took, at most 20 ms, so that it carries more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from time import monotonic
from typing import Any, Generic, TypeVar

import structlog

from placet.runtime.driver import Outage

log = structlog.get_logger(__name__)

T = TypeVar("T")
R = TypeVar("R")

#: Longest time that a batch waits for more items under load, in seconds.
PAUSE_MAX_SECONDS = 0.02
#: Items of a batch where nothing else is said.
BATCH_MAX = 64


class Batcher(Generic[T, R]):
    """Hands items to `handle` in batches whose sizes add up to at most `size_max`.

    `handle` returns one outcome for each item, in their order, or None where there is none to tell; an exception among
    the outcomes is raised to its submitter.
    With `isolate`, a batch that raises is handled again item by item, so that one bad item fails alone; an outage of
    the database fails all.
    """

    def __init__(
        self,
        handle: Callable[[list[T]], Awaitable[Sequence[R | Exception] | None]],
        *,
        size_max: int = BATCH_MAX,
        isolate: bool = False,
    ) -> None:
        self._handle = handle
        self._size_max = size_max
        self._isolate = isolate
        self._waiting: deque[tuple[T, int, asyncio.Future[Any]]] = deque()
        self._runner: asyncio.Task[None] | None = None
        #: When the next batch may begin.
        self._free_at = 0.0

    async def submit(self, item: T, *, size: int = 1) -> R:
        """Return the item's outcome when its batch is handled, or raise it.

        The batch goes on when this caller is cancelled.
        """
        done: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, size, done))
        if self._runner is None:
            self._runner = asyncio.create_task(self._run())
        return await done

    async def _run(self) -> None:
        try:
            while self._waiting:
                # One pass of the event loop lets items that came in the same moment come along.
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
            outcomes = await self._outcomes([item for item, _, _ in batch])
            for (_, _, done), outcome in zip(batch, outcomes, strict=True):
                _settle(done, outcome)
        except BaseException as error:
            for _, _, done in batch:
                _settle(done, error if isinstance(error, Exception) else asyncio.CancelledError())
            if not isinstance(error, Exception):
                raise
        finally:
            ended = monotonic()
            self._free_at = ended + pause_after(len(batch), ended - began)

    async def _outcomes(self, items: list[T]) -> Sequence[Any]:
        try:
            return await self._handle(items) or [None] * len(items)
        except Exception as error:
            if not self._isolate or len(items) == 1 or isinstance(error, Outage):
                raise
            log.warning("batch.falls_back", items=len(items), error=type(error).__name__)
        outcomes: list[Any] = []
        for item in items:
            try:
                outcomes += await self._handle([item]) or [None]
            except Exception as error:  # noqa: BLE001 - it is this item's outcome
                outcomes.append(error)
        return outcomes


def _settle(done: asyncio.Future[Any], outcome: Any) -> None:
    if done.done():
        return
    if isinstance(outcome, BaseException):
        done.set_exception(outcome)
    else:
        done.set_result(outcome)


def pause_after(number: int, seconds: float) -> float:
    """Return how many seconds the next batch waits for more items after one of `number` items that took `seconds`."""
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
