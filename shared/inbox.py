"""The inbox: which events a service has handled, so that a second delivery has no second effect."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from shared.sql import Connection

#: How long ids are remembered. Copies come within minutes where services run; but queues drop nothing for its age, so a
#: copy that comes later than this after the first one was handled is stopped by the keys of the service's tables alone.
REMEMBER = timedelta(days=7)


@cache
def _take(inbox: sa.Table) -> sa.Insert:
    """Return the statement that remembers `:ids` of `:queue`; built once, because building costs more than sending."""
    ids = sa.func.unnest(sa.bindparam("ids", type_=pg.ARRAY(pg.TEXT))).column_valued("id")
    return (
        pg.insert(inbox)
        .from_select(["message_id", "queue"], sa.select(ids, sa.bindparam("queue", type_=pg.TEXT)).order_by(ids))
        .on_conflict_do_nothing()
        .returning(inbox.c.message_id, sa.func.now())
    )


async def take_new(
    connection: Connection, inbox: sa.Table, queue: str, ids: Sequence[str]
) -> tuple[set[str], datetime | None]:
    """Remember `ids` as handled from `queue`; return those that are new, and the transaction's time if any is.

    Two consumers with the same id: the second waits for the first's commit and finds the id taken. The ids are
    inserted in order, so that two envelopes with the same events cannot lock each other out.
    """
    rows = (await connection.execute(_take(inbox), {"ids": sorted(set(ids)), "queue": queue})).all()
    return {row[0] for row in rows}, rows[0][1] if rows else None


async def forget_old(connection: Connection, inbox: sa.Table) -> int:
    """Delete ids that nobody can send again; return how many."""
    result = await connection.execute(sa.delete(inbox).where(inbox.c.handled_at < sa.func.now() - REMEMBER))
    return int(result.rowcount)
