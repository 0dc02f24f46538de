"""Several decisions of one request: calls of one answer of the model are approved in the order it proposed them in.

An approved call begins when those before it that were approved have ended, so its approval must know of theirs: it is
sent when the one before it was answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol, TypeVar

from placet.contracts.errors import Refused
from placet.gateway.approvals.store.steps import NO_STEP, Step, steps_of
from placet.gateway.store import reading
from placet.runtime.database import Database

T_co = TypeVar("T_co", covariant=True)


class Decide(Protocol[T_co]):
    """Makes one of several decisions."""

    def __call__(self, number: int, *, unsure: bool) -> Awaitable[tuple[T_co, bool]]:
        """Make decision `number`; return what became of it, and whether its answer takes its time.

        `unsure`: the answer to one before it does, so it is not sent but refused, `not_in_turn`.
        """


async def decide_in_turn(database: Database, tenant: str, approved: Sequence[str], decide: Decide[T_co]) -> list[T_co]:
    """Make decisions at once, but approvals of one answer one after the other; return what became of each.

    `approved` has the approval of each decision that approves, and an empty text for every other.
    """
    found: dict[int, T_co] = {}

    async def in_turn(numbers: Sequence[int]) -> None:
        unsure = False
        for number in numbers:
            found[number], late = await decide(number, unsure=unsure)
            unsure = unsure or late

    steps = await steps_among(database, tenant, approved)
    await asyncio.gather(*map(in_turn, _in_turns(approved, steps)))
    return [found[number] for number in range(len(approved))]


def not_in_turn() -> Refused:
    """Return why a decision is not sent behind one that nobody has answered."""
    detail = "The approval of a call before it has not been answered yet. Look again, and then approve this one."
    return Refused("Not sent: this call has to wait its turn.", status=503, kind="unavailable", detail=detail)


async def steps_among(database: Database, tenant: str, approvals: Sequence[str]) -> Mapping[str, Step]:
    """Return where the calls stand by approval, where there are several."""
    wanted = {each for each in approvals if each}
    if len(wanted) <= 1:
        return {}
    async with reading(database) as connection:
        return await steps_of(connection, tenant, wanted)


def _in_turns(approved: Sequence[str], steps: Mapping[str, Step]) -> list[list[int]]:
    """Return the numbers of the decisions, those together that are made one after the other."""
    turns: dict[object, list[int]] = {}
    for number, approval_id in enumerate(approved):
        step = steps.get(approval_id)
        turns.setdefault(number if step is None else step[:2], []).append(number)
    return [sorted(each, key=lambda number: steps.get(approved[number], NO_STEP)) for each in turns.values()]
