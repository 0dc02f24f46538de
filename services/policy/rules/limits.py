"""Limits of rules: how many calls, or how much of an argument in sum, a rule may decide within a sliding window.

Pure: here stands what a call asks of the limits of a rule; whether there is room, the store finds out under a lock.
Amounts are decimals from the first to the last step, so that a sum is exact whatever its parts are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import Any

from placet.contracts.canonical import sha256_hex
from placet.contracts.errors import PlacetError
from placet.domain.limits import Limit, Per
from placet.policy.rules.call import CallFacts

#: Kinds of ToolCallRefused, which says that a call never ran, that give back what it had reserved. Any other stays
#: counted: `unknown` may have had an effect, and what is `staged` still may, until StagedCallsDropped says that it
#: never will. A tool that ran and `failed` is told of by ToolCallFinished, which gives nothing back.
DID_NOT_RUN = frozenset({"refused", "denied", "answered", "expired", "cancelled", "superseded", "invalid", "failed"})


class AmountUnclear(PlacetError):
    """A call says no amount that could be counted. People decide it."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one call asks of one limit. Limits of a rule that differ in size and window only share a counter."""

    tenant: str
    rule: str
    measure: str
    per: Per
    #: Whose counter it is: an id of a conversation, requester, agent or tenant.
    subject: str
    amount: Decimal
    at_most: Decimal
    within_seconds: int

    @property
    def counter_id(self) -> str:
        """Name of the counter, 64 hexadecimal digits. A changed size or window of the limit keeps what was counted."""
        return sha256_hex([self.tenant, self.rule, self.measure, self.per, self.subject])


def demands(rule: str, limits: Iterable[Limit], call: CallFacts) -> tuple[Demand, ...]:
    """Return what `call` asks of the limits of a rule; raise AmountUnclear where an amount cannot be counted."""
    return tuple(
        Demand(
            tenant=call.tenant,
            rule=rule,
            measure=limit.measure,
            per=limit.per,
            subject=_subject(limit.per, call),
            amount=_amount(limit, call.arguments),
            at_most=limit.at_most,
            within_seconds=limit.within_seconds,
        )
        for limit in limits
    )


def beyond(wanted: Iterable[Demand]) -> str:
    """Return why a rule never has room for what a call asks of its limits; empty where it has it at times."""
    for each in wanted:
        if each.amount > each.at_most:
            name = each.measure.partition(":")[2]
            return f"the call alone is beyond its limit: at most {each.at_most} of argument {name!r}"
    return ""


def _subject(per: Per, call: CallFacts) -> str:
    match per:
        case Per.CONVERSATION:
            return call.conversation_id
        case Per.REQUESTER:
            return call.requester
        case Per.AGENT:
            return call.agent
        case Per.TENANT:
            return call.tenant


def _amount(limit: Limit, arguments: Mapping[str, Any]) -> Decimal:
    if not limit.argument:
        return Decimal(1)
    name, value = ".".join(limit.argument), number_at(arguments, limit.argument)
    if value is None:
        raise AmountUnclear(f"a limit counts argument {name!r}, and the call gives no number for it")
    if value < 0:
        raise AmountUnclear(f"a limit counts argument {name!r}, and {value} would make room for other calls")
    return value


def value_at(arguments: Mapping[str, Any], path: Sequence[str]) -> Any:
    """Return what stands at a path of the arguments; None where nothing does."""
    value: Any = arguments
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def number_at(arguments: Mapping[str, Any], path: Sequence[str]) -> Decimal | None:
    """Return the number at a path of the arguments, exactly as its canonical text says; None where there is none."""
    value = value_at(arguments, path)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    # The text of a float is the shortest one that names it, which is how RFC 8785 writes it too.
    return Decimal(str(value))
