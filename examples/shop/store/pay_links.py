"""Payment links: the wish is written down before the provider is asked, the link before it is given out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from decimal import Decimal

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.tools import ToolContext
from shop.tables import PayLinkRow, table_of

PAY_LINKS = table_of(PayLinkRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class PayLinkOrder:
    """A payment link somebody wants; `amount` has exactly two decimals."""

    amount: Decimal
    currency: str
    note: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PayLink(PayLinkOrder):
    """The link as recorded; `link_id` and `url` are None until the provider's answer was stored."""

    link_id: str | None
    url: str | None


async def add_pay_link(connection: AsyncConnection, context: ToolContext, order: PayLinkOrder) -> PayLink:
    """Write down the wish for a link, once per idempotency key, and return what stands there now."""
    wish = pg.insert(PAY_LINKS).values(
        tenant=context.tenant,
        idempotency_key=context.idempotency_key,
        call_id=context.call_id,
        conversation_id=context.conversation_id,
        requester=context.requester,
        **asdict(order),
    )
    await connection.execute(wish.on_conflict_do_nothing())
    columns = (
        PAY_LINKS.c.amount,
        PAY_LINKS.c.currency,
        PAY_LINKS.c.note,
        PAY_LINKS.c.link_id,
        PAY_LINKS.c.url,
    )
    row = (await connection.execute(sa.select(*columns).where(*_own_link(context)))).one()
    return PayLink(amount=row.amount, currency=row.currency, note=row.note, link_id=row.link_id, url=row.url)


async def record_pay_link(connection: AsyncConnection, context: ToolContext, *, link_id: str, url: str) -> bool:
    """Store the provider's answer; False when another link already stands there (nothing is overwritten)."""
    unset_or_same = sa.or_(PAY_LINKS.c.link_id.is_(None), PAY_LINKS.c.link_id == link_id)
    statement = (
        sa.update(PAY_LINKS)
        .where(*_own_link(context), unset_or_same)
        .values(link_id=link_id, url=url, recorded_at=sa.func.coalesce(PAY_LINKS.c.recorded_at, sa.func.now()))
    )
    return (await connection.execute(statement)).rowcount == 1


def _own_link(context: ToolContext) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        PAY_LINKS.c.tenant == context.tenant,
        PAY_LINKS.c.idempotency_key == context.idempotency_key,
    )
