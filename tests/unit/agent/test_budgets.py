"""Budgets: whose use counts against which limit, and when a model is not asked any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from placet.agent.budgets import REASONS, UNPRICED, Limit, Price, Scope, Unit, Used, counted, limits_of, reached
from placet.agent.prices import NoPrice, Prices
from placet.agent.settings import AgentSettings
from placet.domain.agents import AgentEntry, Agents, BudgetEntry, PriceEntry, load_agents
from tests.support.agents import says

CHEAP = Price(Decimal("0.000001"), Decimal("0.000002"))
NOBODY: dict[Scope, Sequence[Used]] = {"conversation": [], "agent": [], "tenant": []}


def a_limit(scope: Scope = "conversation", amount: str = "100", unit: Unit = "tokens") -> Limit:
    """Return a limit."""
    return Limit(scope, unit, Decimal(amount))


def test_an_agents_own_budget_goes_before_the_houses_for_a_conversation_and_beside_it_for_a_day() -> None:
    """What all agents of a tenant use together stays bounded, whatever one agent may use."""
    own = BudgetEntry(tokens_per_conversation=10, tokens_per_day=20)
    house = BudgetEntry(tokens_per_conversation=100, cost_per_conversation=1.5, tokens_per_day=200)
    assert {"conversation-tokens": 10, "conversation-cost": 1.5, "agent-tokens": 20, "tenant-tokens": 200} == {
        limit.name: float(limit.amount) for limit in limits_of(own, house)
    }
    assert () == limits_of(BudgetEntry(), BudgetEntry())


@pytest.mark.parametrize(("tokens", "stops"), [(99, False), (100, True), (101, True)])
def test_a_limit_is_reached_when_all_of_it_is_used(tokens: int, *, stops: bool) -> None:
    """What is read and written counts together, over all models; the limit itself is no longer within it."""
    used = NOBODY | {"conversation": [Used("a", tokens - 10, 4), Used("b", 5, 1)]}
    stop = reached([a_limit()], used, lambda _: None)
    assert stops == (stop is not None)
    assert stop is None or REASONS["conversation"] == stop.reason


def test_each_limit_looks_at_its_own_use() -> None:
    """What the tenant used today is nothing that the conversation used."""
    used = NOBODY | {"tenant": [Used("a", 500, 0)]}
    assert reached([a_limit("conversation"), a_limit("agent")], used, lambda _: None) is None
    stop = reached([a_limit("conversation"), a_limit("tenant")], used, lambda _: None)
    assert stop is not None
    assert ("tenant-tokens", REASONS["tenant"]) == (stop.limit.name, stop.reason)


@pytest.mark.parametrize(("amount", "stops"), [("0.0021", False), ("0.0020", True)])
def test_money_is_counted_to_the_last_digit(amount: str, *, stops: bool) -> None:
    """A thousand read tokens and five hundred written ones cost what the prices say, without a rounding."""
    used = NOBODY | {"conversation": [Used("a", 1000, 500)]}
    assert stops == (reached([a_limit(amount=amount, unit="cost")], used, lambda _: CHEAP) is not None)


def test_a_cost_that_nobody_can_tell_stops_the_turn() -> None:
    """A model that was used and has no price any more cannot be within a budget of money."""
    used = NOBODY | {"agent": [Used("gone", 1, 1)]}
    stop = reached([a_limit("agent", unit="cost")], used, lambda _: None)
    assert stop is not None
    assert (UNPRICED, "gone") == (stop.reason, stop.unpriced)


def test_what_a_provider_does_not_count_is_counted_by_length() -> None:
    """No provider is free because it says nothing; what it does say stands."""
    silent = replace(says("x" * 300), input_tokens=0, output_tokens=0)
    found = counted(silent, [{"role": "user", "content": "y" * 600}])
    assert found.input_tokens > 200
    assert found.output_tokens > 100
    assert (3, 5) == (counted(says("hi"), []).input_tokens, counted(says("hi"), []).output_tokens)


@pytest.mark.parametrize("uncounted", [0, -1])
def test_half_a_count_leaves_the_other_half_not_free(uncounted: int) -> None:
    """A provider that counts only what it writes, or only what it reads, is believed in that alone."""
    asked, said = [{"role": "user", "content": "y" * 600}], says("x" * 300)
    only_written = counted(replace(said, input_tokens=uncounted), asked)
    only_read = counted(replace(said, output_tokens=uncounted), asked)
    assert (5, 3) == (only_written.output_tokens, only_read.input_tokens)
    assert only_written.input_tokens > 200
    assert only_read.output_tokens > 100


PRICED = "price: {input_per_million: 1, output_per_million: 2}"


def a_dear_agent(folder: Path, fallback: str) -> Agents:
    """Return the agents of a file where one has a budget of money and this fallback."""
    path = folder / "agents.yaml"
    body = f"model: a/x, {PRICED}, fallbacks: [{{{fallback}}}], budget: {{cost_per_day: 1}}"
    path.write_text(f"version: 1\nagents:\n  dear: {{{body}}}\n  free: {{model: c/x}}\n")
    return load_agents(path)


def test_a_budget_of_money_needs_a_price_for_every_model(tmp_path: Path) -> None:
    """A fallback without a price stops the start, and the message names agent and model; others need none."""
    agents = a_dear_agent(tmp_path, "model: b/x")
    with pytest.raises(NoPrice, match=r"agents\.yaml:3:\d+: agent dear: .* b/x;"):
        Prices(agents).check(AgentSettings(), agents)
    agents = a_dear_agent(tmp_path, f"model: b/x, {PRICED}")
    Prices(agents).check(AgentSettings(), agents)


def test_the_houses_budget_of_money_needs_every_price() -> None:
    """A budget of the settings holds for the settings' model too."""
    agents, settings = Agents(), AgentSettings(model="a/x", agent_budget_cost_per_day=1.0)
    with pytest.raises(NoPrice, match="a/x"):
        Prices(agents).check(settings, agents)
    Prices(agents, lambda _: CHEAP).check(settings, agents)


def test_a_price_in_the_file_goes_before_the_price_map() -> None:
    """Where two entries name one model, the dearer price counts."""
    prices = [PriceEntry(input_per_million=each, output_per_million=1.0) for each in (1.0, 3.0, 2.0)]
    agents = Agents({str(place): AgentEntry(model="a/x", price=each) for place, each in enumerate(prices)})
    found = Prices(agents, lambda _: CHEAP)
    assert Price(Decimal("0.000003"), Decimal("0.000001")) == found("a/x")
    assert CHEAP == found("b/x")
