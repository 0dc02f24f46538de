"""Waiting for answers that come by message: each completes the waits of all who asked here, at this very instance."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")
Waiting: TypeAlias = "asyncio.Future[T | None]"


@dataclass
class Awaited(Generic[T]):
    """The answers that somebody waits for, by the id of what was asked."""

    #: Longest wait for one answer.
    seconds: float
    #: Id of what was asked -> who waits; the same may be asked more than once.
    _waiting: dict[str, list[Waiting[T]]] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return how many wait."""
        return sum(map(len, self._waiting.values()))

    @contextmanager
    def expected(self, asked_id: str) -> Iterator[Waiting[T]]:
        """Yield what the answer to `asked_id` will complete; nobody waits for it after the block."""
        waiting: Waiting[T] = asyncio.get_running_loop().create_future()
        all_waiting = self._waiting.setdefault(asked_id, [])
        all_waiting.append(waiting)
        try:
            yield waiting
        finally:
            all_waiting.remove(waiting)
            if not all_waiting:
                del self._waiting[asked_id]

    async def answer(self, waiting: Waiting[T]) -> T | None:
        """Return the answer, or None where it takes too long or this instance stops."""
        try:
            async with asyncio.timeout(self.seconds):
                return await waiting
        except TimeoutError:
            return None

    def answered(self, asked_id: str, answer: T) -> None:
        """Take an answer; one that nobody waits for any more is dropped."""
        _complete(self._waiting.get(asked_id, ()), answer)

    def close(self) -> None:
        """Let everybody go who waits."""
        for all_waiting in self._waiting.values():
            _complete(all_waiting, None)


def _complete(all_waiting: Iterable[Waiting[T]], answer: T | None) -> None:
    for waiting in all_waiting:
        if not waiting.done():
            waiting.set_result(answer)
