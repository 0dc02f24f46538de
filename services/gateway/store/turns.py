"""How the turns of a conversation stand: what the agent shows in schema `read`, and what the feed has told."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from services.gateway.store.read import APPROVALS, CALLS, TURNS, Row
from services.gateway.tables import FeedRow
from shared.database import table_of
from shared.sql import Connection

_FEED = table_of(FeedRow)


async def turn_waits(connection: Connection, tenant: str, turn_id: str, call_ids: Collection[str]) -> bool:
    """Tell whether a turn goes on only when people have decided: on calls among `call_ids`, and on no other."""
    turns, calls, approvals = TURNS.c, CALLS.c, APPROVALS.c
    open_elsewhere = sa.exists().where(
        calls.tenant == tenant,
        calls.turn_id == turn_id,
        calls.result_kind.is_(None),
        calls.call_id.not_in(list(call_ids)),
    )
    # Such a rule lets the model go on at once.
    goes_on = sa.exists().where(
        approvals.tenant == tenant,
        approvals.turn_id == turn_id,
        approvals.call_id.in_(list(call_ids)),
        approvals.approval_rule["while_pending"].astext == "continue",
    )
    waits = sa.select(sa.literal(1)).where(
        turns.tenant == tenant, turns.turn_id == turn_id, turns.state == "waiting", ~open_elsewhere, ~goes_on
    )
    return (await connection.execute(waits)).first() is not None


async def load_newest_turn(connection: Connection, tenant: str, conversation_id: str) -> Row | None:
    """Return the newest turn of a conversation."""
    c = TURNS.c
    statement = sa.select(TURNS).where(c.tenant == tenant, c.conversation_id == conversation_id)
    found = (await connection.execute(statement.order_by(c.started_at.desc()).limit(1))).mappings().one_or_none()
    return dict(found) if found else None


async def turn_had_approval(connection: Connection, tenant: str, turn_id: str) -> bool:
    """Tell whether a call of a turn was held for people."""
    c = APPROVALS.c
    held = sa.select(sa.literal(1)).where(c.tenant == tenant, c.turn_id == turn_id)
    return (await connection.execute(held.limit(1))).first() is not None


async def load_turn_start(connection: Connection, tenant: str, conversation_id: str, turn_id: str) -> int | None:
    """Return the number of the feed item that tells of a turn's beginning; None where there is no such turn here."""
    c = _FEED.c
    began = sa.select(c.seq).where(
        c.tenant == tenant,
        c.conversation_id == conversation_id,
        c.type == "turn",
        c.data["turn_id"].astext == turn_id,
        c.data["state"].astext == "started",
    )
    return (await connection.execute(began.limit(1))).scalar_one_or_none()


async def turn_end_is_kept(connection: Connection, tenant: str, conversation_id: str, turn_id: str) -> bool:
    """Tell whether the feed says that a turn is over: the agent knows it a moment earlier than clients do."""
    c = _FEED.c
    ended = sa.select(sa.literal(1)).where(
        c.tenant == tenant,
        c.conversation_id == conversation_id,
        c.type == "turn",
        c.data["turn_id"].astext == turn_id,
        c.data["state"].astext != "started",
    )
    return (await connection.execute(ended.limit(1))).first() is not None
