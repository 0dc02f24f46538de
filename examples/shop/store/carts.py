"""Carts: one per conversation, changed under the lock of its row."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.tools import CartBlock, CartLine, ToolContext
from shop.tables import CartAdditionRow, CartItemRow, CartRow, ProductRow, VariantRow, table_of

PRODUCTS = table_of(ProductRow)
VARIANTS = table_of(VariantRow)
CARTS = table_of(CartRow)
ITEMS = table_of(CartItemRow)
ADDITIONS = table_of(CartAdditionRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """What one call puts into a cart; `variant_id` is None for a product without variants."""

    product_id: str
    variant_id: str | None
    quantity: int


async def lock_cart(connection: AsyncConnection, context: ToolContext, currency: str) -> str:
    """Open the conversation's cart if it has none, lock it for this transaction and return its currency."""
    opened = pg.insert(CARTS).values(
        tenant=context.tenant,
        conversation_id=context.conversation_id,
        requester=context.requester,
        currency=currency,
    )
    # The update of a cart that exists is what takes its row lock.
    locked = opened.on_conflict_do_update(
        index_elements=["tenant", "conversation_id"], set_={"updated_at": sa.func.clock_timestamp()}
    ).returning(CARTS.c.currency)
    return str((await connection.execute(locked)).scalar_one())


async def load_addition(connection: AsyncConnection, context: ToolContext) -> Addition | None:
    """Return what this call has added before, None when it has not; ask under the cart's lock."""
    columns = (
        ADDITIONS.c.product_id,
        ADDITIONS.c.variant_id,
        ADDITIONS.c.quantity,
    )
    own = (ADDITIONS.c.tenant == context.tenant) & (ADDITIONS.c.idempotency_key == context.idempotency_key)
    row = (await connection.execute(sa.select(*columns).where(own))).one_or_none()
    return (
        None if row is None else Addition(product_id=row.product_id, variant_id=row.variant_id, quantity=row.quantity)
    )


async def load_quantity(connection: AsyncConnection, context: ToolContext, addition: Addition) -> int:
    """Return how many of the same product and variant the locked cart holds."""
    same_line = (
        ITEMS.c.tenant == context.tenant,
        ITEMS.c.conversation_id == context.conversation_id,
        ITEMS.c.product_id == addition.product_id,
        ITEMS.c.variant_id.is_not_distinct_from(addition.variant_id),
    )
    return await connection.scalar(sa.select(ITEMS.c.quantity).where(*same_line)) or 0


async def add(connection: AsyncConnection, context: ToolContext, addition: Addition, unit_price: Decimal) -> None:
    """Add pieces to the locked cart and write down that this call did; the line takes today's price."""
    own = {"tenant": context.tenant, "conversation_id": context.conversation_id, **asdict(addition)}
    await connection.execute(pg.insert(ADDITIONS).values(idempotency_key=context.idempotency_key, **own))
    line = pg.insert(ITEMS).values(unit_price=unit_price, **own)
    changed = {
        "quantity": ITEMS.c.quantity + line.excluded.quantity,
        "unit_price": line.excluded.unit_price,
    }
    await connection.execute(line.on_conflict_do_update(constraint="cart_items_one_line_each", set_=changed))


async def load_cart(connection: AsyncConnection, context: ToolContext) -> CartBlock:
    """Return the conversation's cart, which must exist, in the order things were added."""
    own = (CARTS.c.tenant == context.tenant) & (CARTS.c.conversation_id == context.conversation_id)
    currency = (await connection.execute(sa.select(CARTS.c.currency).where(own))).scalar_one()
    items = tuple(
        CartLine(
            product_id=row.product_id,
            variant_id=row.variant_id,
            name=row.name,
            variant_label=row.label,
            quantity=row.quantity,
            unit_price=row.unit_price,
        )
        for row in await connection.execute(_cart_lines(context))
    )
    total = sum((item.quantity * item.unit_price for item in items), Decimal(0))
    return CartBlock(items=items, total=total, currency=currency)


def _cart_lines(context: ToolContext) -> sa.Select[Any]:
    of_product = (PRODUCTS.c.tenant == ITEMS.c.tenant) & (PRODUCTS.c.id == ITEMS.c.product_id)
    of_variant = (VARIANTS.c.tenant == ITEMS.c.tenant) & (VARIANTS.c.id == ITEMS.c.variant_id)
    return (
        sa.select(
            ITEMS.c.product_id,
            ITEMS.c.variant_id,
            PRODUCTS.c.name,
            VARIANTS.c.label,
            ITEMS.c.quantity,
            ITEMS.c.unit_price,
        )
        .join(PRODUCTS, of_product)
        .outerjoin(VARIANTS, of_variant)
        .where(ITEMS.c.tenant == context.tenant)
        .where(ITEMS.c.conversation_id == context.conversation_id)
        .order_by(ITEMS.c.id)
    )
