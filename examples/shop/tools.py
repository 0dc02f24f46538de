"""The five tools of the shop, and the probe of the one whose effect is outside of it.

Each is safe to repeat with the same idempotency key, so the catalogue may call them all idempotent. Each
reads as one story: check the arguments, change the rows in one transaction, say what is true now.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import structlog

from placet.tools import (
    CannotTell,
    CartBlock,
    DidNotRun,
    Finding,
    NoticeBlock,
    NoticeLevel,
    PaymentLinkBlock,
    ProductCarousel,
    Ran,
    ToolContext,
    ToolError,
    ToolOutcomeUnknown,
    ToolReply,
    UiBlock,
)
from shop import rules
from shop.payments import LinkRequest, ProviderLink, fits
from shop.resources import ShopResources, open_resources, shop_of
from shop.store import DatabaseError, Outage, carts, pay_links, products, visitors
from shop.texts import Text, in_language

__all__ = [
    "add_to_cart",
    "collect_lead",
    "create_pay_link",
    "escalate_to_human",
    "open_resources",
    "search_products",
    "verify_pay_link",
]

log = structlog.get_logger(__name__)

_NOT_RECORDED = "The payment link could not be recorded, so it is not given out."
HITS_MAX = 8
"""Most products one search shows."""
_MARGIN_SECONDS = 1.0
"""Kept of a call's deadline for storing what the provider answered."""


async def search_products(
    context: ToolContext,
    *,
    text: str | None = None,
    category: str | None = None,
    max_price: Decimal | None = None,
    on_sale: bool = False,
    in_stock_only: bool = False,
) -> ToolReply:
    """Find at most 8 products: every word of `text` in any order; flags narrow, false leaves all in.

    `{"count", "products": [{"id", "name", "price", "currency", "in_stock", "on_sale", "variants"}]}`
    """
    wanted = filter_of(text, category, max_price, on_sale=on_sale, in_stock_only=in_stock_only)
    return await found(context, wanted)


def filter_of(
    text: str | None = None,
    category: str | None = None,
    max_price: Decimal | None = None,
    *,
    on_sale: bool = False,
    in_stock_only: bool = False,
) -> products.ProductFilter:
    """Return what `search_products` looks for with these arguments."""
    return products.ProductFilter(
        terms=rules.search_terms(text or ""),
        category_terms=rules.search_terms(category or ""),
        max_price=max_price,
        on_sale_only=on_sale,
        in_stock_only=in_stock_only,
        limit=HITS_MAX,
    )


async def found(context: ToolContext, wanted: products.ProductFilter) -> ToolReply:
    """Return what a filter finds, as data and as cards."""
    shop = shop_of(context)
    await shop.ensure_stocked(context.tenant)
    async with shop.database.transaction() as connection:
        cards = await products.find_products(connection, context.tenant, wanted)
    data = [card.model_dump(mode="json", exclude={"list_price"}) for card in cards]
    block: UiBlock = ProductCarousel(products=cards) if cards else _notice(context, "info", Text.NOTHING_FOUND)
    return ToolReply(data={"count": len(data), "products": data}, ui_blocks=[block])


async def add_to_cart(
    context: ToolContext, *, product_id: str, variant_id: str | None = None, quantity: int = 1
) -> ToolReply:
    """Add pieces of a product to the conversation's cart; `{"cart": {"items", "total", "currency"}}`.

    ToolError: unknown_product, variant_required, unknown_variant, sold_out, not_enough_stock, other_currency.
    """
    shop = shop_of(context)
    await shop.ensure_stocked(context.tenant)
    rules.checked_quantity(quantity)
    async with shop.database.transaction() as connection:
        product = await products.load_product(connection, context.tenant, product_id)
        if product is None:
            raise ToolError(f"There is no product {product_id!r}; search for it first.", code="unknown_product")
        currency = await carts.lock_cart(connection, context, product.currency)
        if currency != product.currency:
            raise ToolError(f"This cart is in {currency}, the product in {product.currency}.", code="other_currency")
        addition = carts.Addition(product_id=product_id, variant_id=variant_id, quantity=quantity)
        earlier = await carts.load_addition(connection, context)
        if earlier is None:
            held = await carts.load_quantity(connection, context, addition)
            rules.check_enough(product, variant_id, wanted=held + quantity)
            await carts.add(connection, context, addition, product.price)
        elif earlier != addition:
            raise ToolError("This call has already put something else into the cart.", code="idempotency_conflict")
        cart = await carts.load_cart(connection, context)
    return ToolReply(data={"cart": _cart_data(cart)}, ui_blocks=[cart])


def _cart_data(cart: CartBlock) -> dict[str, Any]:
    return cart.model_dump(mode="json", exclude={"type": True, "items": {"__all__": {"variant_label"}}})


async def create_pay_link(
    context: ToolContext, *, amount: Decimal, currency: str, note: str | None = None
) -> ToolReply:
    """Create a payment link; `{"link_id", "url", "amount", "currency"}`.

    The wish is stored before the provider is asked and the link before it is given out: whatever breaks in
    between, nobody holds a link the shop does not know, and the same key finds the same link again.
    """
    shop = shop_of(context)
    order = _order(amount, currency, note)
    try:
        async with shop.database.transaction() as connection:
            stored = await pay_links.add_pay_link(connection, context, order)
    except Outage as error:
        # Not before this attempt, but an earlier one may have asked the provider: the same key finds its link again.
        raise ToolOutcomeUnknown("The shop could not be reached.") from error
    if (stored.amount, stored.currency, stored.note) != (order.amount, order.currency, order.note):
        raise ToolError("This call has already asked for another payment link.", code="idempotency_conflict")
    link_id, url = stored.link_id, stored.url
    if link_id is None or url is None:
        link = await _ask_provider(shop, context, order)
        link_id, url = link.id, str(link.url)
        await _record(shop, context, link_id, url)
    return _given_out(order, link_id, url)


