"""escalate_to_human on real tables (mission A8, A9)."""

from __future__ import annotations

import asyncio

import pytest
import sqlalchemy as sa

from placet.tools import ToolError
from shop.resources import ShopResources
from shop.store.visitors import ESCALATIONS
from shop.tools import escalate_to_human
from tests.examples.shop.conftest import Call


async def _open(shop: ShopResources, tenant: str) -> list[tuple[str, str]]:
    columns = (ESCALATIONS.c.conversation_id, ESCALATIONS.c.reason)
    still_open = (ESCALATIONS.c.tenant == tenant) & (ESCALATIONS.c.state == "open")
    async with shop.database.transaction() as connection:
        return [tuple(row) for row in await connection.execute(sa.select(*columns).where(still_open))]


async def _close_all(shop: ShopResources, tenant: str) -> None:
    closed = {"state": "closed", "closed_at": sa.func.now()}
    async with shop.database.transaction() as connection:
        await connection.execute(sa.update(ESCALATIONS).where(ESCALATIONS.c.tenant == tenant).values(closed))


async def test_escalation_is_open_for_operators_to_see(call: Call, shop: ShopResources, tenant: str) -> None:
    """A row says which conversation waits and why; the visitor is told that somebody comes."""
    reply = await escalate_to_human(call(), reason="  wants to talk about a refund ")

    assert "open" == reply.data["state"]
    assert "A member of our team will join this conversation." == reply.to_json()["ui_blocks"][0]["text"]
    assert [("conversation-1", "wants to talk about a refund")] == await _open(shop, tenant)


async def test_second_request_of_a_conversation_joins_the_open_one(
    call: Call, shop: ShopResources, tenant: str
) -> None:
    """One open escalation per conversation, also when two calls come at once."""
    replies = await asyncio.gather(*(escalate_to_human(call(), reason="help") for _ in range(4)))

    assert 1 == len({reply.data["escalation_id"] for reply in replies})
    assert 1 == len(await _open(shop, tenant))


async def test_repeat_after_the_operator_closed_it_opens_no_other(call: Call, shop: ShopResources, tenant: str) -> None:
    """A late repeat of a finished call disturbs nobody."""
    first = await escalate_to_human(call(idempotency_key="once"), reason="help")
    await _close_all(shop, tenant)
    repeat = await escalate_to_human(call(idempotency_key="once", fence=2), reason="help")

    assert {"escalation_id": first.data["escalation_id"], "state": "closed"} == repeat.data
    assert [] == await _open(shop, tenant)


async def test_new_request_after_the_operator_closed_it_opens_a_new_one(
    call: Call, shop: ShopResources, tenant: str
) -> None:
    """A visitor may need a person twice."""
    first = await escalate_to_human(call(), reason="help")
    await _close_all(shop, tenant)
    second = await escalate_to_human(call(), reason="help again")

    assert first.data["escalation_id"] != second.data["escalation_id"]
    assert [("conversation-1", "help again")] == await _open(shop, tenant)


async def test_repeat_is_answered_with_its_own_escalation_while_another_is_open(
    call: Call, shop: ShopResources, tenant: str
) -> None:
    """A late repeat must not take the newer escalation for its own."""
    first = await escalate_to_human(call(idempotency_key="once"), reason="help")
    await _close_all(shop, tenant)
    await escalate_to_human(call(), reason="help again")
    repeat = await escalate_to_human(call(idempotency_key="once", fence=2), reason="help")

    assert {"escalation_id": first.data["escalation_id"], "state": "closed"} == repeat.data


async def test_empty_reason_is_refused(call: Call) -> None:
    """The operator must see why."""
    with pytest.raises(ToolError) as caught:
        await escalate_to_human(call(), reason=" \n ")
    assert "nothing_given" == caught.value.code


async def test_escalations_of_tenants_stay_apart(call: Call, shop: ShopResources, tenant: str) -> None:
    """The same conversation id in another tenant is another conversation."""
    other = f"{tenant}-other"
    await escalate_to_human(call(idempotency_key="once"), reason="ours")
    await escalate_to_human(call(tenant=other, idempotency_key="once"), reason="theirs")

    assert [("conversation-1", "ours")] == await _open(shop, tenant)
    assert [("conversation-1", "theirs")] == await _open(shop, other)
