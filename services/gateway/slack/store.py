"""Which interactions of Slack came already: kept in the database, because any replica may get the second copy."""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.gateway.tables import SLACK_SEEN
from placet.runtime.sql import Connection

#: How long an interaction is remembered: far longer than Slack's signature of it is good.
REMEMBERED = timedelta(hours=1)

_ADD = pg.insert(SLACK_SEEN).values(key=sa.bindparam("key")).on_conflict_do_nothing().returning(SLACK_SEEN.c.key)
_FORGET = sa.delete(SLACK_SEEN).where(SLACK_SEEN.c.seen_at < sa.func.now() - sa.bindparam("age", type_=sa.Interval))


async def is_new(connection: Connection, key: str) -> bool:
    """Remember an interaction; tell whether it is the first time."""
    return (await connection.execute(_ADD, {"key": key})).first() is not None


async def forget_old(connection: Connection) -> None:
    """Forget interactions whose copies nobody can send any more."""
    await connection.execute(_FORGET, {"age": REMEMBERED})
