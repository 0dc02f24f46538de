"""Calls of one answer run one at a time, in whatever order and however far apart people approve them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import pytest

from placet.contracts.ids import call_id, new_id
from placet.contracts.messages import CallResolved, ToolCall, ToolCallPermitted
from placet.contracts.permit import verify_permit
from placet.contracts.signing import load_verifier
from placet.contracts.topology import executor_queue
from placet.executor import parked_store, store
from placet.executor.rules import Admission
from placet.executor.slot_gate import parked_from
from placet.executor.states import Event, State
from placet.executor.store import Attempt, Holder, Wanted
from placet.runtime.bus import Delivery
from placet.runtime.work import Cause
from tests.builders import NOON, an_envelope, an_event
from tests.support.agents import wait_for_a_blocked_statement
from tests.support.executor_house import ANSWER_SECONDS, House, Premises, open_house
from tests.support.executor_processes import Processes, has_begun
from tests.support.executor_tools import a_gate

HAPPENED = "SELECT subject_id, event FROM executor.history ORDER BY id"
CLAIMED = Admission(Event.CLAIMED)
PARKED = "SELECT position, lent_until IS NOT NULL FROM executor.parked ORDER BY position"


class Said:
    """An answer of the model, with calls that people are asked about."""

    def __init__(self, place: Premises, *calls: ToolCall) -> None:
        self.place, self.turn_id = place, new_id()
        self.calls = [
            call.model_copy(update={"call_id": call_id(self.turn_id, 1, position)})
            for position, call in enumerate(calls)
        ]

    def approve(self, position: int, *after: int, **changes: object) -> ToolCallPermitted:
        """Return the permit of a call that people let through: it comes after those that they let through before."""
        call = self.calls[position]
        self.place.sql("INSERT INTO read.approved_calls VALUES (:call_id)", call_id=call.call_id)
        before = [self.calls[each].call_id for each in after]
        own = {"answer": f"{self.turn_id}:1", "position": position, "pool": self.place.catalog[call.tool].pool}
        return self.place.permitted(call, issuer="approval", after=before, **own, **changes)

    async def ended(self, *houses: House) -> list[tuple[int, str]]:
        """Return what happened, by the calls' places, once all of them have ended; these take what is parked."""
        async with asyncio.timeout(ANSWER_SECONDS):
            while len(rows := self.happened()) < 2 * len(self.calls):
                await asyncio.gather(*(house.sweep("unpark") for house in houses))
        return rows

    def happened(self) -> list[tuple[int, str]]:
        """Return what happened so far, by the calls' places."""
        places = {call.call_id: position for position, call in enumerate(self.calls)}
        return [(places[each], event) for each, event in self.place.sql(HAPPENED) if each in places]


def one_by_one(*positions: int) -> list[tuple[int, str]]:
    """Return what happens where calls run one after the other."""
    return [(position, event) for position in positions for event in ("claimed", "succeeded")]


def others(place: Premises, house: House) -> tuple[ToolCall, ToolCall]:
    """Return two calls of tools that an executor has, which end at once."""
    if house.service.raw_subscriptions[0][0].name == executor_queue("default").name:
        return place.call("add", a=1, b=1), place.call("add", a=1, b=2)
    name = new_id()
    a_gate(name).opened.set()
    return place.call("pay", gate=name), place.call("pay", gate=name)


async def kinds(house: House, number: int) -> dict[str, str]:
    """Return the kinds of the next answers by call, in their order."""
    answers = [await house.answer() for _ in range(number)]
    return {answer.call_id: answer.kind for answer in answers if not isinstance(answer, CallResolved)}


async def deliver(house: House, permitted: ToolCallPermitted) -> None:
    """Bring a permit to the queue of its pool; return when it is taken or parked."""
    await house.deliver(permitted, pool=permitted.pool)


def parked(place: Premises) -> list[tuple[int, bool]]:
    """Return the places of calls that are parked, and whether somebody borrowed them."""
    return [tuple(row) for row in place.sql(PARKED)]


