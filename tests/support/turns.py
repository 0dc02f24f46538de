"""What other tasks see while something dear is done: whether the event loop comes round in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


@asynccontextmanager
async def turns_of_others(look: Callable[[], int]) -> AsyncIterator[set[int]]:
    """Let a task take every turn while the block runs; yield the different numbers that it looks at."""
    seen = set[int]()

    async def go_round() -> None:
        while True:
            seen.add(look())
            await asyncio.sleep(0)

    others = asyncio.create_task(go_round())
    try:
        yield seen
    finally:
        others.cancel()
