"""Waiting for answers that come by message: each completes the wait of whoever asked here, at this very instance."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
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
    _waiting: dict[str, Waiting[T]] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return how many answers are waited for."""
        return len(self._waiting)

    @contextmanager
    def expected(self, asked_id: str) -> Iterator[Waiting[T]]:
        """Yield what the answer to `asked_id` will complete; nobody waits for it after the block."""
        waiting = self._waiting[asked_id] = asyncio.get_running_loop().create_future()
        try:
            yield waiting
        finally:
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
        waiting = self._waiting.get(asked_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def close(self) -> None:
        """Let everybody go who waits."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(None)
