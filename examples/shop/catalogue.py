"""The demo catalogue: read from `catalogue.yaml`, given to a tenant that sells nothing yet.

It is data beside the code, so that people can read and change what the demo sells without reading Python.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from importlib.resources import files

import yaml
from pydantic import BaseModel, ConfigDict

from shop.store import ShopDatabase
from shop.store.products import add_products, has_products
from shop.tables import ProductRow, VariantRow


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class VariantEntry(_Entry):
    """A variant as the file writes it; its id is the product's with the label behind it."""

    label: str
    stock: int


class ProductEntry(_Entry):
    """A product as the file writes it; prices are text, so that YAML makes no floats of them."""

    id: str
    name: str
    description: str
    category: str
    colour: str
    price: Decimal
    list_price: Decimal | None = None
    stock: int = 0
    variants: tuple[VariantEntry, ...] = ()


class Catalogue(_Entry):
    """The whole file."""

    currency: str
    products: tuple[ProductEntry, ...]


@cache
def demo_catalogue() -> Catalogue:
    """Return the catalogue that comes with the shop."""
    text = files(__package__).joinpath("catalogue.yaml").read_text(encoding="utf-8")
    return Catalogue.model_validate(yaml.safe_load(text))


async def seed_tenant(database: ShopDatabase, tenant: str) -> bool:
    """Give the tenant the demo catalogue, all of it or nothing; False when it sells something already."""
    async with database.transaction() as connection:
        if await has_products(connection, tenant):
            return False
        await add_products(connection, *_rows(demo_catalogue(), tenant))
        return True


def _rows(catalogue: Catalogue, tenant: str) -> tuple[list[ProductRow], list[VariantRow]]:
    products = [_product(entry, tenant, catalogue.currency) for entry in catalogue.products]
    variants = [
        VariantRow(
            tenant=tenant,
            id=f"{entry.id}-{variant.label.lower()}",
            product_id=entry.id,
            label=variant.label,
            position=position,
            stock=variant.stock,
        )
        for entry in catalogue.products
        for position, variant in enumerate(entry.variants)
    ]
    return products, variants


def _product(entry: ProductEntry, tenant: str, currency: str) -> ProductRow:
    return ProductRow(
        tenant=tenant,
        id=entry.id,
        name=entry.name,
        description=entry.description,
        category=entry.category,
        colour=entry.colour,
        price=entry.price,
        list_price=entry.list_price,
        currency=currency,
        on_sale=entry.list_price is not None,
        stock=entry.stock,
    )
