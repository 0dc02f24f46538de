"""Slots of one executor among tenants: who floods it is parked, who is quiet finds a slot, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from placet.contracts.ids import call_id, new_id
from placet.contracts.messages import Event, ToolCall, ToolCallFinished
from placet.executor.parked_store import QUERIES, Parked
from placet.executor.parking import Parking
from placet.executor.slot_gate import SlotGate
from placet.runtime.bus import Delivery
from placet.runtime.consumer import read_envelope
from placet.runtime.slots import Slots
from tests.builders import a_call, an_envelope, an_event
from tests.support.executor_house import House, Premises, open_house
from tests.support.executor_tools import a_gate

#: Slots of the executor here, and how many of them one of several tenants may have.
SLOTS, SHARE = 4, 3
PARKED = "SELECT tenant, event_id FROM executor.parked ORDER BY parked_at"
CLAIMED = "SELECT subject_id FROM executor.history WHERE event = 'claimed' ORDER BY id"
ATTEMPTS = "SELECT count(*) FROM executor.history WHERE event = 'claimed'"


def a_call_of(place: Premises, tenant: str, tool: str, **arguments: Any) -> ToolCall:
    """Return a tenant's call of `tool`."""
    return a_call(tenant=tenant, tool=tool, schema_digest=place.catalog[tool].schema_digest, arguments=arguments)


def an_answer(place: Premises, *calls: ToolCall) -> list[Event]:
    """Return the permits of calls that a model proposed in one answer, and that people have approved."""
    turn, events = new_id(), []
    for position, call in enumerate(calls):
        own = call.model_copy(update={"call_id": call_id(turn, 1, position)})
        place.sql("INSERT INTO read.approved_calls VALUES (:call_id)", call_id=own.call_id)
        events.append(an_event(place.permitted(own, answer=f"{turn}:1", position=position)))
    return events


def calls_of(events: Sequence[Event]) -> list[str]:
    """Return the calls that are permitted."""
    return [event.message.call.call_id for event in events]  # type: ignore[attr-defined]


def let_work(place: Premises, *tenants: str) -> None:
    """Give tenants keys that work."""
    for tenant in tenants:
        place.sql('INSERT INTO "read".api_keys (key_id, tenant) VALUES (:tenant, :tenant)', tenant=tenant)


async def a_flood(house: House, number: int, gate: str) -> list[Event]:
    """Bring so many permits of the tenant `loud`, whose tools wait at a gate; return their events."""
    let_work(house.premises, "loud", "quiet")
    await house.sweep("look-for-tenants")
    calls = [a_call_of(house.premises, "loud", "wait", gate=gate) for _ in range(number)]
    events = [an_event(house.premises.permitted(call)) for call in calls]
    for event in events:
        await house.deliver_event(event)
    return events


async def kinds(house: House, number: int) -> dict[str, str]:
    """Return the kinds of the next answers by call."""
    answers = [await house.answer() for _ in range(number)]
    return {answer.call_id: answer.kind for answer in answers if isinstance(answer, ToolCallFinished)}


async def unpark(house: House) -> None:
    """Have the executor take what is parked until nothing is."""
    while house.premises.sql(PARKED):
        await house.sweep("unpark")


async def test_a_tenant_that_floods_leaves_slots_for_others(house: House) -> None:
    """Of ten permits three run and seven are parked, in their order; another tenant's call runs at once meanwhile."""
    gate = a_gate("shares-flood")
    events = await a_flood(house, 10, "shares-flood")
    assert [("loud", event.id) for event in events[SHARE:]] == [tuple(row) for row in house.premises.sql(PARKED)]
    quiet = a_call_of(house.premises, "quiet", "add", a=1, b=2)
    await house.deliver(house.premises.permitted(quiet))
    assert {quiet.call_id: "succeeded"} == await kinds(house, 1)
    gate.opened.set()
    await unpark(house)
    calls = [event.message.call.call_id for event in events]  # type: ignore[attr-defined]
    assert dict.fromkeys(calls, "succeeded") == await kinds(house, 10)
    assert (10, 11) == (len(gate.attempts), house.premises.sql(ATTEMPTS)[0][0])


async def test_what_is_parked_is_gone_once_it_has_run(house: House) -> None:
    """No row is left, and nothing was buried."""
    gate = a_gate("shares-gone")
    gate.opened.set()
    await a_flood(house, 10, "shares-gone")
    await unpark(house)
    await kinds(house, 10)
    assert ([], 0) == (house.premises.sql(PARKED), house.dead.qsize())


async def test_a_permit_that_comes_twice_while_it_is_parked_runs_once(house: House) -> None:
    """The broker may bring again what was parked and not acknowledged, also after it has run."""
    gate = a_gate("shares-twice")
    events = await a_flood(house, SHARE + 1, "shares-twice")
    await house.deliver_event(events[-1])
    assert 1 == len(house.premises.sql(PARKED))
    gate.opened.set()
    await unpark(house)
    await kinds(house, SHARE + 1)
    await house.deliver_event(events[-1])
    await house.idle()
    assert (SHARE + 1, 0) == (len(gate.attempts), house.dead.qsize())


