"""Prices wait as files do: the contract of packs is none of files alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from placet.testing import TestedTools, TestedWorkspace, open_tools, tool_context
from placet.tools import CannotApply, ToolContext, ToolError
from shop.prices import PRICES

RULEBOOK = Path(__file__).parents[3] / "examples" / "shop" / "prices.yaml"


@pytest.fixture
async def tools(shop_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TestedTools]:
    """The tools of those who keep the shop."""
    monkeypatch.setenv("PLACET_DATA", str(tmp_path))
    async with open_tools(RULEBOOK, database_url=shop_database_url) as opened:
        yield opened


async def price_of(tools: TestedTools, context: ToolContext, text: str) -> str:
    """Return the price that visitors see of what they look for."""
    found = await tools.call("search_products", text=text, context=context)
    return str(found.data["products"][0]["price"])


async def test_a_round_of_prices_waits_and_is_made_at_once(tools: TestedTools) -> None:
    """Two products, one of them twice: visitors see the old prices until the commit, then the last ones."""
    context, workspace = tool_context(tenant="prices-round"), TestedWorkspace()
    (told,) = await tools.stage("set_price", workspace, context=context, product_id="tshirt-white", price=199)
    await tools.stage("set_price", workspace, context=context, product_id="jeans-slim-dark", price=650)
    (again,) = await tools.stage("set_price", workspace, context=context, product_id="tshirt-white", price=209)
    lines = ["tshirt-white: 249.00 → 199.00 TRY", "tshirt-white: 199.00 → 209.00 TRY"]
    assert lines == [told.summary, again.summary]
    assert "249" == await price_of(tools, context, "cotton t-shirt")
    assert [] == await tools.commit("set_price", workspace, context=context)
    assert ["209", "650"] == [await price_of(tools, context, text) for text in ("cotton t-shirt", "slim jeans")]


async def test_who_proposes_prices_reads_them_on(tools: TestedTools) -> None:
    """In the conversation where they wait, a search finds, sorts and bounds by the new prices; elsewhere by the old."""
    workspace = TestedWorkspace()
    here, elsewhere = tool_context(tenant="prices-read", workspace=workspace), tool_context(tenant="prices-read")
    await tools.stage("set_price", workspace, context=here, product_id="tshirt-white", price=199)
    assert ["199", "249"] == [await price_of(tools, each, "cotton t-shirt") for each in (here, elsewhere)]
    wanted = {"text": "cotton t-shirt", "max_price": 200}
    found = [(await tools.call("search_products", context=each, **wanted)).data["count"] for each in (here, elsewhere)]
    assert [1, 0] == found


async def test_a_price_that_others_changed_is_a_conflict(tools: TestedTools) -> None:
    """Nobody's price is overwritten unseen, and no other price of the round is made."""
    context, workspace = tool_context(tenant="prices-conflict"), TestedWorkspace()
    await tools.stage("set_price", workspace, context=context, product_id="tshirt-white", price=199)
    await tools.stage("set_price", workspace, context=context, product_id="jeans-slim-dark", price=650)
    await tools.call("set_price", context=context, product_id="tshirt-white", price=229)
    assert ["tshirt-white"] == await tools.commit("set_price", workspace, context=context)
    assert ["229", "699"] == [await price_of(tools, context, text) for text in ("cotton t-shirt", "slim jeans")]


async def test_a_round_that_is_made_twice_is_made_once(tools: TestedTools) -> None:
    """A process that was killed after the commit leaves it to the next: what is made stays, what others did is said."""
    context, workspace = tool_context(tenant="prices-again"), TestedWorkspace()
    await tools.stage("set_price", workspace, context=context, product_id="tshirt-white", price=199)
    (decided,) = workspace.decided("prices")
    ready = tools.context(context)
    await PRICES.apply([decided], ready)
    await PRICES.apply([decided], ready)
    assert "199" == await price_of(tools, context, "cotton t-shirt")
    await tools.call("set_price", context=context, product_id="tshirt-white", price=229)
    with pytest.raises(CannotApply):
        await PRICES.apply([decided], ready)


@pytest.mark.parametrize(
    ("product", "price", "code"),
    [
        ("none", 1, "unknown_product"),
        ("tshirt-white", 249, "no_change"),
        ("tshirt-stripe-blue", 399, "list_price"),
        ("tshirt-white", 1.001, "invalid_amount"),
    ],
)
async def test_a_price_that_cannot_be_says_why(tools: TestedTools, product: str, price: float, code: str) -> None:
    """Staged or at once, the answer is the same."""
    context = tool_context(tenant="prices-refused")
    wanted: dict[str, Any] = {"product_id": product, "price": price, "context": context}
    with pytest.raises(ToolError) as staged:
        await tools.stage("set_price", TestedWorkspace(), **wanted)
    with pytest.raises(ToolError) as at_once:
        await tools.call("set_price", **wanted)
    assert (code, code) == (staged.value.code, at_once.value.code)
