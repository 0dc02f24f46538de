"""Emergency stops at the claim: what is stopped does not begin, and all else does."""

from __future__ import annotations

from typing import Any

import pytest

from placet.contracts.messages import CallResolved, ToolCallFinished
from placet.executor.states import State
from tests.integration.executor.test_sweeper import a_lost_call
from tests.support.executor_house import House, Premises, open_house


def stop(place: Premises, **target: Any) -> None:
    """Stop calls as the gateway shows it."""
    values = {"tenant": "acme", "tool": None, "agent": None, "reason": "an incident"} | target
    place.sql("INSERT INTO read.stops VALUES ('stop-1', :tenant, :tool, :agent, :reason)", **values)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ({"tool": "add"}, "refused"),
        ({"tool": "block"}, "succeeded"),
        ({"agent": "default"}, "refused"),
        ({"agent": "other"}, "succeeded"),
        ({}, "refused"),
        ({"tenant": "globex"}, "succeeded"),
        ({"tenant": None}, "refused"),
    ],
)
async def test_what_a_stop_covers_does_not_begin(house: House, target: dict[str, Any], expected: str) -> None:
    """A stop covers a tool or an agent of one tenant, all of one tenant, or everything; nothing else waits for it."""
    place = house.premises
    stop(place, **target)
    call = place.call("add", a=2, b=3).model_copy(update={"agent": "default"})
    await house.deliver(place.permitted(call))
    answer = await house.answer()
    assert not isinstance(answer, CallResolved)
    assert (expected, expected) == (answer.kind, place.execution(call).state)


async def test_the_model_is_told_that_nothing_ran_and_why(house: House) -> None:
    """The administrator's reason, which is for people, is not in the answer, and the call has no attempt."""
    place = house.premises
    stop(place, tool="add")
    call = place.call("add", a=2, b=3)
    await house.deliver(place.permitted(call))
    answer = await house.answer()
    said = (
        "Nothing was run: an administrator has stopped such calls; try again only when you are told that they are"
        " allowed again."
    )
    row = place.execution(call)
    assert (said, 0, None) == (getattr(answer, "reason", ""), row.fence, row.begun_at)


async def test_a_call_begins_again_once_the_stop_is_lifted(house: House) -> None:
    """A new call of the same tool runs as soon as the stop is over."""
    place = house.premises
    stop(place, tool="add")
    place.sql("DELETE FROM read.stops")
    await house.deliver(place.permitted(place.call("add", a=2, b=3)))
    assert isinstance(await house.answer(), ToolCallFinished)


async def test_a_lost_attempt_is_not_repeated_while_its_tool_is_stopped(place: Premises) -> None:
    """What is safe to repeat waits as it is until the stop is lifted, and is then repeated."""
    async with open_house(place) as house:
        call, gate = await a_lost_call(place, "wait_repeatable")
        stop(place, tool="wait_repeatable")
        done = [await house.sweep("repeat-lost"), await house.sweep("give-up-lost")]
        assert ([0, 0], State.RUNNING, 1) == (done, place.execution(call).state, len(gate.attempts))
        place.sql("DELETE FROM read.stops")
        assert (1, 2) == (await house.sweep("repeat-lost"), place.execution(call).fence)
        await house.idle()


async def test_a_lost_attempt_that_is_stopped_keeps_no_other_waiting(place: Premises) -> None:
    """The one that was lost first waits for the end of the stop, and the next one is repeated."""
    async with open_house(place) as house:
        await a_lost_call(place, "wait_repeatable")
        other, _ = await a_lost_call(place, "wait_repeatable_verified")
        stop(place, tool="wait_repeatable")
        assert (1, 2) == (await house.sweep("repeat-lost"), place.execution(other).fence)
        await house.idle()