async def verify_pay_link(context: ToolContext, *, amount: Decimal, currency: str, note: str | None = None) -> Finding:
    """Find out whether a lost `create_pay_link` made its link: its provider knows what each key has made.

    A link that is there is recorded and given out now, as the call would have. Of one that the provider has not made,
    none is known to the shop either, and the call that was lost can give none out any more.
    """
    shop, order = shop_of(context), _order(amount, currency, note)
    timeout = min(shop.settings.payment_timeout_seconds, context.seconds_left(datetime.now(UTC)))
    link = await shop.payments.find_link(context.idempotency_key, timeout_seconds=timeout)
    if link is None:
        return DidNotRun()
    if not fits(link, _request(context, order)):
        return CannotTell("The payment provider has made another link with the key of this call.")
    await _record(shop, context, link.id, str(link.url))
    reply = _given_out(order, link.id, str(link.url))
    return Ran(data=reply.data, ui_blocks=reply.ui_blocks)


def _order(amount: Decimal, currency: str, note: str | None) -> pay_links.PayLinkOrder:
    return pay_links.PayLinkOrder(
        amount=rules.checked_amount(amount), currency=rules.checked_currency(currency), note=rules.clean(note)
    )


def _given_out(order: pay_links.PayLinkOrder, link_id: str, url: str) -> ToolReply:
    block = PaymentLinkBlock(link_id=link_id, url=url, amount=order.amount, currency=order.currency, note=order.note)
    return ToolReply(data=block.model_dump(mode="json", exclude={"type", "note"}), ui_blocks=[block])


def _request(context: ToolContext, order: pay_links.PayLinkOrder) -> LinkRequest:
    return LinkRequest(
        amount=order.amount,
        currency=order.currency,
        account=context.tenant,
        reference=context.call_id,
        note=order.note,
    )


async def _ask_provider(shop: ShopResources, context: ToolContext, order: pay_links.PayLinkOrder) -> ProviderLink:
    left = context.seconds_left(datetime.now(UTC)) - _MARGIN_SECONDS
    if left <= 0:
        raise ToolError("There was no time left to ask the payment provider; no link was created.", code="too_late")
    timeout = min(shop.settings.payment_timeout_seconds, left)
    request = _request(context, order)
    return await shop.payments.create_link(request, key=context.idempotency_key, timeout_seconds=timeout)


async def _record(shop: ShopResources, context: ToolContext, link_id: str, url: str) -> None:
    """Store the link, or raise so that it is not given out; whoever repeats the call with its key may give it out."""
    try:
        async with shop.database.transaction() as connection:
            recorded = await pay_links.record_pay_link(connection, context, link_id=link_id, url=url)
    except DatabaseError as error:
        # Only the kind of error: PostgreSQL repeats the whole row in its text, and a link is as good as a key.
        log.error("pay_link.not_recorded", error=type(error).__name__, link_id=link_id, **_ids(context))  # noqa: TRY400
        raise ToolOutcomeUnknown(_NOT_RECORDED) from error
    if not recorded:
        log.error("pay_link.other_recorded", link_id=link_id, **_ids(context))
        raise ToolError(_NOT_RECORDED, code="not_recorded")


def _ids(context: ToolContext) -> dict[str, str]:
    return {"tenant": context.tenant, "call_id": context.call_id}


async def collect_lead(
    context: ToolContext,
    *,
    name: str | None = None,
    email: str | None = None,
    phone: str | None = None,
    note: str | None = None,
) -> ToolReply:
    """Merge what a visitor says about themselves into their one lead; `{"lead_id", "known": [field, …]}`.

    ToolError: nothing_given, invalid_email, invalid_phone. The values are not repeated to the model.
    """
    said = rules.checked_contact(rules.Contact(name=name, email=email, phone=phone, note=note))
    async with shop_of(context).database.transaction() as connection:
        lead_id, lead = await visitors.merge_lead(connection, context, said)
    data = {"lead_id": str(lead_id), "known": lead.known()}
    return ToolReply(data=data, ui_blocks=[_notice(context, "success", Text.CONTACT_SAVED)])


async def escalate_to_human(context: ToolContext, *, reason: str) -> ToolReply:
    """Hand the conversation to a person; `{"escalation_id", "state"}`. It has at most one open escalation."""
    told = rules.clean(reason)
    if told is None:
        raise ToolError("Say in a sentence why a person is needed.", code="nothing_given")
    async with shop_of(context).database.transaction() as connection:
        found = await visitors.open_escalation(connection, context, told)
    if found is None:
        raise ToolError("An operator has just closed the escalation; ask again if needed.", code="try_again")
    escalation_id, state = found
    data = {"escalation_id": str(escalation_id), "state": state}
    notice = _notice(context, "success", Text.PERSON_CALLED)
    return ToolReply(data=data, ui_blocks=[notice], handover=told if state == "open" else "")


def _notice(context: ToolContext, level: NoticeLevel, text: Text) -> NoticeBlock:
    return NoticeBlock(level=level, text=in_language(text, context.language))
