"""What the gateway reads of jobs, by name from `queries.sql`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placet.gateway.conversations.items import Item
from placet.gateway.store.paging import Cursor
from placet.runtime.queries import load_queries
from placet.runtime.sql import Connection

QUERIES = load_queries(__file__)

Row = Mapping[str, Any]


async def list_jobs(
    connection: Connection, tenant: str, *, whose: str | None, state: str | None, after: Cursor | None, limit: int
) -> list[Row]:
    """Return jobs of a tenant, or only those that one person asked for, newest first, from after a cursor on."""
    place = {"after_at": after.at if after else None, "after_id": after.id if after else None}
    rows = await connection.run(QUERIES.list_jobs, tenant=tenant, author=whose, state=state, most=limit, **place)
    return [dict(row) for row in rows]


async def find_job(connection: Connection, tenant: str, job_id: str) -> Row | None:
    """Return one job of a tenant."""
    rows = await connection.run(QUERIES.find_job, tenant=tenant, job_id=job_id)
    return dict(rows[0]) if rows else None


async def tasks_of(connection: Connection, tenant: str, job_id: str) -> list[Row]:
    """Return a job's tasks by number; 0 is its division."""
    return [dict(row) for row in await connection.run(QUERIES.tasks_of, tenant=tenant, job_id=job_id)]


async def attempts_of(connection: Connection, tenant: str, job_id: str) -> list[Row]:
    """Return a job's attempts, by task and then by number."""
    return [dict(row) for row in await connection.run(QUERIES.attempts_of, tenant=tenant, job_id=job_id)]


async def open_cards(connection: Connection, tenant: str, conversation_ids: Sequence[str]) -> list[tuple[str, str]]:
    """Return conversations with the approvals that wait there and in the jobs done there, the oldest approval first."""
    found = await connection.run(QUERIES.open_cards, tenant=tenant, conversation_ids=list(conversation_ids))
    return [(row["conversation_id"], row["approval_id"]) for row in found]


async def read_log(connection: Connection, tenant: str, job_id: str, after: int, limit: int) -> list[Item]:
    """Return the lines of a job's log after the number `after`, oldest first."""
    rows = await connection.run(QUERIES.read_log, tenant=tenant, job_id=job_id, after=after, limit=limit)
    return [Item(row["seq"], row["type"], row["at"].isoformat(), row["data"]) for row in rows]


async def conversation_of(connection: Connection, tenant: str, job_id: str, attempt_id: str) -> str | None:
    """Return the conversation of an attempt; None where the job has none of that id."""
    rows = await connection.run(QUERIES.conversation_of, tenant=tenant, job_id=job_id, attempt_id=attempt_id)
    return rows[0][0] if rows else None
