"""Products and their variants: add, find, load for the cart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.tools import ProductCard, ProductVariant
from shop.rules import ProductStock, VariantStock
from shop.tables import ProductRow, VariantRow, table_of

PRODUCTS = table_of(ProductRow)
VARIANTS = table_of(VariantRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductFilter:
    """What to look for; each field narrows, empty terms and None do not. `max_price` is inclusive.

    `prices` stand in the place of those in the catalogue, by product id.
    """

    terms: Sequence[str] = ()
    category_terms: Sequence[str] = ()
    max_price: Decimal | None = None
    on_sale_only: bool = False
    in_stock_only: bool = False
    limit: int
    prices: Mapping[str, Decimal] = field(default_factory=dict)


async def has_products(connection: AsyncConnection, tenant: str) -> bool:
    """Tell whether the tenant sells anything at all."""
    return bool(await connection.scalar(sa.select(sa.exists().where(PRODUCTS.c.tenant == tenant))))


async def add_products(
    connection: AsyncConnection, products: Iterable[ProductRow], variants: Iterable[VariantRow]
) -> None:
    """Add products and variants; those whose ids the tenant already uses stay as they are."""
    generated = {"name_words", "category_words", "search_words"}
    values = [row.model_dump(exclude=generated) for row in products]
    await connection.execute(pg.insert(PRODUCTS).values(values).on_conflict_do_nothing())
    if values := [row.model_dump() for row in variants]:
        await connection.execute(pg.insert(VARIANTS).values(values).on_conflict_do_nothing())


async def find_products(connection: AsyncConnection, tenant: str, wanted: ProductFilter) -> tuple[ProductCard, ...]:
    """Return the best hits: most words in the name first, then what is in stock, then the cheapest."""
    rows = (await connection.execute(_search(tenant, wanted))).all()
    variants = await _variants(connection, tenant, [row.id for row in rows])
    return tuple(
        ProductCard(
            id=row.id,
            name=row.name,
            price=row.price,
            list_price=row.list_price,
            currency=row.currency,
            in_stock=row.in_stock,
            on_sale=row.on_sale,
            variants=tuple(ProductVariant(id=v.id, label=v.label, in_stock=v.stock > 0) for v in variants[row.id]),
        )
        for row in rows
    )


def _search(tenant: str, wanted: ProductFilter) -> sa.Select[Any]:
    in_stock, price = _in_stock(), _price(wanted.prices)
    statement = sa.select(
        PRODUCTS.c.id,
        PRODUCTS.c.name,
        price.label("price"),
        PRODUCTS.c.list_price,
        PRODUCTS.c.currency,
        PRODUCTS.c.on_sale,
        in_stock.label("in_stock"),
    ).where(PRODUCTS.c.tenant == tenant)
    statement = statement.where(*(_begins(PRODUCTS.c.search_words, term) for term in wanted.terms))
    statement = statement.where(*(_begins(PRODUCTS.c.category_words, term) for term in wanted.category_terms))
    if wanted.max_price is not None:
        statement = statement.where(price <= wanted.max_price)
    if wanted.on_sale_only:
        statement = statement.where(PRODUCTS.c.on_sale)
    if wanted.in_stock_only:
        statement = statement.where(in_stock)
    best_first = (
        _words_in_name(wanted.terms).desc(),
        in_stock.desc(),
        price,
        PRODUCTS.c.id,
    )
    return statement.order_by(*best_first).limit(wanted.limit)


def _price(others: Mapping[str, Decimal]) -> sa.ColumnElement[Decimal]:
    if not others:
        return PRODUCTS.c.price
    return sa.case(
        *((PRODUCTS.c.id == key, sa.literal(price)) for key, price in others.items()), else_=PRODUCTS.c.price
    )


def _begins(words: sa.ColumnElement[str], term: str) -> sa.ColumnElement[bool]:
    # A term is letters and digits only, so it holds no wildcard; each word has a space before it.
    return words.like(f"% {term}%")


def _words_in_name(terms: Sequence[str]) -> sa.ColumnElement[int]:
    count: sa.ColumnElement[int] = sa.literal(0)
    for term in terms:
        count = count + sa.case((_begins(PRODUCTS.c.name_words, term), 1), else_=0)
    return count


def _in_stock() -> sa.ColumnElement[bool]:
    own = (VARIANTS.c.tenant == PRODUCTS.c.tenant) & (VARIANTS.c.product_id == PRODUCTS.c.id)
    any_left = sa.exists().where(own & (VARIANTS.c.stock > 0)).correlate(PRODUCTS)
    no_variants = ~sa.exists().where(own).correlate(PRODUCTS)
    return sa.or_(any_left, no_variants & (PRODUCTS.c.stock > 0))


async def _variants(
    connection: AsyncConnection, tenant: str, product_ids: Sequence[str]
) -> dict[str, list[VariantStock]]:
    columns = (VARIANTS.c.product_id, VARIANTS.c.id, VARIANTS.c.label, VARIANTS.c.stock)
    of_products = (VARIANTS.c.tenant == tenant) & VARIANTS.c.product_id.in_(product_ids)
    in_order = (VARIANTS.c.position, VARIANTS.c.id)
    found: dict[str, list[VariantStock]] = {product_id: [] for product_id in product_ids}
    for row in await connection.execute(sa.select(*columns).where(of_products).order_by(*in_order)):
        found[row.product_id].append(VariantStock(id=row.id, label=row.label, stock=row.stock))
    return found


async def load_product(connection: AsyncConnection, tenant: str, product_id: str) -> ProductStock | None:
    """Return the tenant's product with its stock, None when the tenant has no such product."""
    columns = (PRODUCTS.c.name, PRODUCTS.c.price, PRODUCTS.c.currency, PRODUCTS.c.stock)
    own = (PRODUCTS.c.tenant == tenant) & (PRODUCTS.c.id == product_id)
    row = (await connection.execute(sa.select(*columns).where(own))).one_or_none()
    if row is None:
        return None
    variants = (await _variants(connection, tenant, [product_id]))[product_id]
    return ProductStock(
        id=product_id,
        name=row.name,
        price=row.price,
        currency=row.currency,
        stock=row.stock,
        variants=tuple(variants),
    )


async def load_price(connection: AsyncConnection, tenant: str, product_id: str, *, lock: bool = False) -> Any | None:
    """Return `price`, `list_price` and `currency` of a product, None when the tenant has no such product."""
    own = (PRODUCTS.c.tenant == tenant) & (PRODUCTS.c.id == product_id)
    statement = sa.select(PRODUCTS.c.price, PRODUCTS.c.list_price, PRODUCTS.c.currency).where(own)
    return (await connection.execute(statement.with_for_update() if lock else statement)).one_or_none()


async def set_price(connection: AsyncConnection, tenant: str, product_id: str, price: Decimal) -> None:
    """Set what a product costs."""
    own = (PRODUCTS.c.tenant == tenant) & (PRODUCTS.c.id == product_id)
    await connection.execute(sa.update(PRODUCTS).where(own).values(price=price))
