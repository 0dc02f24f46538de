"""add_to_cart on real tables (mission A4, A9)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa

from placet.tools import ToolError
from shop.resources import ShopResources
from shop.store.carts import ADDITIONS, CARTS, ITEMS
from shop.store.products import PRODUCTS
from shop.tools import add_to_cart
from tests.examples.shop.conftest import Call


async def _refusal(call: Call, **arguments: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await add_to_cart(call(), **arguments)
    return caught.value


async def test_cart_comes_back_in_the_shape_the_model_reads(call: Call) -> None:
    """The whole cart is the answer: lines with unit prices, the total, the currency."""
    await add_to_cart(call(), product_id="tote-canvas-natural")
    reply = await add_to_cart(call(), product_id="canvas-sneaker-red", variant_id="canvas-sneaker-red-38", quantity=2)

    bag: dict[str, Any] = {
        "product_id": "tote-canvas-natural",
        "variant_id": None,
        "name": "Canvas Tote Bag",
        "quantity": 1,
        "unit_price": 189,
    }
    shoes: dict[str, Any] = {
        "product_id": "canvas-sneaker-red",
        "variant_id": "canvas-sneaker-red-38",
        "name": "Red Canvas Shoes",
        "quantity": 2,
        "unit_price": 449.9,
    }
    lines = [{**bag, "variant_label": None}, {**shoes, "variant_label": "38"}]
    assert {
        "data": {"cart": {"items": [bag, shoes], "total": 1088.8, "currency": "TRY"}},
        "ui_blocks": [{"type": "cart", "items": lines, "total": 1088.8, "currency": "TRY"}],
    } == reply.to_json()


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ({"product_id": "moon"}, "unknown_product", "There is no product 'moon'; search for it first."),
        ({"product_id": "silk-scarf-turquoise"}, "sold_out", "Turquoise Silk Scarf is sold out."),
        ({"product_id": "espadrille-red"}, "sold_out", "Red Espadrilles is sold out."),
        (
            {"product_id": "canvas-sneaker-red", "variant_id": "canvas-sneaker-red-39"},
            "sold_out",
            "Red Canvas Shoes, 39 is sold out.",
        ),
        (
            {"product_id": "canvas-sneaker-red", "variant_id": "runner-red-40"},
            "unknown_variant",
            "Red Canvas Shoes has no variant 'runner-red-40'.",
        ),
        (
            {"product_id": "tote-canvas-natural", "variant_id": "x"},
            "unknown_variant",
            "Canvas Tote Bag has no variant 'x'.",
        ),
        (
            {"product_id": "crossbody-red", "quantity": 6},
            "not_enough_stock",
            "Only 5 of Red Crossbody Bag left; the cart would hold 6.",
        ),
        ({"product_id": "gift-card-500", "quantity": 0}, "invalid_quantity", "The quantity must be from 1 to 99."),
        ({"product_id": "gift-card-500", "quantity": 100}, "invalid_quantity", "The quantity must be from 1 to 99."),
    ],
)
async def test_impossible_wish_is_a_clear_error_and_leaves_no_cart(
    call: Call, shop: ShopResources, tenant: str, arguments: dict[str, Any], code: str, text: str
) -> None:
    """The model learns what is wrong; nothing of the failed attempt stays behind."""
    error = await _refusal(call, **arguments)

    assert (code, text) == (error.code, error.text)
    async with shop.database.transaction() as connection:
        for table in (CARTS, ITEMS, ADDITIONS):
            counted = sa.select(sa.func.count()).select_from(table).where(table.c.tenant == tenant)
            assert 0 == await connection.scalar(counted)


async def test_product_with_variants_and_none_chosen_names_the_choices(call: Call) -> None:
    """The error carries what the model needs to ask or to choose."""
    error = await _refusal(call, product_id="ballet-flat-red")

    assert (
        "variant_required",
        "Red Ballet Flats comes in variants; choose one and give its variant_id.",
    ) == (error.code, error.text)
    assert {"id": "ballet-flat-red-36", "label": "36", "in_stock": True} == error.data["variants"][0]


async def test_additions_at_the_same_time_all_count(call: Call) -> None:
    """Five calls in parallel put five pieces on one line."""
    await asyncio.gather(*(add_to_cart(call(), product_id="gift-card-500", quantity=2) for _ in range(5)))

    cart = (await add_to_cart(call(), product_id="gift-card-500")).data["cart"]
    assert [(11, 5500)] == [(item["quantity"], cart["total"]) for item in cart["items"]]


async def test_additions_at_the_same_time_never_exceed_the_stock(call: Call) -> None:
    """Of three pieces, four parallel calls get three; the fourth is told."""
    wishes = [add_to_cart(call(), product_id="watch-steel") for _ in range(4)]
    results = await asyncio.gather(*wishes, return_exceptions=True)

    refused = [result.code for result in results if isinstance(result, ToolError)]
    assert ["not_enough_stock"] == refused


async def test_repeat_with_the_same_key_adds_nothing(call: Call) -> None:
    """A call that the executor repeats, also while its first attempt still runs, counts once."""
    attempts = [call(idempotency_key="once", fence=fence) for fence in (1, 2, 3)]
    replies = await asyncio.gather(*(add_to_cart(each, product_id="wool-scarf-red", quantity=2) for each in attempts))

    assert [2, 2, 2] == [reply.data["cart"]["items"][0]["quantity"] for reply in replies]


async def test_same_key_with_another_wish_is_refused(call: Call) -> None:
    """A key belongs to one wish."""
    await add_to_cart(call(idempotency_key="once"), product_id="wool-scarf-red")
    with pytest.raises(ToolError) as caught:
        await add_to_cart(call(idempotency_key="once"), product_id="wool-scarf-red", quantity=2)
    assert "idempotency_conflict" == caught.value.code


async def test_repeat_is_answered_even_when_the_product_is_sold_out_meanwhile(
    call: Call, shop: ShopResources, tenant: str
) -> None:
    """What has happened is not judged a second time."""
    await add_to_cart(call(idempotency_key="once"), product_id="wool-scarf-red")
    async with shop.database.transaction() as connection:
        await connection.execute(sa.update(PRODUCTS).where(PRODUCTS.c.tenant == tenant).values(stock=0))

    reply = await add_to_cart(call(idempotency_key="once"), product_id="wool-scarf-red")
    assert 1 == reply.data["cart"]["items"][0]["quantity"]


async def test_line_takes_todays_price(call: Call, shop: ShopResources, tenant: str) -> None:
    """Who adds again after a price change pays the price they saw last."""
    await add_to_cart(call(), product_id="wool-scarf-red")
    async with shop.database.transaction() as connection:
        await connection.execute(sa.update(PRODUCTS).where(PRODUCTS.c.tenant == tenant).values(price=310))

    assert 620 == (await add_to_cart(call(), product_id="wool-scarf-red")).data["cart"]["total"]


async def test_product_in_another_currency_does_not_go_into_the_cart(
    call: Call, shop: ShopResources, tenant: str
) -> None:
    """A cart has one total."""
    await add_to_cart(call(), product_id="wool-scarf-red")
    async with shop.database.transaction() as connection:
        await connection.execute(sa.update(PRODUCTS).where(PRODUCTS.c.tenant == tenant).values(currency="EUR"))

    assert "other_currency" == (await _refusal(call, product_id="gift-card-500")).code


async def test_carts_of_conversations_and_tenants_stay_apart(call: Call, tenant: str) -> None:
    """Each conversation has its own cart, and the same conversation id of another tenant is another cart."""
    shoe: dict[str, Any] = {"product_id": "runner-red", "variant_id": "runner-red-41"}
    await add_to_cart(call(), **shoe)

    elsewhere = [call(conversation_id="conversation-2"), call(tenant=f"{tenant}-other", idempotency_key="once")]
    for context in elsewhere:
        cart = (await add_to_cart(context, product_id="gift-card-500")).data["cart"]
        assert ["gift-card-500"] == [item["product_id"] for item in cart["items"]]
    cart = (await add_to_cart(call(), **shoe)).data["cart"]
    assert [("runner-red-41", 2)] == [(item["variant_id"], item["quantity"]) for item in cart["items"]]
