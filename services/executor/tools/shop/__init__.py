"""The demo shop: the tool pack of a shop's chat assistant.

Owns the schema `shop`: catalogue, carts, payment links, leads, escalations, each row of one tenant. The
catalogue names its tools as `services.executor.tools.shop:search_products` and so on. It talks to one
neighbour, the payment provider, and is an example of what a tool pack may rely on: the contract, and
resources of its own.
"""

from __future__ import annotations

from services.executor.tools.shop.resources import open_resources
from services.executor.tools.shop.tools import (
    add_to_cart,
    collect_lead,
    create_pay_link,
    escalate_to_human,
    search_products,
    verify_pay_link,
)

__all__ = [
    "add_to_cart",
    "collect_lead",
    "create_pay_link",
    "escalate_to_human",
    "open_resources",
    "search_products",
    "verify_pay_link",
]
