"""Deletes what no window can count any more, a batch at a time; what others have locked is left for the next look."""

from __future__ import annotations

from datetime import timedelta

from placet.runtime.queries import load_queries
from placet.runtime.sql import Connection

QUERIES = load_queries(__file__, "purge.sql")


async def purge(connection: Connection, age: timedelta, limit: int) -> list[int]:
    """Delete at most `limit` rows of each kind that are older than `age`: reservations, counters, watched calls."""
    kinds = QUERIES.reservations, QUERIES.counters, QUERIES.watched_calls
    return [len(await connection.run(each, age=age, most=limit)) for each in kinds]
