"""The demo rulebook and the demo shop fit together."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.testing import open_tools

RULEBOOK = Path(__file__).parents[3] / "deploy" / "rulebook.yaml"
SHOP = {"search_products", "add_to_cart", "create_pay_link", "collect_lead", "escalate_to_human"}


async def test_every_tool_of_the_demo_rulebook_has_a_function_and_what_it_needs(
    shop_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An executor starts with the rulebook that comes with Placet, and with nothing set a payment link is made."""
    monkeypatch.setenv("PLACET_DATA", str(tmp_path))
    async with open_tools(RULEBOOK, database_url=shop_database_url) as tools:
        reply = await tools.call("create_pay_link", amount=299, currency="TRY")
    assert {name for name, spec in tools.specs.items() if spec.function} == set(tools.loaded)
    assert tools.loaded.keys() >= SHOP
    assert (299, "TRY") == (reply.data["amount"], reply.data["currency"])
