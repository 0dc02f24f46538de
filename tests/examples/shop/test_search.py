"""search_products on a real catalogue (mission A3, A9)."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from placet.tools import ToolContext
from shop.catalogue import demo_catalogue
from shop.resources import ShopResources
from shop.store.products import PRODUCTS, VARIANTS, add_products
from shop.tables import ProductRow
from shop.tools import search_products
from tests.examples.shop.conftest import Call


async def _names(context: ToolContext, **wanted: Any) -> list[str]:
    found = (await search_products(context, **wanted)).data
    assert found["count"] == len(found["products"])
    return [product["name"] for product in found["products"]]


async def test_red_shoes_under_500_are_found_in_the_shape_the_model_reads(call: Call) -> None:
    """The answer is exactly count and products, prices are numbers, variants say what is left."""
    reply = await search_products(call(), text="red shoes", max_price=Decimal(500))

    assert [
        "Red Canvas Shoes",
        "Red Felt Slippers",
        "Red Ballet Flats",
        "Ember Running Shoes",
        "Red Espadrilles",
    ] == [product["name"] for product in reply.data["products"]]
    assert 5 == reply.data["count"]
    assert {
        "id": "canvas-sneaker-red",
        "name": "Red Canvas Shoes",
        "price": 449.9,
        "currency": "TRY",
        "in_stock": True,
        "on_sale": False,
        "variants": [
            {"id": "canvas-sneaker-red-36", "label": "36", "in_stock": True},
            {"id": "canvas-sneaker-red-37", "label": "37", "in_stock": True},
            {"id": "canvas-sneaker-red-38", "label": "38", "in_stock": True},
            {"id": "canvas-sneaker-red-39", "label": "39", "in_stock": False},
            {"id": "canvas-sneaker-red-40", "label": "40", "in_stock": True},
        ],
    } == reply.data["products"][0]


async def test_hits_come_with_a_carousel_that_also_knows_the_price_before_the_sale(call: Call) -> None:
    """The block shows the same products in the same order, with what a shop window needs besides."""
    reply = await search_products(call(), text="ember")

    (block,) = reply.to_json()["ui_blocks"]
    assert "product_carousel" == block["type"]
    shown = [(each["id"], each["price"], each["list_price"], each["on_sale"]) for each in block["products"]]
    assert [("runner-red", 489, 649, True)] == shown


@pytest.mark.parametrize(
    "text",
    [
        "shoes red",
        "  RED, shoe!! ",
        "the red shoes",
        "KIRMIZI AYAKKABI",
        "kırmızı ayakkabı",  # Turkish has a dotless i
        "kirmizi ayakkabilar",
        "Kırmızı ayakkabılar",  # as above
    ],
)
async def test_words_match_in_any_order_case_and_number_in_both_languages(call: Call, text: str) -> None:
    """However people write it, they mean the same shoes."""
    assert {
        "Red Canvas Shoes",
        "Red Felt Slippers",
        "Red Ballet Flats",
        "Ember Running Shoes",
        "Red Espadrilles",
    } == set(await _names(call(), text=text, max_price=Decimal(500)))


async def test_word_matches_from_its_beginning_only(call: Call) -> None:
    """`rain` finds rain boots, `ain` finds nothing: a search for "red" must not find what is "layered"."""
    assert {"Kids' Red Rain Boots", "Yellow Rain Jacket"} == set(await _names(call(), text="rain"))
    assert [] == await _names(call(), text="ain")


@pytest.mark.parametrize("text", ["?!", "%", "_", "hovercraft", "red hovercraft"])
async def test_search_without_a_hit_is_a_success_with_count_zero(call: Call, text: str) -> None:
    """Nothing found is an answer, also for text that has no word in it, and the visitor is told in their language."""
    reply = await search_products(call(language="tr-TR"), text=text)

    expected = {"type": "notice", "level": "info", "text": "Mağazada bu aramaya uyan ürün yok."}
    assert {"data": {"count": 0, "products": []}, "ui_blocks": [expected]} == reply.to_json()


async def test_at_most_eight_products_are_shown(call: Call) -> None:
    """A search for everything shows eight."""
    assert 8 == len(await _names(call()))


async def test_price_limit_is_inclusive(call: Call) -> None:
    """Under 500 includes 500."""
    assert ["Gift Card 500"] == await _names(call(), category="gift cards", max_price=Decimal(500))
    assert [] == await _names(call(), category="gift cards", max_price=Decimal("499.99"))


async def test_flags_narrow_when_true_and_leave_all_in_when_false(call: Call) -> None:
    """A model that fills in false means that it does not care."""
    shoes = {"text": "shoes", "category": "Shoes"}

    assert {"Ember Running Shoes", "Brown Suede Loafers"} == set(await _names(call(), **shoes, on_sale=True))
    everything = await _names(call(), **shoes, on_sale=False, in_stock_only=False)
    in_stock = await _names(call(), **shoes, in_stock_only=True)
    assert {"Red Espadrilles"} == set(everything) - set(in_stock)


async def test_first_calls_at_the_same_time_stock_the_shop_once(call: Call, shop: ShopResources, tenant: str) -> None:
    """The demo catalogue is given to a tenant once, whoever comes first."""
    await asyncio.gather(*(search_products(call()) for _ in range(4)))

    async with shop.database.transaction() as connection:
        counted = sa.select(sa.func.count()).select_from(PRODUCTS).where(PRODUCTS.c.tenant == tenant)
        assert await connection.scalar(counted) == len(demo_catalogue().products)


async def test_tenant_with_products_of_its_own_gets_no_others_and_shows_them_to_nobody(
    call: Call, shop: ShopResources, tenant: str
) -> None:
    """A shop sells what is its own: neither the demo's goods nor another tenant's."""
    lamp = ProductRow(
        tenant=f"{tenant}-lamps",
        id="lamp",
        name="Desk Lamp",
        description="",
        category="Lamps",
        colour="",
        price=Decimal("10.50"),
        currency="EUR",
        stock=1,
    )
    async with shop.database.transaction() as connection:
        await add_products(connection, [lamp], [])

    assert ["Desk Lamp"] == await _names(call(tenant=f"{tenant}-lamps"))
    assert [] == await _names(call(), text="lamp")


async def test_variants_of_another_tenant_do_not_mix_in(call: Call, shop: ShopResources, tenant: str) -> None:
    """Two tenants may use the same ids; stock and variants stay their own."""
    other = f"{tenant}-other"
    await search_products(call())
    await search_products(call(tenant=other))
    async with shop.database.transaction() as connection:
        own = (VARIANTS.c.tenant == tenant) & (VARIANTS.c.product_id == "ballet-flat-red")
        await connection.execute(sa.update(VARIANTS).where(own).values(stock=0))

    assert [] == await _names(call(), text="ballet", in_stock_only=True)
    assert ["Red Ballet Flats"] == await _names(call(tenant=other), text="ballet", in_stock_only=True)


class TestWithoutDemoCatalogue:
    """The shop of somebody who brings their own goods."""

    @pytest.fixture
    def shop_settings(self) -> dict[str, Any]:
        """Leave the shelves empty."""
        return {"demo_catalogue": False}

    async def test_new_tenant_sells_nothing(self, call: Call) -> None:
        """Nothing is put on the shelves that the tenant did not put there."""
        assert [] == await _names(call())
