"""What docs/retention.md says of the shop's tables: which there are, and how to delete what they have of one person."""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from shop.provider.server import PaymentServer
from shop.resources import ShopResources
from shop.tables import Row
from shop.tools import add_to_cart, collect_lead, create_pay_link, escalate_to_human
from tests.examples.shop.conftest import Call

PAGE = (Path(__file__).parents[3] / "docs" / "retention.md").read_text().partition("## Tables of tools")[2]
STATEMENTS = re.findall(r"^DELETE FROM [^;]+;", PAGE, re.MULTILINE)


@pytest.fixture
def shop_settings(provider: PaymentServer) -> dict[str, Any]:
    """Let the shop use the provider."""
    return {"payment_url": provider.url}


def test_the_page_names_every_table() -> None:
    """A new table of the shop fails here until the page has it."""
    assert sorted(Row.metadata.tables) == re.findall(r"`(tools\.\w+)`", PAGE)


def test_every_table_that_names_its_requester_has_a_statement() -> None:
    """Who asked stands in a column of its own."""
    naming = sorted(name for name, table in Row.metadata.tables.items() if "requester" in table.c)
    assert naming == [each.split()[2] for each in STATEMENTS]


async def _rows(shop: ShopResources, tenant: str) -> Counter[str]:
    async with shop.database.transaction() as connection:
        return Counter(
            {
                table.name: int(
                    await connection.scalar(sa.select(sa.func.count()).where(table.c.tenant == tenant)) or 0
                )
                for table in Row.metadata.tables.values()
                if table.name not in {"products", "variants"}
            }
        )


async def test_the_statements_delete_what_the_shop_has_of_one_person(
    call: Call, shop: ShopResources, tenant: str
) -> None:
    """Cart, lead, link and escalation are gone from every table; another's are all there."""
    ada = f"person:ada-of-{tenant}"
    for who in (ada, "person:bea"):
        own = {"requester": who, "conversation_id": f"conversation of {who}"}
        await add_to_cart(call(**own), product_id="tote-canvas-natural")
        await collect_lead(call(**own), name="Somebody")
        await create_pay_link(call(**own), amount=Decimal("299.90"), currency="TRY")
        await escalate_to_human(call(**own), reason="A person, please.")
    both = await _rows(shop, tenant)
    async with shop.database.transaction() as connection:
        for each in STATEMENTS:
            await connection.execute(sa.text(each.replace("person:ada", ada).replace(":", r"\:")))
    assert {2} == set(both.values())
    assert dict.fromkeys(both, 1) == dict(await _rows(shop, tenant))
