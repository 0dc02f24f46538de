"""What an agent may use up, and whether it has. Pure: what was used comes in, the limit that is reached goes out.

A step is refused before the model is asked, by what is stored then: so a limit is passed at most by the steps that
are under way at that moment, and one conversation has one. What a model reads and writes is known afterwards only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from placet.agent.model_answer import ModelAnswer
from placet.domain.agents import BudgetEntry, PriceEntry

#: Whose use is counted: a conversation's, ever; an agent's and a tenant's, today (UTC).
Scope = Literal["conversation", "agent", "tenant"]
Unit = Literal["tokens", "cost"]

#: Bytes that count as one token where a provider does not say how many there were: few, so that none is free.
BYTES_PER_TOKEN = 3
_PRICED_TOKENS = Decimal(1_000_000)

#: What the person is told, by whose budget it is.
REASONS: Mapping[Scope, str] = {
    "conversation": "This conversation has used up its budget, so the assistant was not asked. "
    "Please begin a new conversation.",
    "agent": "This assistant has used up its budget for today and was not asked. Please write again tomorrow.",
    "tenant": "The budget for today is used up, so the assistant was not asked. Please write again tomorrow.",
}
UNPRICED = "The assistant was not asked: what it may still cost cannot be told."


@dataclass(frozen=True, slots=True)
class Limit:
    """One bound of what may be used."""

    scope: Scope
    unit: Unit
    #: Tokens, or money in the currency of the prices.
    amount: Decimal

    @property
    def name(self) -> str:
        """Stable name, for metrics and the history."""
        return f"{self.scope}-{self.unit}"


@dataclass(frozen=True, slots=True)
class Price:
    """What one token costs."""

    input: Decimal
    output: Decimal

    @staticmethod
    def per_million(entry: PriceEntry) -> Price:
        """Return a price that a file says."""
        read, written = (Decimal(str(each)) for each in (entry.input_per_million, entry.output_per_million))
        return Price(read / _PRICED_TOKENS, written / _PRICED_TOKENS)


#: Price of a model by its name in the settings; None where nobody knows it.
PriceOf = Callable[[str], Price | None]


@dataclass(frozen=True, slots=True)
class Used:
    """What was used of one model."""

    model: str
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a model is not asked."""

    limit: Limit
    #: One neutral sentence for people.
    reason: str
    #: Model whose price nobody knows; empty where the limit is reached.
    unpriced: str = ""


def limits_of(own: BudgetEntry, house: BudgetEntry) -> tuple[Limit, ...]:
    """Return the limits of one agent.

    A conversation has the agent's budget, else the house's. A day has both: the agent's for what it uses, and the
    house's for what all agents of a tenant use together.
    """
    tokens = house.tokens_per_conversation if own.tokens_per_conversation is None else own.tokens_per_conversation
    cost = house.cost_per_conversation if own.cost_per_conversation is None else own.cost_per_conversation
    found: list[tuple[Scope, Unit, float | None]] = [
        ("conversation", "tokens", tokens),
        ("conversation", "cost", cost),
        ("agent", "tokens", own.tokens_per_day),
        ("agent", "cost", own.cost_per_day),
        ("tenant", "tokens", house.tokens_per_day),
        ("tenant", "cost", house.cost_per_day),
    ]
    return tuple(Limit(scope, unit, Decimal(str(amount))) for scope, unit, amount in found if amount is not None)


def costs(limits: Iterable[Limit]) -> bool:
    """Tell whether any limit needs prices."""
    return any(limit.unit == "cost" for limit in limits)


def reached(limits: Iterable[Limit], used: Mapping[Scope, Sequence[Used]], price_of: PriceOf) -> Stop | None:
    """Return why the model must not be asked, None where it may.

    A cost that cannot be told stops it too: nobody knows that it is within the budget.
    """
    for limit in limits:
        amount = Decimal(0)
        for each in used[limit.scope]:
            counted = _amount(each, limit.unit, price_of)
            if counted is None:
                return Stop(limit, UNPRICED, unpriced=each.model)
            amount += counted
        if amount >= limit.amount:
            return Stop(limit, REASONS[limit.scope])
    return None


def counted(answer: ModelAnswer, asked: Sequence[Mapping[str, Any]]) -> ModelAnswer:
    """Return an answer whose tokens can be counted: what its provider did not count is, by the length of the texts.

    `asked` are the messages that it answers. What was read and what was written are looked at apart: half a count
    would make the other half free.
    """
    read = answer.input_tokens if answer.input_tokens > 0 else _estimate(list(asked))
    written = answer.output_tokens if answer.output_tokens > 0 else _estimate(answer.raw)
    return replace(answer, input_tokens=read, output_tokens=written)


def cost_of(answer: ModelAnswer, price_of: PriceOf) -> float | None:
    """Return what an answer cost; None where nobody knows its model's price."""
    amount = _amount(Used(answer.model, answer.input_tokens, answer.output_tokens), "cost", price_of)
    return None if amount is None else float(amount)


def _estimate(value: Any) -> int:
    """Return how many tokens a JSON value may be, at least 1."""
    return len(json.dumps(value, ensure_ascii=False).encode(errors="replace")) // BYTES_PER_TOKEN + 1


def _amount(used: Used, unit: Unit, price_of: PriceOf) -> Decimal | None:
    if unit == "tokens":
        return Decimal(used.input_tokens + used.output_tokens)
    price = price_of(used.model)
    return None if price is None else used.input_tokens * price.input + used.output_tokens * price.output
