"""What commits must not touch at the same time: locked while one is at work, and closed where its worker died.

A lock in the database ends with its process. What a commit has begun to change is in its journal until somebody has
gone on with it, and as long others wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from placet.executor import commit_store
from placet.runtime.database import Database

#: How often a commit looks whether one that is half made has ended, in seconds.
WAIT_SECONDS = 1.0


@asynccontextmanager
async def held(
    database: Database,
    scopes: Sequence[str],
    workspace: str | None,
    *,
    patience: int,
    reached: Callable[[str], None],
) -> AsyncIterator[Sequence[str] | None]:
    """Keep other commits away from these scopes; always in the same order, so that none waits in a ring.

    A new commit, of `workspace`, waits for one that is half made there; None where it has looked `patience` times.
    """
    scopes = sorted(scopes)
    for left in range(patience, -1, -1):
        async with database.transaction() as connection:
            for scope in scopes:
                await commit_store.lock_scope(connection, scope)
            if workspace is None or not await commit_store.is_half_made(connection, scopes, workspace):
                yield scopes
                return
        reached("half made")
        if left:
            await asyncio.sleep(WAIT_SECONDS)
    yield None
