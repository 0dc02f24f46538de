"""SQL of who answers in conversations: moving it, and finding those that people hold."""

from __future__ import annotations

from placet.gateway.conversations.holder import Held
from placet.gateway.conversations.store import TITLE_MAX, Conversation
from placet.gateway.states import MACHINE, State
from placet.gateway.store.paging import Cursor
from placet.gateway.store.read import Row
from placet.runtime.queries import load_queries
from placet.runtime.sql import Connection

QUERIES = load_queries(__file__)


async def move_holder(connection: Connection, conversation: Conversation, after: Held, reason: str) -> bool:
    """Store who answers in a locked conversation from now on; tell whether nobody was faster."""
    if conversation.held.state is not MACHINE.initial:
        reason = conversation.held_reason if after.by_people else ""
    moved = await connection.run(
        QUERIES.move_holder,
        tenant=conversation.tenant,
        conversation_id=conversation.conversation_id,
        holder=after.state.value,
        revision=after.revision,
        operator=after.operator,
        reason=reason,
        by_people=after.by_people,
        holder_before=conversation.holder,
    )
    return bool(moved)


async def list_held(
    connection: Connection, tenant: str, state: State | None, *, after: Cursor | None = None, limit: int
) -> list[Row]:
    """Return conversations that people hold, those held last first; `state` narrows to one way of holding.

    With each stands how its newest message of anybody begins, `newest_text`; None where nobody has written yet.
    """
    rows = await connection.run(
        QUERIES.list_held,
        tenant=tenant,
        state=state.value if state else None,
        after_at=after.at if after else None,
        after_id=after.id if after else None,
        most=limit,
        title_max=TITLE_MAX,
    )
    return [dict(row) for row in rows]
