"""Deletes what no window can count any more, a batch at a time; what others have locked is left for the next look."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa

from placet.policy.tables import COUNTERS, RESERVATIONS, WATCHED_CALLS
from placet.runtime.sql import Connection

_CLOCK = sa.func.clock_timestamp()
_AGE = sa.bindparam("age", type_=sa.Interval)


def _delete(table: sa.Table, old: sa.ColumnElement[bool], order: sa.ColumnElement[object]) -> sa.Delete:
    keys = list(table.primary_key.columns)
    due = sa.select(*keys).where(old).order_by(order).limit(sa.bindparam("most", type_=sa.Integer))
    locked = due.with_for_update(skip_locked=True).cte("due")
    return sa.delete(table).where(*(key == locked.c[key.name] for key in keys))


def _unused() -> sa.ColumnElement[bool]:
    used = sa.exists().where(RESERVATIONS.c.counter_id == COUNTERS.c.counter_id).correlate(COUNTERS)
    return sa.and_(COUNTERS.c.touched_at < _CLOCK - _AGE, sa.not_(used))


#: In this order: a counter goes after its last reservation.
_STATEMENTS: Sequence[sa.Delete] = (
    _delete(RESERVATIONS, RESERVATIONS.c.reserved_at < _CLOCK - _AGE, RESERVATIONS.c.reserved_at),
    _delete(COUNTERS, _unused(), COUNTERS.c.touched_at),
    # Of one that people have not decided the end is still to come; `until` is set by a denial.
    _delete(WATCHED_CALLS, WATCHED_CALLS.c.until < _CLOCK - _AGE, WATCHED_CALLS.c.until),
)


async def purge(connection: Connection, age: timedelta, limit: int) -> list[int]:
    """Delete at most `limit` rows of each kind that are older than `age`: reservations, counters, watched calls."""
    values = {"age": age, "most": limit}
    return [(await connection.execute(statement, values)).rowcount for statement in _STATEMENTS]
