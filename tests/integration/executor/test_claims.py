"""Permits that arrive together: claimed with one statement, each judged alone, and none spoils another's."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from placet.contracts.messages import CallResolved, ToolCall
from placet.contracts.permit import verify_permit
from placet.contracts.signing import create_keys, load_verifier
from placet.executor import store
from placet.executor.rules import Admission, too_late
from placet.executor.states import Event, State
from placet.executor.store import Attempt, Holder, Wanted
from placet.runtime.queries import query
from placet.runtime.work import Cause
from tests.builders import NOON, an_event
from tests.support.agents import wait_for_a_blocked_statement
from tests.support.executor_house import House, Premises
from tests.support.executor_tools import a_gate

CLAIMS = "SELECT subject_id, message_id FROM executor.history WHERE event = 'claimed' ORDER BY id"
HOLDER = Holder("worker-1", 3600)
CLAIMED = Admission(Event.CLAIMED)


async def kinds(house: House, number: int) -> dict[str, str]:
    """Return the kinds of the next answers by call."""
    answers = [await house.answer() for _ in range(number)]
    return {answer.call_id: answer.kind for answer in answers if not isinstance(answer, CallResolved)}


def wanted(place: Premises, call: ToolCall, **changes: Any) -> Wanted:
    """Return what the handler makes of a permit for `call`."""
    token = place.permitted(call, **changes).permit
    permit = verify_permit(load_verifier(place.keys), token, call, pool="default")
    return Wanted(Attempt(call, token, "default", 1, NOON, Cause()), permit, idempotent=False)


async def test_permits_that_come_together_are_claimed_in_one_transaction(house: House) -> None:
    """Each call runs once, is answered in its own thread, and has a history that names its own permit's event."""
    gate = a_gate("claimed-together")
    calls = [house.premises.call("wait", gate="claimed-together") for _ in range(3)]
    events = [an_event(house.premises.permitted(call)) for call in calls]
    await house.deliver_event(*events)
    assert 1 == len(house.premises.sql("SELECT DISTINCT xmin::text FROM executor.executions"))
    gate.opened.set()
    assert {event.id for event in events} == {(await house.answers.get()).causation_id for _ in calls}
    found = house.premises.sql(CLAIMS)
    expected = [(call.call_id, event.id) for call, event in zip(calls, events, strict=True)]
    assert expected == [tuple(row) for row in found]
    assert 3 == len(gate.attempts)


async def test_calls_that_cannot_run_spoil_no_other_of_their_envelope(house: House) -> None:
    """One is run, one misfits, one came too late: three answers of three kinds, and no dead letter."""
    good, misfit, late = (
        house.premises.call("add", a=1, b=2),
        house.premises.call("pay", gate=""),
        house.premises.call("add", a=1, b=3),
    )
    permits = [house.premises.permitted(good), house.premises.permitted(misfit)]
    permits.append(house.premises.permitted(late, lifetime_seconds=0))
    await house.deliver_event(*map(an_event, permits))
    assert {good.call_id: "succeeded", misfit.call_id: "refused", late.call_id: "expired"} == await kinds(house, 3)
    states = [house.premises.execution(call).state for call in (good, misfit, late)]
    assert [State.SUCCEEDED, State.REFUSED, State.EXPIRED] == states
    assert 0 == house.dead.qsize()


async def test_a_forged_permit_among_good_ones_is_buried_alone(house: House, tmp_path: Path) -> None:
    """Its neighbours on every sides run once each."""
    create_keys(tmp_path / "forger")
    first, forged, last = (house.premises.call("add", a=1, b=number) for number in range(3))
    permits = [house.premises.permitted(first), house.premises.permitted(forged, keys=tmp_path / "forger")]
    await house.deliver_event(*map(an_event, [*permits, house.premises.permitted(last)]))
    assert {first.call_id: "succeeded", last.call_id: "succeeded"} == await kinds(house, 2)
    assert (await house.buried()).startswith("security: forged permit")
    assert house.premises.execution(forged) is None
    assert 0 == house.dead.qsize()


@pytest.mark.parametrize("issuer", ["policy", "approval"])
async def test_a_call_that_comes_twice_together_runs_once(house: House, issuer: str) -> None:
    """The first permit wins and the second is an attack, whether it is the same or another for the same call."""
    call, other = house.premises.call("add", a=1, b=1), house.premises.call("add", a=2, b=2)
    twice = [house.premises.permitted(call), house.premises.permitted(call, issuer=issuer)]
    await house.deliver_event(*map(an_event, [*twice, house.premises.permitted(other)]))
    assert {call.call_id: "succeeded", other.call_id: "succeeded"} == await kinds(house, 2)
    assert "security: replayed permit" in await house.buried()
    await house.idle()
    assert ("policy", 0, 0) == (
        house.premises.execution(call).permit_issuer,
        house.answers.qsize(),
        house.dead.qsize(),
    )


async def test_a_replay_among_new_permits_is_buried_alone(house: House) -> None:
    """A call that was taken before does not run again; those that came with its replay do."""
    taken, new = house.premises.call("add", a=1, b=1), house.premises.call("add", a=2, b=2)
    await house.deliver(house.premises.permitted(taken))
    assert {taken.call_id: "succeeded"} == await kinds(house, 1)
    await house.deliver_event(*map(an_event, [house.premises.permitted(taken), house.premises.permitted(new)]))
    assert {new.call_id: "succeeded"} == await kinds(house, 1)
    assert "security: replayed permit" in await house.buried()
    await house.idle()
    assert ["claimed", "succeeded"] == house.premises.history(taken)


async def test_a_second_delivery_of_some_claims_the_others_only(house: House) -> None:
    """Events that were handled before are passed over; the new one that came with them is claimed."""
    events = [an_event(house.premises.permitted(house.premises.call("add", a=1, b=number))) for number in range(3)]
    await house.deliver_event(*events[:2])
    await house.deliver_event(*events)
    await house.idle()
    assert (3, 0) == (house.answers.qsize(), house.dead.qsize())
    assert 3 == len({(await house.answers.get()).causation_id for _ in events})


@pytest.mark.parametrize("held", ["b", "c"])
async def test_every_call_is_judged_by_the_time_after_the_longest_wait(house: House, held: str) -> None:
    """A call whose neighbour waits for another transaction may expire meanwhile: its time is read after the wait."""
    units = house.service.runtime.units
    calls = [house.premises.call("add", a=1, b=1).model_copy(update={"call_id": name}) for name in ("a", "b", "c")]
    every = {call.call_id: (wanted(house.premises, call, lifetime_seconds=2), CLAIMED) for call in calls}

    async def claim_all() -> dict[str, Admission | None]:
        async with units.once() as work:
            return await store.claim(work, every, HOLDER)

    async with units.begin() as work:
        await store.claim(work, {held: every[held]}, HOLDER)
        waiting = asyncio.create_task(claim_all())
        await asyncio.to_thread(wait_for_a_blocked_statement, house.premises.url)
        over = datetime.fromtimestamp(max(each.permit.exp for each, _ in every.values()), UTC)
        await work.connection.run(query("wait", "SELECT pg_sleep_until(:over)"), over=over)
    assert {name: too_late() for name in every if name != held} == await waiting
