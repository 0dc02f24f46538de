"""The demo rulebook and the demo shop fit together."""

from __future__ import annotations

from pathlib import Path

from services.executor.tools.registry import load_tools
from shared.catalog import load_catalog

RULEBOOK = Path(__file__).parents[2] / "deploy" / "rulebook.yaml"
SHOP = {"search_products", "add_to_cart", "create_pay_link", "collect_lead", "escalate_to_human"}


def test_every_tool_of_the_demo_rulebook_has_a_function_that_fits_its_schema() -> None:
    """An executor starts with the rulebook that comes with Placet, and finds the five tools of the shop."""
    catalog = load_catalog(RULEBOOK)
    tools = load_tools(catalog.values())

    assert {name for name, spec in catalog.items() if spec.function} == set(tools)
    assert tools.keys() >= SHOP
