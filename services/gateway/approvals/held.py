"""Rows of `read.approvals` as the rules of deciding take them: the very rules that approval judges decisions by."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass

from placet.contracts.messages import ApprovalRule
from placet.domain.deciders import Delegation, Seats
from placet.gateway.store.read import Row

#: A condition that may look at arguments. A word in a string looks like it too, which errs to the safe side.
_ARGUMENTS = re.compile(r"\barguments\b")


#: Characters of arguments that take a while to look through.
LARGE = 8_192


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A held call, as far as it may be seen."""

    tool: str
    agent: str
    tenant: str
    requester: str
    conversation_id: str
    #: JSON text, redacted values masked.
    arguments: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Held:
    """A held call with what says who may decide about it."""

    call: ShownCall
    approval_rule: ApprovalRule
    steps_done: int
    delegations: tuple[Delegation, ...]
    seats: Seats | None


async def in_turns(rows: Iterable[Row]) -> AsyncIterator[Row]:
    """Yield rows one by one; after each that takes a while others are served: a page may have fifty."""
    for row in rows:
        yield row
        if is_large(row):
            await asyncio.sleep(0)


def is_large(row: Row) -> bool:
    """Tell whether the arguments of a row take a while."""
    return len(row["arguments"] or "") > LARGE


def held_of(row: Row) -> Held:
    """Return the held call of a row.

    A condition on arguments of which some are masked has no answer here, so it is left out: it lets everybody in, and
    approval, which has the arguments, asks it when they decide.
    """
    names = ("tool", "agent", "tenant", "requester", "conversation_id", "arguments")
    call = ShownCall(**{name: row[name] for name in names}, labels=row["labels"] or {})
    rule = ApprovalRule.model_validate(row["approval_rule"])
    if row["arguments_masked"] and _ARGUMENTS.search(rule.condition):
        rule = rule.model_copy(update={"condition": ""})
    seats = None if row["seats"] is None else {name: frozenset(numbers) for name, numbers in row["seats"].items()}
    return Held(call, rule, row["steps_done"], tuple(map(Delegation.from_json, row["delegations"])), seats)