async def test_what_comes_after_a_call_that_runs_is_parked_and_holds_up_nobody(house: House) -> None:
    """Permits that wait for an earlier call leave the queue to another tenant, and run in their order later."""
    await a_flood(house, 0, "shares-after")
    first = a_call_of(house.premises, "loud", "wait", gate="shares-after")
    later = [a_call_of(house.premises, "loud", "add", a=each, b=1) for each in range(2 * SLOTS)]
    events = an_answer(house.premises, first, *later)
    calls = calls_of(events)
    await house.deliver_event(events[0])
    await a_gate("shares-after").has_begun()
    for event in events[1:]:
        await house.deliver_event(event)
    assert [("loud", event.id) for event in events[1:]] == [tuple(row) for row in house.premises.sql(PARKED)]
    quiet = a_call_of(house.premises, "quiet", "add", a=1, b=2)
    await house.deliver(house.premises.permitted(quiet))
    assert {quiet.call_id: "succeeded"} == await kinds(house, 1)
    a_gate("shares-after").opened.set()
    await unpark(house)
    assert dict.fromkeys(calls, "succeeded") == await kinds(house, len(calls))
    claimed = [row.subject_id for row in house.premises.sql(CLAIMED)]
    assert calls == [each for each in claimed if each != quiet.call_id]
    assert 0 == house.dead.qsize()


async def test_a_call_that_is_parked_behind_those_that_wait_for_it_is_reached(house: House) -> None:
    """However many come before it: it is the first of its answer."""
    let_work(house.premises, "loud", "quiet")
    await house.sweep("look-for-tenants")
    several = [a_call_of(house.premises, "loud", "add", a=each, b=2) for each in range(10 * SHARE + 1)]
    first, *later = an_answer(house.premises, *several)
    for event in later:
        await house.deliver_event(event)
    assert len(later) == len(house.premises.sql(PARKED))
    await house.deliver_event(first)
    await unpark(house)
    claimed = [row.subject_id for row in house.premises.sql(CLAIMED)]
    assert calls_of([first, *later]) == claimed == list(await kinds(house, 31))


async def test_what_waits_until_another_is_staged_holds_up_nobody_elses_turn(house: House) -> None:
    """A round ends while permits of another tenant wait, and as many of these are taken as its share, not more."""
    slots, turn, heard = Slots(SLOTS), asyncio.Event(), []
    parking = Parking(house.service.runtime.database, SlotGate(slots, patience_seconds=1, share=0.5), slots)
    let_work(house.premises, "loud", "quiet")
    await parking.look_for_tenants()

    async def consume(delivery: Delivery) -> None:
        ((event,), _) = read_envelope(delivery.body)
        heard.append(event.message.tenant)
        if event.message.tenant == "loud":
            await turn.wait()

    for tenant, after in (("loud", ["earlier"]), ("quiet", [])):
        for _ in range(SLOTS):
            call = a_call_of(house.premises, tenant, "add", a=1, b=2)
            event = an_event(house.premises.permitted(call, after=after, mode="stage"))
            await parking.park([Parked(event.id, "other", tenant, an_envelope(event).decode())])
    async with asyncio.timeout(10):
        while heard.count("quiet") < SLOTS:
            await parking.unpark({"other": consume})
        assert 2 == heard.count("loud")
        turn.set()
        while house.premises.sql(PARKED):
            await parking.unpark({"other": consume})
    assert SLOTS == heard.count("loud")


async def test_what_was_lent_to_an_executor_that_died_is_handled_by_another(place: Premises) -> None:
    """A row lent by nobody alive comes again once its time is over, in a process that knows of no other tenant."""
    async with open_house(place) as first:
        gate = a_gate("shares-lent")
        events = await a_flood(first, SHARE + 1, "shares-lent")
        place.sql("UPDATE executor.parked SET lent_until = now() + interval '1 hour'")
        gate.opened.set()
        await kinds(first, SHARE)
        await first.sweep("unpark")
        assert [("loud", events[-1].id)] == [tuple(row) for row in place.sql(PARKED)]
    place.sql("UPDATE executor.parked SET lent_until = now() - interval '1 second'")
    place.sql('DELETE FROM "read".api_keys')
    async with open_house(place) as second:
        await unpark(second)
        assert {events[-1].message.call.call_id: "succeeded"} == await kinds(second, 1)  # type: ignore[attr-defined]


async def test_who_has_fewest_slots_is_taken_first(house: House) -> None:
    """Of two tenants that parked the one without a slot goes before the older rows of the other."""
    row = "INSERT INTO executor.parked VALUES (:id, 'other', :tenant, '[]', now() + :after * interval '1 second')"
    for after, tenant in enumerate(["loud", "loud", "loud", "quiet", "quiet"]):
        house.premises.sql(row, id=f"{tenant}-{after}", tenant=tenant, after=after)
    values = {"pools": ["other"], "most": 3, "limit": 3, "tenants": ["loud"], "busy": [1]}
    async with house.service.runtime.database.single() as connection:
        taken = await connection.run(QUERIES.take_parked, lent=timedelta(minutes=1), **values)
    assert ["loud-0", "quiet-3", "quiet-4"] == sorted(each["event_id"] for each in taken if each["event_id"])


async def test_one_tenant_alone_has_all_slots_and_parks_nothing(house: House) -> None:
    """Where no other tenant works the queue is what it ever was, and its depth tells what waits."""
    let_work(house.premises, "loud")
    await house.sweep("look-for-tenants")
    gate = a_gate("shares-alone")
    calls = [a_call_of(house.premises, "loud", "wait", gate="shares-alone") for _ in range(SLOTS)]
    for call in calls:
        await house.deliver(house.premises.permitted(call))
    assert house.service.slots is not None
    assert (SLOTS, []) == (house.service.slots.busy, house.premises.sql(PARKED))
    gate.opened.set()
    await kinds(house, SLOTS)
