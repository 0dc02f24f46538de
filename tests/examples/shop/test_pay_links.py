"""create_pay_link on real tables and a real provider: no link without its record (mission A5, A9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from placet.tools import DidNotRun, Ran, ToolContext, ToolError, ToolOutcomeUnknown
from shop.provider.app import Faults
from shop.provider.links import Link
from shop.provider.server import PaymentServer
from shop.resources import ShopResources
from shop.store import ShopDatabase
from shop.store.pay_links import PAY_LINKS
from shop.tools import create_pay_link, verify_pay_link
from tests.examples.shop.conftest import Call

ORDER: dict[str, Any] = {"amount": Decimal("299.90"), "currency": "TRY"}


@pytest.fixture
def shop_settings(provider: PaymentServer) -> dict[str, Any]:
    """Let the shop use the provider."""
    return {"payment_url": provider.url}


async def _recorded(shop: ShopResources, context: ToolContext) -> list[tuple[Any, ...]]:
    columns = (PAY_LINKS.c.amount, PAY_LINKS.c.currency, PAY_LINKS.c.link_id, PAY_LINKS.c.url)
    own = (PAY_LINKS.c.tenant == context.tenant) & (PAY_LINKS.c.call_id == context.call_id)
    async with shop.database.transaction() as connection:
        return [tuple(row) for row in await connection.execute(sa.select(*columns).where(own))]


def _made(provider: PaymentServer, context: ToolContext) -> list[Link]:
    return provider.links.find(context.call_id)


async def test_link_is_recorded_before_it_is_given_out(
    call: Call, shop: ShopResources, provider: PaymentServer
) -> None:
    """Answer, record and provider agree on one link, to the cent."""
    context = call()
    reply = await create_pay_link(context, **ORDER, note="2 pairs")

    (link,) = _made(provider, context)
    assert ("299.90", "TRY", "2 pairs", context.tenant) == (link.amount, link.currency, link.note, link.account)
    expected = {"link_id": link.id, "url": f"{provider.url}/pay/{link.id}", "amount": 299.9, "currency": "TRY"}
    assert {
        "data": expected,
        "ui_blocks": [{"type": "payment_link", **expected, "note": "2 pairs"}],
    } == reply.to_json()
    assert [(Decimal("299.90"), "TRY", link.id, link.url)] == await _recorded(shop, context)


async def test_currency_may_be_written_in_small_letters(call: Call) -> None:
    """A model that writes "try" means TRY."""
    assert "TRY" == (await create_pay_link(call(), amount=Decimal(299), currency=" try ")).data["currency"]


async def test_repeat_with_the_same_key_gives_the_same_link(call: Call, provider: PaymentServer) -> None:
    """A repeated call is answered from the record, also while the provider is down."""
    context = call()
    first = await create_pay_link(context, **ORDER)
    provider.should_exit = True
    repeat = await create_pay_link(context, **ORDER)

    assert first == repeat


async def test_two_attempts_at_once_end_in_one_record_and_one_link(
    call: Call, shop: ShopResources, provider: PaymentServer, faults: Faults
) -> None:
    """Both attempts reach the provider before either has an answer, and both get the one link."""
    both_arrived = asyncio.Barrier(2)

    async def meet() -> None:
        await both_arrived.wait()

    faults.before_store = meet
    context = call()
    one, two = await asyncio.gather(*(create_pay_link(context, **ORDER) for _ in range(2)))

    assert one == two
    (link,) = _made(provider, context)
    assert [(Decimal("299.90"), "TRY", link.id, link.url)] == await _recorded(shop, context)


async def test_same_key_with_another_order_is_refused(call: Call, provider: PaymentServer) -> None:
    """A key belongs to one order."""
    context = call()
    await create_pay_link(context, **ORDER)
    with pytest.raises(ToolError) as caught:
        await create_pay_link(context, amount=Decimal(1), currency="TRY")

    assert "idempotency_conflict" == caught.value.code
    assert 1 == len(_made(provider, context))


async def test_two_calls_make_two_links(call: Call) -> None:
    """The same order in another call is another link."""
    one, two = [(await create_pay_link(call(), **ORDER)).data["link_id"] for _ in range(2)]
    assert one != two


async def test_link_is_not_given_out_when_another_one_is_recorded_meanwhile(
    call: Call, shop: ShopResources, faults: Faults
) -> None:
    """A record is never overwritten; who cannot record their link does not hand it out."""
    context = call()
    other = {"link_id": "pl_other", "url": "http://other.example/pay", "recorded_at": sa.func.now()}

    async def record_another() -> None:
        async with shop.database.transaction() as connection:
            own = PAY_LINKS.c.call_id == context.call_id
            await connection.execute(sa.update(PAY_LINKS).where(own).values(other))

    faults.after_store = record_another
    with capture_logs() as logs, pytest.raises(ToolError) as caught:
        await create_pay_link(context, **ORDER)

    expected = "The payment link could not be recorded, so it is not given out."
    assert ("not_recorded", expected) == (caught.value.code, caught.value.text)
    assert ["pay_link.other_recorded"] == [line["event"] for line in logs]


async def test_link_is_not_given_out_when_the_database_fails_and_a_repeat_gives_it(
    call: Call, shop: ShopResources, provider: PaymentServer, faults: Faults
) -> None:
    """The provider has made the link, the record fails: doubt and no link; the repeat finds the same link."""
    context = call()
    async with _no_updates(shop) as refuse_updates:
        faults.after_store = refuse_updates
        with capture_logs() as logs, pytest.raises(ToolOutcomeUnknown) as caught:
            await create_pay_link(context, **ORDER)

    faults.after_store = Faults().after_store
    (link,) = _made(provider, context)
    assert "The payment link could not be recorded, so it is not given out." == caught.value.text
    assert ["pay_link.not_recorded"] == [line["event"] for line in logs]
    assert [(Decimal("299.90"), "TRY", None, None)] == await _recorded(shop, context)

    assert link.id == (await create_pay_link(context, **ORDER)).data["link_id"]
    assert 1 == len(_made(provider, context))


@asynccontextmanager
async def _no_updates(shop: ShopResources) -> AsyncIterator[Any]:
    """Yield what makes the database refuse to change payment links, until the block ends."""

    async def execute(statement: str) -> None:
        async with shop.database.transaction() as connection:
            await connection.execute(sa.text(statement))

    async def refuse() -> None:
        await execute("ALTER TABLE tools.pay_links ADD CONSTRAINT broken CHECK (link_id IS NULL) NOT VALID")

    yield refuse
    await execute("ALTER TABLE tools.pay_links DROP CONSTRAINT broken")


async def test_attempt_that_dies_after_the_provider_answered_gives_out_nothing_and_the_repeat_finds_the_link(
    call: Call, shop: ShopResources, provider: PaymentServer, faults: Faults
) -> None:
    """A crash between provider and record leaves the wish in the table; the next attempt gets the same link."""
    stored, never = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        stored.set()
        await never.wait()

    faults.after_store = hold
    context = call()
    attempt = asyncio.create_task(create_pay_link(context, **ORDER))
    await stored.wait()
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert [(Decimal("299.90"), "TRY", None, None)] == await _recorded(shop, context)

    faults.after_store = Faults().after_store
    reply = await create_pay_link(context, **ORDER)
    never.set()

    assert [reply.data["link_id"]] == [link.id for link in _made(provider, context)]


async def test_provider_that_fails_leaves_the_outcome_unknown_and_a_repeat_succeeds(call: Call, faults: Faults) -> None:
    """A 503 says nothing about what happened; the same key makes the repeat safe."""
    faults.fail_next = 1
    context = call()
    with pytest.raises(ToolOutcomeUnknown, match=r"answered with an error \(503\)"):
        await create_pay_link(context, **ORDER)

    assert 299.9 == (await create_pay_link(context, **ORDER)).data["amount"]


async def test_call_without_time_left_asks_nobody(call: Call, provider: PaymentServer) -> None:
    """With the deadline at hand the provider is not asked at all, so the outcome is certain."""
    context = call(deadline=datetime.now(UTC) + timedelta(milliseconds=500))
    with pytest.raises(ToolError) as caught:
        await create_pay_link(context, **ORDER)

    assert "too_late" == caught.value.code
    assert [] == _made(provider, context)


async def test_key_of_another_tenants_call_gets_no_link_of_theirs(call: Call, tenant: str) -> None:
    """Should two tenants ever use one key, the provider refuses the second: no link crosses over."""
    await create_pay_link(call(idempotency_key=tenant), **ORDER)
    with pytest.raises(ToolError) as caught:
        await create_pay_link(call(idempotency_key=tenant, tenant=f"{tenant}-other"), **ORDER)
    assert "provider_refused" == caught.value.code


class TestImpatientShop:
    """A shop that waits a moment only."""

    @pytest.fixture
    def shop_settings(self, provider: PaymentServer) -> dict[str, Any]:
        """Give up after half a second."""
        return {"payment_url": provider.url, "payment_timeout_seconds": 0.5}

    async def test_provider_that_does_not_answer_leaves_the_outcome_unknown(
        self, call: Call, shop: ShopResources, provider: PaymentServer, faults: Faults
    ) -> None:
        """The link may exist, and here it does; nobody gets it until a repeat has recorded it."""
        stored, answer = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            stored.set()
            await answer.wait()

        faults.after_store = hold
        context = call()
        with pytest.raises(ToolOutcomeUnknown, match="did not answer"):
            await create_pay_link(context, **ORDER)
        await asyncio.wait_for(stored.wait(), 30)
        answer.set()

        assert 1 == len(_made(provider, context))
        assert [(Decimal("299.90"), "TRY", None, None)] == await _recorded(shop, context)


class TestUnreachableProvider:
    """A shop whose provider is not there."""

    @pytest.fixture
    def shop_settings(self) -> dict[str, Any]:
        """Point to a port where nobody listens."""
        return {"payment_url": "http://127.0.0.1:9"}

    async def test_provider_that_cannot_be_reached_is_a_certain_failure(self, call: Call, shop: ShopResources) -> None:
        """Nothing was sent, so nothing is unknown."""
        context = call()
        with pytest.raises(ToolError) as caught:
            await create_pay_link(context, **ORDER)

        assert "provider_unreachable" == caught.value.code
        assert [(Decimal("299.90"), "TRY", None, None)] == await _recorded(shop, context)

    @pytest.mark.parametrize(
        ("order", "code"),
        [
            ({"amount": Decimal(0)}, "invalid_amount"),
            ({"amount": Decimal(-1)}, "invalid_amount"),
            ({"amount": Decimal("0.001")}, "invalid_amount"),
            ({"amount": Decimal("299.999")}, "invalid_amount"),
            ({"amount": Decimal(10000000000)}, "invalid_amount"),
            ({"amount": Decimal("1e400")}, "invalid_amount"),
            ({"amount": Decimal("nan")}, "invalid_amount"),
            ({"currency": "JPY"}, "invalid_currency"),
            ({"currency": "₺"}, "invalid_currency"),
            ({"note": "x" * 2_001}, "text_too_long"),
        ],
    )
    async def test_order_that_cannot_be_paid_is_refused_before_anybody_is_asked(
        self, call: Call, shop: ShopResources, order: dict[str, Any], code: str
    ) -> None:
        """Nothing is rounded, nothing is written down, and nobody notices that the provider is not there."""
        context = call()
        with pytest.raises(ToolError) as caught:
            await create_pay_link(context, **{**ORDER, **order})

        assert code == caught.value.code
        assert [] == await _recorded(shop, context)


async def test_probe_finds_the_link_that_a_lost_call_made(
    call: Call, shop: ShopResources, provider: PaymentServer, faults: Faults
) -> None:
    """The provider made it, the shop never heard: the probe records and gives out this very link, once."""
    context = call()
    async with _no_updates(shop) as refuse_updates:
        faults.after_store = refuse_updates
        with capture_logs(), pytest.raises(ToolOutcomeUnknown):
            await create_pay_link(context, **ORDER)
    found = await verify_pay_link(context, **ORDER)

    (link,) = _made(provider, context)
    assert isinstance(found, Ran)
    assert (link.id, link.url) == (found.data["link_id"], found.data["url"])
    assert [(Decimal("299.90"), "TRY", link.id, link.url)] == await _recorded(shop, context)
    assert found == await verify_pay_link(context, **ORDER)


async def test_a_shop_that_is_away_leaves_doubt_and_not_a_failure(call: Call, shop: ShopResources) -> None:
    """An earlier attempt may have made the link: the call is repeated with its key, or its probe is asked."""
    away = replace(shop, database=ShopDatabase("postgresql://nobody@127.0.0.1:1/none", connections_max=1))
    with pytest.raises(ToolOutcomeUnknown, match="The shop could not be reached"):
        await create_pay_link(call(resources={"shop": away}), **ORDER)


async def test_probe_says_that_no_link_was_made(call: Call) -> None:
    """The provider knows no link of this key."""
    assert DidNotRun() == await verify_pay_link(call(), **ORDER)


async def test_probe_cannot_tell_without_the_provider(call: Call, provider: PaymentServer) -> None:
    """A provider that does not answer has said nothing."""
    provider.should_exit = True
    await provider.shutdown()
    with pytest.raises(ToolOutcomeUnknown):
        await verify_pay_link(call(), **ORDER)
