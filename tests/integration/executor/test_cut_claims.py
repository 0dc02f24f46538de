"""The line to the database is cut at a claim: the server has it, and the executor cannot know."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from placet.executor.states import State
from tests.support.cut_commits import CutLine
from tests.support.executor_house import House, Premises, open_house
from tests.support.executor_tools import a_gate

STOP = "INSERT INTO read.stops VALUES ('stop-1', NULL, NULL, NULL, 'enough')"
GIVEN_UP = "UPDATE executor.executions SET fence = 2, state = 'verifying'"
TOO_LATE = "UPDATE executor.executions SET permit_expires_at = clock_timestamp()"


@pytest.fixture
async def house(place: Premises, line: CutLine) -> AsyncIterator[House]:
    """An executor that reaches the database by that line alone, which is cut after a claim."""
    async with open_house(replace(place, url=line.url(place.url))) as house:
        line.cut_at("after", "INSERT INTO executor.executions")
        yield house


async def test_a_claim_whose_answer_is_lost_begins_its_call_once(house: House, place: Premises) -> None:
    """It was claimed by this very process, which has begun nothing: a tool that is not safe to repeat runs."""
    call, gate = place.call("wait", gate="cut-claim"), a_gate("cut-claim")
    gate.opened.set()
    permitted = place.permitted(call)
    await house.deliver(permitted, permitted)
    await house.answer()
    await house.idle()
    assert (1, ["claimed", "succeeded"], 1) == (len(gate.attempts), place.history(call), house.dead.qsize())


@pytest.mark.parametrize(
    ("meanwhile", "state"),
    [(STOP, State.REFUSED), (GIVEN_UP, State.VERIFYING), (TOO_LATE, State.EXPIRED)],
    ids=["stopped", "given up", "too late"],
)
async def test_what_became_of_a_claim_meanwhile_counts(
    house: House, place: Premises, line: CutLine, meanwhile: str, state: State
) -> None:
    """Before its executor is back, the call is stopped, late, or somebody else goes on: it begins nothing."""
    call, gate = place.call("wait", gate="cut-meanwhile"), a_gate("cut-meanwhile")
    gate.opened.set()
    delivering = asyncio.create_task(house.deliver(place.permitted(call)))
    await line.was_cut.wait()
    line.dead = True
    line.cut()
    await asyncio.to_thread(place.sql, meanwhile)
    line.dead = False
    await delivering
    await house.idle()
    assert (state, []) == (place.execution(call).state, gate.attempts)


async def test_what_was_claimed_and_not_turned_away_is_turned_away(
    house: House, place: Premises, line: CutLine
) -> None:
    """The line is cut behind the claim, before its executor could say that such calls are stopped."""
    line.cut_at("before", "UPDATE executor.executions")
    place.sql(STOP)
    call, gate = place.call("wait", gate="cut-stopped"), a_gate("cut-stopped")
    gate.opened.set()
    await house.deliver(place.permitted(call))
    await house.idle()
    assert (State.REFUSED, []) == (place.execution(call).state, gate.attempts)
