"""Calls that were approved together run one after the other, in the order in which the model proposed them."""

from __future__ import annotations

import asyncio

import pytest

from placet.contracts.messages import ToolCallPermitted
from placet.executor.states import State
from tests.builders import an_event
from tests.support.executor_house import House, Premises, open_house
from tests.support.executor_tools import a_gate


def two(place: Premises, name: str, *, lifetime_seconds: int = 300) -> tuple[ToolCallPermitted, ToolCallPermitted]:
    """Return the permit of a call that waits at a gate, and one of a call that comes after it."""
    first, second = place.call("wait", gate=name), place.call("add", a=1, b=2)
    later = place.permitted(second, after=[first.call_id], lifetime_seconds=lifetime_seconds)
    return place.permitted(first), later


@pytest.mark.parametrize("executors", [1, 2])
async def test_a_call_begins_when_the_one_before_it_has_ended(house: House, place: Premises, executors: int) -> None:
    """Also where its permit comes first, and to another executor."""
    gate = a_gate(f"order-{executors}")
    first, second = two(place, f"order-{executors}")
    async with open_house(place, executor_worker="worker-2") as other:
        late = house if executors == 1 else other
        delivering = asyncio.create_task(late.deliver(second))
        await late.bus.retried.wait()
        await house.deliver(first)
        await gate.has_begun()
        assert place.execution(second.call) is None
        gate.opened.set()
        await delivering
        while place.execution(second.call) is None:
            await asyncio.to_thread(place.sql, "SELECT 1")
        await late.idle()
    rows = place.sql("SELECT subject_id, event FROM executor.history ORDER BY id")
    order = [(each.call.call_id, event) for each in (first, second) for event in ("claimed", "succeeded")]
    assert order == [tuple(row) for row in rows]


async def test_a_call_runs_though_the_one_before_it_was_lost(house: House, place: Premises) -> None:
    """Its executor was killed: once it counts as lost, nobody waits for it any more."""
    first, second = two(place, "order-lost")
    await house.deliver(first)
    await a_gate("order-lost").has_begun()
    delivering = asyncio.create_task(house.deliver(second))
    await house.bus.retried.wait()
    place.end_lease(first.call)
    assert 1 == await house.sweep("give-up-lost")
    await delivering
    while place.execution(second.call) is None:
        await asyncio.to_thread(place.sql, "SELECT 1")
    a_gate("order-lost").opened.set()
    await house.idle()
    assert (State.UNKNOWN, State.SUCCEEDED) == (place.execution(first.call).state, place.execution(second.call).state)


async def test_what_has_its_answer_is_not_waited_for(house: House, place: Premises) -> None:
    """A rule denied it after people had approved it: no executor ever hears of it."""
    first, second = two(place, "order-answered")
    delivering = asyncio.create_task(house.deliver(second))
    await house.bus.retried.wait()
    place.sql("INSERT INTO read.answered_calls VALUES (:call_id)", call_id=first.call.call_id)
    await delivering
    while place.execution(second.call) is None:
        await asyncio.to_thread(place.sql, "SELECT 1")
    await house.idle()
    assert (None, State.SUCCEEDED) == (place.execution(first.call), place.execution(second.call).state)


async def test_nothing_waits_longer_than_its_permit_is_good(house: House, place: Premises) -> None:
    """What comes after a call that never came is answered when its permit has expired."""
    _, second = two(place, "order-never", lifetime_seconds=0)
    await house.deliver(second)
    assert State.EXPIRED == place.execution(second.call).state


async def test_permits_of_one_envelope_keep_their_order(house: House, place: Premises) -> None:
    """What comes after its neighbour waits for it; both are taken."""
    first, second = two(place, "order-envelope")
    a_gate("order-envelope").opened.set()
    await house.deliver_event(an_event(second), an_event(first))
    await house.idle()
    while place.execution(second.call) is None:
        await asyncio.to_thread(place.sql, "SELECT 1")
    await house.idle()
    rows = place.sql("SELECT subject_id FROM executor.history WHERE event = 'claimed' ORDER BY id")
    assert [first.call.call_id, second.call.call_id] == [row.subject_id for row in rows]
