"""SQL of insights: the newest approvals of a window and the votes on them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, get_args

from placet.contracts.messages.approvals import ClosedState
from placet.gateway.insights.numbers import Held, Vote
from placet.runtime.queries import load_queries
from placet.runtime.sql import Connection

QUERIES = load_queries(__file__)
_ARGUMENTS_LENGTH_MAX = 10_000
_STATES = ["pending", *get_args(ClosedState)]


async def load_held(connection: Connection, tenant: str, since: datetime, most: int) -> list[Held]:
    """Return the newest approvals of a tenant that were asked for since then, oldest first, at most `most`."""
    rows = await connection.run(QUERIES.held, tenant=tenant, since=since, states=_STATES, most=most)
    return [Held(**row) for row in reversed(rows)]


async def load_arguments(connection: Connection, tenant: str, held: Sequence[Held], most: int) -> list[dict[str, Any]]:
    """Return different arguments of these approvals, at most `most` and none that is very long."""
    ids = [each.approval_id for each in {each.said: each for each in held}.values()][-most:]
    rows = await connection.run(QUERIES.arguments, tenant=tenant, approval_ids=ids, longest=_ARGUMENTS_LENGTH_MAX)
    return [json.loads(row["arguments"]) for row in rows]


async def load_votes(connection: Connection, tenant: str, held: Sequence[Held]) -> list[Vote]:
    """Return the votes that counted on these approvals, in the order of time."""
    ids = [each.approval_id for each in held]
    rows = await connection.run(QUERIES.votes, tenant=tenant, approval_ids=ids)
    return [Vote(**row) for row in rows]


async def waits(connection: Connection, tenant: str, agent: str) -> bool:
    """Tell whether a call of an agent waits for people."""
    (row,) = await connection.run(QUERIES.waiting_of, tenant=tenant, agent=agent)
    return bool(row["waiting"])
