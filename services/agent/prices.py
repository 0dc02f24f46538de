"""What models cost: what the file of agents says, else what the price map knows.

A budget of money that nobody can count is no budget. So an agent that has one, and a model without a price, stop the
start.
"""

from __future__ import annotations

from decimal import Decimal

from placet.agent.budgets import Price, PriceOf, costs
from placet.agent.settings import AgentSettings
from placet.contracts.errors import PlacetError
from placet.domain.agents import AgentEntry, Agents


class NoPrice(PlacetError):
    """A budget of money is set for a model whose price nobody knows."""


class Prices:
    """Prices by the names of models; called with one it answers its price, None where nobody knows it."""

    def __init__(self, agents: Agents, look_up: PriceOf = lambda _: None) -> None:
        self._look_up = look_up
        self._said: dict[str, Price] = {}
        for entry in agents.all().values():
            for each in entry.models():
                if each.price is not None:
                    price = Price.per_million(each.price)
                    # Where two entries differ about one name, the dearer one counts.
                    known = self._said.get(each.model, Price(Decimal(0), Decimal(0)))
                    self._said[each.model] = Price(max(price.input, known.input), max(price.output, known.output))
        self._found: dict[str, Price | None] = {}

    def __call__(self, model: str) -> Price | None:
        """Return the price of a model."""
        if model in self._said:
            return self._said[model]
        if model not in self._found:
            self._found[model] = self._look_up(model)
        return self._found[model]

    def check(self, settings: AgentSettings, agents: Agents) -> None:
        """Raise NoPrice where an agent has a budget of money and a model without a price.

        It tells the place in the file of agents where the agent says the budget itself.
        """
        for name, entry in agents.all().items():
            if not costs(settings.behaviour(entry).limits):
                continue
            for each in settings.model_settings(entry).chain():
                if self(each.model) is None:
                    place = agents.place_of(name, *_said_budget(entry))
                    raise NoPrice(
                        f"{place}agent {name}: a budget of money cannot be kept, because nobody knows the price of "
                        f"{each.model}; say it in the file of agents (`price`)"
                    )


def _said_budget(entry: AgentEntry) -> tuple[str, ...]:
    """Return the steps to an entry's budget of money; none where the settings say it."""
    said = [key for key in ("cost_per_conversation", "cost_per_day") if getattr(entry.budget, key) is not None]
    return ("budget", said[0]) if said else ()