@pytest.fixture(params=["one", "two", "two pools"])
async def houses(request: pytest.FixtureRequest, place: Premises) -> AsyncIterator[Sequence[House]]:
    """The executor of the first call and that of the others: one, two of a pool, or one of each of two pools."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(open_house(place))
        if request.param == "one":
            yield first, first
            return
        pool = "payments" if request.param == "two pools" else "default"
        other = open_house(place, executor_worker="worker-2", executor_pools=pool)
        yield first, await stack.enter_async_context(other)


async def test_what_is_approved_while_an_earlier_call_runs_keeps_its_place(
    houses: Sequence[House], place: Premises
) -> None:
    """The first and the third are approved, and the second while the first runs: first, second, third."""
    house, other = houses
    name = new_id()
    gate = a_gate(name)
    said = Said(place, place.call("wait", gate=name), *others(place, other))
    await house.deliver(said.approve(0))
    await gate.has_begun()
    await deliver(other, said.approve(2, 0))
    await deliver(other, said.approve(1, 0))
    assert [(1, False), (2, False)] == parked(place)
    gate.opened.set()
    assert one_by_one(0, 1, 2) == await said.ended(house, other)
    await house.idle()
    await other.idle()


async def test_what_is_approved_while_a_later_call_runs_waits_for_it(houses: Sequence[House], place: Premises) -> None:
    """The second and third are approved, and the first while the second runs: then it is its turn."""
    house, other = houses
    name = new_id()
    gate = a_gate(name)
    first, third = others(place, other)
    said = Said(place, first, place.call("wait", gate=name), third)
    await house.deliver(said.approve(1))
    await gate.has_begun()
    await deliver(other, said.approve(2, 1))
    await deliver(other, said.approve(0))
    gate.opened.set()
    assert one_by_one(1, 0, 2) == await said.ended(house, other)
    await house.idle()
    await other.idle()


@pytest.mark.parametrize("seed", range(3))
async def test_no_two_calls_of_an_answer_run_at_once(place: Premises, seed: int) -> None:
    """Two executors get the permits of several answers in any order, some of them together."""
    chance = random.Random(seed)  # noqa: S311 - an order, no secret
    every = [Said(place, *(place.call("add", a=1, b=each) for each in range(4))) for _ in range(4)]
    events = [an_event(said.approve(position)) for said in every for position in range(4)]
    chance.shuffle(events)
    async with open_house(place) as one, open_house(place, executor_worker="worker-2") as two:
        sent: list[asyncio.Task[None]] = []
        while events:
            several = [events.pop() for _ in range(min(len(events), chance.randint(1, 5)))]
            sent.append(asyncio.create_task(chance.choice((one, two)).deliver_event(*several)))
        await asyncio.gather(*sent)
        assert [one_by_one(0, 1, 2, 3)] * 4 == [await said.ended(one, two) for said in every]
        assert (0, 0) == (one.dead.qsize(), two.dead.qsize())
        await one.idle()
        await two.idle()


async def test_of_two_claims_at_once_one_waits(house: House, place: Premises) -> None:
    """Neither statement saw the other's call: the key of answers lets one of them in, also where two answers cross."""
    one, two = (Said(place, *(place.call("add", a=1, b=each) for each in range(2))) for _ in range(2))
    holder = Holder("worker-1", 3600)

    def wanted(said: Said, position: int) -> tuple[Wanted, Admission]:
        token, call = said.approve(position).permit, said.calls[position]
        permit = verify_permit(load_verifier(place.keys), token, call, pool="default")
        return Wanted(Attempt(call, token, "default", 1, NOON, Cause()), permit, idempotent=False), CLAIMED

    later = {"one": wanted(one, 1), "two": wanted(two, 1)}
    earlier = {"one": wanted(one, 0), "two": wanted(two, 0)}

    async def claim(each: dict[str, tuple[Wanted, Admission]]) -> set[str]:
        async with house.service.runtime.units.once() as work:
            return set(await store.claim(work, each, holder))

    place.sql("DELETE FROM read.approved_calls")
    async with house.service.runtime.units.begin() as work:
        await store.claim(work, {"one": later["one"]}, holder)
        crossing = asyncio.create_task(claim(earlier))
        await asyncio.to_thread(wait_for_a_blocked_statement, place.url)
    assert {"two"} == await crossing
    assert set() == await claim({"two": later["two"]})


async def test_who_waits_has_no_slot_and_expires(place: Premises) -> None:
    """Other calls run meanwhile; and when its permit is over it is answered, as whatever waits."""
    said = Said(place, place.call("add", a=1, b=1), place.call("wait", gate="no-slot"))
    async with open_house(place, sweeping=True, executor_slots=2) as house:
        await house.deliver(said.approve(1))
        await a_gate("no-slot").has_begun()
        await house.deliver(said.approve(0, lifetime_seconds=2))
        free = place.call("add", a=2, b=2)
        await house.deliver(place.permitted(free))
        assert [(free.call_id, "succeeded"), (said.calls[0].call_id, "expired")] == list(
            (await kinds(house, 2)).items()
        )
        a_gate("no-slot").opened.set()
        await house.idle()
        assert State.SUCCEEDED == place.execution(said.calls[1]).state


