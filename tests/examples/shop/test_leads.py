"""collect_lead on real tables (mission A7, A9)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa

from placet.tools import ToolError
from shop.resources import ShopResources
from shop.store.visitors import LEAD_HISTORY, LEADS
from shop.tools import collect_lead
from tests.examples.shop.conftest import Call

FIELDS = ("requester", "name", "email", "phone", "note")


async def _rows(shop: ShopResources, table: sa.Table, tenant: str) -> list[tuple[Any, ...]]:
    columns = [table.c[name] for name in FIELDS]
    in_order = table.c.said_at if "said_at" in table.c else table.c.created_at
    async with shop.database.transaction() as connection:
        found = await connection.execute(sa.select(*columns).where(table.c.tenant == tenant).order_by(in_order))
        return [tuple(row) for row in found]


async def test_what_a_visitor_says_is_merged_into_one_lead_and_nothing_said_is_lost(
    call: Call, shop: ShopResources, tenant: str
) -> None:
    """New words fill gaps and replace old ones; silence replaces nothing; the history keeps all of it."""
    first = await collect_lead(call(), name="Ada", email="ada@old.example")
    elsewhere = call(conversation_id="conversation-2")
    second = await collect_lead(elsewhere, email="ada@example.org", phone=" +90 555 123 4567 ")

    assert first.data["lead_id"] == second.data["lead_id"]
    assert ["name", "email", "phone"] == second.data["known"]
    merged = ("visitor-1", "Ada", "ada@example.org", "+90 555 123 4567", None)
    assert [merged] == await _rows(shop, LEADS, tenant)
    assert [
        ("visitor-1", "Ada", "ada@old.example", None, None),
        ("visitor-1", None, "ada@example.org", "+90 555 123 4567", None),
    ] == await _rows(shop, LEAD_HISTORY, tenant)


async def test_visitor_is_thanked_in_their_language_and_the_model_gets_no_address_back(call: Call) -> None:
    """Personal data goes into the table and nowhere else."""
    reply = await collect_lead(call(language="tr"), email="ada@example.org")

    assert ["email"] == reply.data["known"]
    expected = {"type": "notice", "level": "success", "text": "İletişim bilgileriniz kaydedildi."}
    assert [expected] == reply.to_json()["ui_blocks"]
    assert "ada@" not in str(reply.to_json())


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({}, "nothing_given"),
        ({"name": "  ", "email": "", "note": "\x00"}, "nothing_given"),
        ({"email": "ada"}, "invalid_email"),
        ({"email": "ada@example"}, "invalid_email"),
        ({"email": "ada@example.org, eve@example.org"}, "invalid_email"),
        ({"phone": "call me"}, "invalid_phone"),
        ({"phone": "12"}, "invalid_phone"),
        ({"note": "x" * 2_001}, "text_too_long"),
    ],
)
async def test_unusable_words_are_refused_and_store_nothing(
    call: Call, shop: ShopResources, tenant: str, said: dict[str, str], code: str
) -> None:
    """The model is told what to ask again."""
    with pytest.raises(ToolError) as caught:
        await collect_lead(call(), **said)

    assert code == caught.value.code
    assert [] == await _rows(shop, LEADS, tenant)


async def test_late_repeat_does_not_put_an_old_address_over_a_newer_one(
    call: Call, shop: ShopResources, tenant: str
) -> None:
    """A repeated call is answered from what is known now."""
    await collect_lead(call(idempotency_key="first"), email="old@example.org")
    await collect_lead(call(), email="new@example.org")
    await collect_lead(call(idempotency_key="first", fence=2), email="old@example.org")

    assert [("visitor-1", None, "new@example.org", None, None)] == await _rows(shop, LEADS, tenant)
    assert 2 == len(await _rows(shop, LEAD_HISTORY, tenant))


async def test_words_at_the_same_time_end_in_one_lead(call: Call, shop: ShopResources, tenant: str) -> None:
    """Parallel calls of one visitor merge, whatever their order; the same key at once counts once."""
    await asyncio.gather(
        collect_lead(call(), name="Ada"),
        collect_lead(call(), email="ada@example.org"),
        collect_lead(call(idempotency_key="twice"), phone="5551234567"),
        collect_lead(call(idempotency_key="twice"), phone="5551234567"),
    )

    assert [("visitor-1", "Ada", "ada@example.org", "5551234567", None)] == await _rows(shop, LEADS, tenant)
    assert 3 == len(await _rows(shop, LEAD_HISTORY, tenant))


async def test_leads_of_visitors_and_tenants_stay_apart(call: Call, shop: ShopResources, tenant: str) -> None:
    """The same visitor id in another tenant is another person."""
    other = f"{tenant}-other"
    await collect_lead(call(), name="Ada")
    await collect_lead(call(requester="visitor-2"), name="Eve")
    await collect_lead(call(tenant=other), name="Zoe")

    assert {("visitor-1", "Ada"), ("visitor-2", "Eve")} == {row[:2] for row in await _rows(shop, LEADS, tenant)}
    assert [("visitor-1", "Zoe")] == [row[:2] for row in await _rows(shop, LEADS, other)]
