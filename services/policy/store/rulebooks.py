"""SQL around rulebooks: which one was active since when, and what was judged in the past."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from difflib import unified_diff
from typing import Any, Literal

import sqlalchemy as sa

from placet.contracts.ids import new_id
from placet.policy.rules.call import COLUMNS
from placet.policy.rules.simulate import Kept
from placet.policy.tables import ACTIVATIONS, VERDICTS
from placet.runtime.database import Database
from placet.runtime.work import Work

#: What can take over.
Kind = Literal["rulebook", "directory"]
#: Past proposals read at once, and how many bytes they have, except for a single one.
PAGE = 500
PAGE_BYTES = 2**20
_TIME = sa.TIMESTAMP(timezone=True)
#: One activation at a time, whichever replica it is: "Rulebook" in ASCII.
_LOCK = sa.select(sa.func.pg_advisory_xact_lock(0x52756C65626F6F6B))
_NEWEST = (
    sa.select(ACTIVATIONS.c.digest, ACTIVATIONS.c.source)
    .where(ACTIVATIONS.c.kind == sa.bindparam("kind", type_=sa.Text))
    .order_by(ACTIVATIONS.c.activated_at.desc())
    .limit(1)
)
_ADD = sa.insert(ACTIVATIONS)


def _past() -> sa.Select[Any]:
    """Read a page of the past, the newest first; `found` is how many it would have, did their bytes not count."""
    c = VERDICTS.c
    since = sa.bindparam("now", type_=_TIME) - sa.bindparam("since", type_=sa.Interval)
    place = sa.tuple_(sa.bindparam("at", type_=_TIME), sa.bindparam("id", type_=sa.Text))
    page = (
        sa.select(c.verdict_id, c.facts, c.effect, c.rule, c.approval, c.judged_at, *(c[name] for name in COLUMNS))
        .where(c.tenant == sa.bindparam("tenant"), c.judged_at > since, c.facts.is_not(None))
        .where(sa.tuple_(c.judged_at, c.verdict_id) < place)
        .order_by(c.judged_at.desc(), c.verdict_id.desc())
        .limit(PAGE)
        .subquery()
    )
    order = page.c.judged_at.desc(), page.c.verdict_id.desc()
    before = sa.func.sum(sa.func.octet_length(page.c.facts)).over(order_by=order, rows=(None, -1))
    sized = sa.select(page, before.label("before"), sa.func.count().over().label("found")).subquery()
    fits = sa.func.coalesce(sized.c.before, 0) < PAGE_BYTES
    return sa.select(sized).where(fits).order_by(sized.c.judged_at.desc(), sized.c.verdict_id.desc())


_PAST = _past()
#: After every id that there is.
_LAST = "~"


async def add_activation(work: Work, *, digest: str, source: str, by: str, kind: Kind = "rulebook") -> bool:
    """Note that a rulebook or a directory took over; False where it is the newest already.

    So it is for every replica but the first.
    """
    await work.connection.execute(_LOCK)
    newest = (await work.connection.execute(_NEWEST, {"kind": kind})).first()
    if newest is not None and newest.digest == digest:
        return False
    values = {
        "activation_id": new_id(),
        "kind": kind,
        "digest": digest,
        "activated_by": by,
        # Not the transaction's beginning: another replica may have held the lock since.
        "activated_at": await work.clock(),
        "source": source,
        "diff": await asyncio.to_thread(_diff, newest.source if newest else "", source),
    }
    await work.connection.execute(_ADD, values)
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
        values = {"tenant": tenant, "now": now, "since": since, "at": at, "id": after}
        async with database.single() as connection:
            rows = (await connection.execute(_PAST, values)).mappings().all()
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