async def test_what_was_approved_and_denied_by_a_rule_is_not_waited_for(place: Premises) -> None:
    """It has its answer, and no executor ever hears of it."""
    said = Said(place, *(place.call("add", a=1, b=each) for each in range(2)))
    said.approve(0)
    async with open_house(place, sweeping=True) as house:
        await house.deliver(said.approve(1))
        assert place.execution(said.calls[1]) is None
        place.sql("INSERT INTO read.answered_calls VALUES (:call_id)", call_id=said.calls[0].call_id)
        assert said.calls[1].call_id == (await house.answer()).call_id


async def test_what_comes_together_is_parked_but_for_the_first(house: House, place: Premises) -> None:
    """Whatever their order in the envelope; nobody borrows what waits; one look after each end takes the next."""
    names = [new_id() for _ in range(3)]
    said = Said(place, *(place.call("wait", gate=name) for name in names))
    await house.deliver_event(*(an_event(said.approve(position)) for position in (2, 0, 1)))
    await a_gate(names[0]).has_begun()
    await house.sweep("unpark")
    assert ([(0, "claimed")], [(1, False), (2, False)]) == (said.happened(), parked(place))
    for position, name in enumerate(names[1:]):
        a_gate(names[position]).opened.set()
        while (position, "succeeded") not in said.happened():
            await asyncio.to_thread(place.sql, "SELECT 1")
        await house.sweep("unpark")
        await a_gate(name).has_begun()
    a_gate(names[-1]).opened.set()
    assert one_by_one(0, 1, 2) == await said.ended(house)
    assert ([], False, 0) == (parked(place), house.bus.retried.is_set(), house.dead.qsize())


async def test_of_an_answer_one_counts_as_parked(house: House, place: Premises) -> None:
    """More executors would not let two of its calls run at once; calls without an answer count each."""
    every = [Said(place, *(place.call("add", a=1, b=each) for each in range(3))) for _ in range(2)]
    events = [an_event(said.approve(position)) for said in every for position in range(3)]
    events += [an_event(place.permitted(place.call("add", a=1, b=1))) for _ in range(2)]
    queue = executor_queue("default").name
    several = [parked_from(Delivery(queue, an_envelope(event))) for event in events]
    async with house.service.runtime.database.single() as connection:
        await parked_store.park(connection, [each for each in several if each])
        assert {"default": 4} == await parked_store.count_parked(connection, ["default"])


async def test_a_call_runs_though_the_one_before_it_was_lost(house: House, place: Premises) -> None:
    """Its executor was killed: once it counts as lost, nobody waits for it any more."""
    name = new_id()
    gate = a_gate(name)
    said = Said(place, place.call("wait", gate=name), place.call("add", a=1, b=2))
    await house.deliver(said.approve(0))
    await gate.has_begun()
    await house.deliver(said.approve(1))
    place.end_lease(said.calls[0])
    assert 1 == await house.sweep("give-up-lost")
    await house.sweep("unpark")
    gate.opened.set()
    await house.idle()
    assert [State.UNKNOWN, State.SUCCEEDED] == [place.execution(call).state for call in said.calls]


@pytest.mark.parametrize(
    ("tool", "rest"), [("write_ledger", ["gave_up"]), ("write_ledger_repeatable", ["reclaimed", "succeeded"])]
)
async def test_an_earlier_call_waits_for_one_whose_executor_was_killed(
    processes: Processes, tool: str, rest: list[str]
) -> None:
    """Until that is given up or was repeated, also by an executor that knows nothing of it."""
    place = processes.place
    ledger = str(place.folder / "ledger")
    said = Said(place, *(place.call(tool, ledger=ledger, hang=bool(each)) for each in range(2)))
    killed = await processes.start(executor_slots=1)
    await processes.send(said.approve(1))
    await has_begun(killed)
    killed.kill()
    await killed.wait()
    await processes.send(said.approve(0))
    await processes.start()
    assert {call.call_id for call in said.calls} == {(await processes.answer()).call_id for _ in said.calls}
    assert [*((1, event) for event in ("claimed", *rest)), *one_by_one(0)] == said.happened()
