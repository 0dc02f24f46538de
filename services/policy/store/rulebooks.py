"""SQL around rulebooks: which one was active since when, and what was judged in the past."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from difflib import unified_diff
from typing import Literal

from placet.contracts.ids import new_id
from placet.policy.rules.call import COLUMNS
from placet.policy.rules.simulate import Kept
from placet.runtime.database import Database
from placet.runtime.queries import load_queries
from placet.runtime.work import Work

QUERIES = load_queries(__file__, "rulebooks.sql")
#: What can take over.
Kind = Literal["rulebook", "directory"]
#: Past proposals read at once, and how many bytes they have, except for a single one.
PAGE = 500
PAGE_BYTES = 2**20
#: After every id that there is.
_LAST = "~"


async def add_activation(work: Work, *, digest: str, source: str, by: str, kind: Kind = "rulebook") -> bool:
    """Note that a rulebook or a directory took over; False where it is the newest already.

    So it is for every replica but the first.
    """
    await work.run(QUERIES.turn)
    newest = await work.run(QUERIES.newest, kind=kind)
    if newest and newest[0]["digest"] == digest:
        return False
    await work.run(
        QUERIES.add,
        activation_id=new_id(),
        kind=kind,
        digest=digest,
        activated_by=by,
        # Not the transaction's beginning: another replica may have held the lock since.
        activated_at=await work.clock(),
        source=source,
        diff=await asyncio.to_thread(_diff, newest[0]["source"] if newest else "", source),
    )
    return True


def _diff(before: str, after: str) -> str:
    lines = unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="")
    return "\n".join(lines)


async def past_proposals(
    database: Database, tenant: str, now: datetime, since: timedelta
) -> AsyncIterator[Sequence[Kept]]:
    """Yield a tenant's judged calls, the newest first, page by page; between two pages no connection is held."""
    at, after = now + timedelta(days=1), _LAST
    while True:
        place = {"now": now, "since": since, "at": at, "id": after}
        async with database.single() as connection:
            rows = await connection.run(QUERIES.past, tenant=tenant, **place, most=PAGE, bytes=PAGE_BYTES)
        if rows:
            yield [
                Kept(
                    row["facts"].encode(),
                    {name: row[name] for name in COLUMNS},
                    row["effect"],
                    row["rule"],
                    row["approval"],
                    row["judged_at"],
                )
                for row in rows
            ]
        if not rows or len(rows) == rows[0]["found"] < PAGE:
            return
        at, after = rows[-1]["judged_at"], rows[-1]["verdict_id"]
