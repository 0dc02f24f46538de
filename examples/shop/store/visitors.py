"""Visitors: what they said about themselves, and whether they asked for a person."""

from __future__ import annotations

from dataclasses import asdict
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.tools import ToolContext
from shop.rules import Contact
from shop.tables import EscalationRow, LeadHistoryRow, LeadRow, table_of

LEADS = table_of(LeadRow)
LEAD_HISTORY = table_of(LeadHistoryRow)
ESCALATIONS = table_of(EscalationRow)


async def merge_lead(connection: AsyncConnection, context: ToolContext, said: Contact) -> tuple[UUID, Contact]:
    """Merge what a visitor said into their one lead, once per idempotency key; return its id and what it now says."""
    spoken = asdict(said)
    own = {"tenant": context.tenant, "requester": context.requester}
    history = (
        pg.insert(LEAD_HISTORY)
        .values(idempotency_key=context.idempotency_key, conversation_id=context.conversation_id, **own, **spoken)
        .on_conflict_do_nothing()
        .returning(LEAD_HISTORY.c.idempotency_key)
    )
    # A repeat that comes late must not put an old address over a newer one.
    if (await connection.execute(history)).first() is not None:
        lead = pg.insert(LEADS).values(**own, **spoken)
        newest = {name: sa.func.coalesce(lead.excluded[name], LEADS.c[name]) for name in spoken}
        await connection.execute(
            lead.on_conflict_do_update(
                index_elements=["tenant", "requester"], set_={**newest, "updated_at": sa.func.clock_timestamp()}
            )
        )
    return await _load_lead(connection, context)


async def _load_lead(connection: AsyncConnection, context: ToolContext) -> tuple[UUID, Contact]:
    columns = (LEADS.c.id, LEADS.c.name, LEADS.c.email, LEADS.c.phone, LEADS.c.note)
    own = (LEADS.c.tenant == context.tenant) & (LEADS.c.requester == context.requester)
    row = (await connection.execute(sa.select(*columns).where(own))).one()
    return row.id, Contact(name=row.name, email=row.email, phone=row.phone, note=row.note)


async def open_escalation(connection: AsyncConnection, context: ToolContext, reason: str) -> tuple[UUID, str] | None:
    """Open an escalation unless this call or this conversation has one; return its id and state.

    None when the conversation's open one was closed in this very moment: the caller may simply ask again.
    """
    opened = pg.insert(ESCALATIONS).values(
        tenant=context.tenant,
        idempotency_key=context.idempotency_key,
        conversation_id=context.conversation_id,
        requester=context.requester,
        message_id=context.message_id,
        language=context.language,
        reason=reason,
    )
    await connection.execute(opened.on_conflict_do_nothing())
    same_call = ESCALATIONS.c.idempotency_key == context.idempotency_key
    open_here = (ESCALATIONS.c.conversation_id == context.conversation_id) & (ESCALATIONS.c.state == "open")
    found = (
        sa.select(ESCALATIONS.c.id, ESCALATIONS.c.state)
        .where(ESCALATIONS.c.tenant == context.tenant, sa.or_(same_call, open_here))
        .order_by(same_call.desc())
        .limit(1)
    )
    row = (await connection.execute(found)).one_or_none()
    return None if row is None else (row.id, row.state)
