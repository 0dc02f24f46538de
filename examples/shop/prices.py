"""Prices that wait: `set_price` can be staged, so that one yes counts for a whole round of new prices.

The smallest pack that can stage: its keys are product ids, its contents are prices, and a commit is one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, ClassVar

from placet.tools import (
    CannotApply,
    Change,
    Content,
    DecidedChange,
    Described,
    Staging,
    ToolContext,
    ToolError,
    ToolReply,
)
from shop import rules
from shop.resources import open_resources, shop_of
from shop.store import products
from shop.tools import filter_of, found

__all__ = ["PRICES", "open_resources", "search_products", "set_price"]


class Prices(Staging):
    """The prices of a tenant's products, under their ids."""

    name: ClassVar[str] = "prices"

    async def stage(self, function: str, arguments: Mapping[str, Any], context: ToolContext) -> Sequence[Change]:
        """Return the new price of a product; ToolError unknown_product, list_price, no_change."""
        assert function == set_price.__name__  # noqa: S101 - the pack has one tool
        key, price = arguments["product_id"], rules.checked_amount(arguments["price"])
        before = await self.read(key, context)
        if before is None:
            raise ToolError(f"There is no product {key!r}; search for it first.", code="unknown_product")
        amount, currency, list_price = before.data.decode().split()
        if list_price != "-" and price >= Decimal(list_price):
            raise ToolError(f"On sale from {list_price}, so it must cost less.", code="list_price")
        if price == Decimal(amount):
            raise ToolError(f"It costs {amount} {currency} already.", code="no_change")
        return [Change(key, before, _content(price, currency, list_price))]

    async def current(self, key: str, context: ToolContext) -> Content | None:
        """Return what a product costs now."""
        shop = shop_of(context)
        await shop.ensure_stocked(context.tenant)
        async with shop.database.transaction() as connection:
            found = await products.load_price(connection, context.tenant, key)
        return found and _content(found.price, found.currency, "-" if found.list_price is None else found.list_price)

    async def waiting(self, context: ToolContext) -> dict[str, Decimal]:
        """Return the prices that wait in the conversation's workspace, by product."""
        waiting = await context.workspace.under(self.name, "")
        contents = {key: await context.workspace.load(each) for key, each in waiting.items() if each.digest}
        return {key: Decimal(content.decode().split()[0]) for key, content in contents.items()}

    def describe(self, change: Change) -> Described:
        """Return both prices in a line."""
        before, after = (each.data.decode().split() if each else ["-"] for each in (change.before, change.after))
        line = f"{change.key}: {before[0]} → {' '.join(after[:2])}"
        return Described(line, f"-{before[0]}\n+{after[0]}", added=1, removed=1)

    async def apply(self, changes: Sequence[DecidedChange], context: ToolContext) -> None:
        """Set all prices in one transaction; those that are set already stay."""
        async with shop_of(context).database.transaction() as connection:
            for change in changes:
                price = (await change.load()).decode().split()[0]
                found = await products.load_price(connection, context.tenant, change.key, lock=True)
                stands = found and _content(found.price, found.currency, found.list_price or "-")
                if stands is None or stands.digest not in {change.base, change.after}:
                    raise CannotApply(f"the price of {change.key!r} has just been changed by others")
                await products.set_price(connection, context.tenant, change.key, Decimal(price))


PRICES = Prices()


def _content(price: Decimal, currency: str, list_price: Decimal | str) -> Content:
    return Content(f"{price:.2f} {currency} {list_price}".encode())


async def search_products(
    context: ToolContext,
    *,
    text: str | None = None,
    category: str | None = None,
    max_price: Decimal | None = None,
    on_sale: bool = False,
    in_stock_only: bool = False,
) -> ToolReply:
    """Find products as visitors do, at the prices that they would have when what waits is let through."""
    wanted = filter_of(text, category, max_price, on_sale=on_sale, in_stock_only=in_stock_only)
    return await found(context, replace(wanted, prices=await PRICES.waiting(context)))


async def set_price(context: ToolContext, *, product_id: str, price: Decimal) -> dict[str, str]:
    """Set what a product costs, at once; `{"product_id", "price"}`."""
    (change,) = await PRICES.stage("set_price", {"product_id": product_id, "price": price}, context)
    wanted = rules.checked_amount(price)
    async with shop_of(context).database.transaction() as connection:
        await products.set_price(connection, context.tenant, change.key, wanted)
    return {"product_id": product_id, "price": f"{wanted:.2f}"}
