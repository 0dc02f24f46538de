"""What the start page suggests to write."""

from __future__ import annotations

from placet.domain.agents import AgentEntry
from placet.gateway.web.suggestions import suggestions

SHOP = ["search_products", "create_pay_link"]


def test_an_agent_suggests_what_it_can_do() -> None:
    """Its own words go first, none is none; else the example's, of tools that are there and its own."""
    agents = {
        "own": AgentEntry(suggestions=["Roll it out"]),
        "none": AgentEntry(suggestions=[]),
        "searching": AgentEntry(tools=["search_*"]),
        "all": AgentEntry(),
    }
    assert {
        "own": ["Roll it out"],
        "searching": ["Find red shoes under 500"],
        "all": ["Find red shoes under 500", "Create a payment link over 299 TRY"],
    } == suggestions(agents, SHOP)


def test_another_rulebook_suggests_nothing_of_the_example() -> None:
    """Nobody is led to ask for what no tool can do."""
    assert {} == suggestions({"default": AgentEntry()}, ["deploy"])
