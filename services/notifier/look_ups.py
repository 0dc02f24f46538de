"""Look-ups that many ask for at once: each is made once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class LookUps(Generic[T]):
    """The look-ups under way, by what is looked up. Nothing is kept of what they find."""

    def __init__(self) -> None:
        self._asked: dict[object, asyncio.Task[T]] = {}

    async def find(self, name: object, look_up: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return or raise what `look_up` does, or the one for `name` that is under way.

        Who stops waiting leaves the others theirs.
        """
        asked = self._asked.get(name)
        if asked is None:
            asked = self._asked[name] = asyncio.create_task(look_up())
            asked.add_done_callback(partial(self._end, name))
        return await asyncio.shield(asked)

    def _end(self, name: object, asked: asyncio.Task[T]) -> None:
        del self._asked[name]
        if not asked.cancelled():
            # Heard, also where nobody waits any more.
            asked.exception()
