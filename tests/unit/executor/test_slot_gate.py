"""The slot gate: who gets in, how many at a time, and what happens to those who do not."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest
from pydantic_core import from_json, to_json

from placet.contracts.messages import ToolCallPermitted
from placet.contracts.permit import answer_place
from placet.executor.parked_store import Parked
from placet.executor.slot_gate import NoSlot, SlotGate
from placet.runtime.bus import ATTEMPT_HEADER, ComesAgain, Delivery
from placet.runtime.in_process import InProcessBus
from placet.runtime.slots import Slots


class Acts:
    """Acts that end when told."""

    def __init__(self, size: int, *, patience_seconds: float = 30) -> None:
        self.slots = Slots(size)
        self.gate = SlotGate(self.slots, patience_seconds=patience_seconds)
        self.end = asyncio.Event()

    async def enter_and_spawn(self) -> None:
        """Enter, and leave an act in a slot behind."""
        async with self.gate.enter():
            await asyncio.sleep(0)  # a claim takes a while, and others come meanwhile
            self.slots.spawn(self._act(), name="act")

    async def _act(self) -> None:
        await self.end.wait()


class ParkingBus(InProcessBus):
    """A bus that only notes what is to come again."""

    def __init__(self) -> None:
        super().__init__()
        self.parked: list[tuple[bytes, int]] = []

    async def retry(self, delivery: Delivery, body: bytes, *, attempt: int) -> None:
        """Note it."""
        del delivery
        self.parked.append((body, attempt))


async def all_staged(call_ids: Sequence[str]) -> list[str]:
    """Say of calls that permits come after that none is to be staged yet."""
    del call_ids
    return []


async def test_two_who_wait_for_one_slot_do_not_share_it() -> None:
    """Five come at once for two slots: two get in, and the others when a slot is free again."""
    acts = Acts(2)
    entering = [asyncio.create_task(acts.enter_and_spawn()) for _ in range(5)]
    await asyncio.wait(entering[:2])
    assert (2, [True, True, False, False, False]) == (acts.slots.busy, [task.done() for task in entering])
    acts.end.set()
    await asyncio.gather(*entering)


async def test_a_claim_that_has_begun_its_act_leaves_no_less_than_no_room() -> None:
    """It counts as both until it leaves."""
    acts = Acts(1)
    async with acts.gate.enter():
        acts.slots.spawn(acts.end.wait(), name="act")  # type: ignore[arg-type]
        assert 0 == acts.gate.room()
    acts.end.set()


async def test_claims_under_way_keep_a_slot_each() -> None:
    """Two free slots let two claims in at the same time; the third comes in when one of them left no act behind."""
    acts, leave = Acts(2), asyncio.Event()
    inside: asyncio.Queue[None] = asyncio.Queue()

    async def claim_in_vain() -> None:
        async with acts.gate.enter():
            inside.put_nowait(None)
            await leave.wait()

    claims = [asyncio.create_task(claim_in_vain()) for _ in range(3)]
    await asyncio.gather(inside.get(), inside.get())
    for _ in range(10):
        await asyncio.sleep(0)
    assert inside.empty()
    leave.set()
    await asyncio.gather(*claims)
    assert (1, 0) == (inside.qsize(), acts.slots.busy)


async def test_who_waits_too_long_does_not_get_in() -> None:
    """Patience ends with NoSlot, whether it was the gate or the slot that was not free."""
    acts = Acts(1, patience_seconds=0.01)
    await acts.enter_and_spawn()
    outcomes = await asyncio.gather(acts.enter_and_spawn(), acts.enter_and_spawn(), return_exceptions=True)
    assert [NoSlot, NoSlot] == [type(outcome) for outcome in outcomes]
    acts.end.set()
    await acts.slots.drain(30)
    await acts.enter_and_spawn()
    assert 1 == acts.slots.busy


async def test_an_error_behind_the_gate_opens_it_again() -> None:
    """Whatever goes wrong with one delivery, the next one gets in."""
    acts = Acts(1)
    with pytest.raises(ZeroDivisionError):
        async with acts.gate.enter():
            raise ZeroDivisionError
    await acts.enter_and_spawn()


@pytest.mark.parametrize(("headers", "attempt"), [({}, 1), ({ATTEMPT_HEADER: 3}, 3)])
async def test_a_delivery_without_a_slot_comes_again_with_the_same_attempt(
    headers: dict[str, Any], attempt: int
) -> None:
    """Waiting is no failure: however often it is passed on, the event's retries are not used up."""
    acts, bus = Acts(1, patience_seconds=0.01), ParkingBus()
    await acts.enter_and_spawn()
    consumed: list[Delivery] = []
    on_delivery = acts.gate.guard(_into(consumed), bus, all_staged)
    await on_delivery(Delivery("executor.default", b"[]", headers))
    assert ([(b"[]", attempt)], []) == (bus.parked, consumed)


async def test_a_time_out_of_the_consumer_is_not_taken_for_impatience() -> None:
    """A TimeoutError behind the gate is the consumer's own and is not swallowed."""
    acts, bus = Acts(1), ParkingBus()

    async def consumer(delivery: Delivery) -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await acts.gate.guard(consumer, bus, all_staged)(Delivery("executor.default", b"[]"))
    assert [] == bus.parked


@pytest.mark.parametrize("kept", [False, True])
async def test_a_permit_whose_turn_has_not_come_does_not_hold_up_the_queue(*, kept: bool) -> None:
    """Among several tenants it is looked at once, and parked; taken from there it holds up nobody, and waits."""
    acts, bus = Acts(2), ParkingBus()
    looks: list[Sequence[str]] = []
    parked: list[str] = []
    acts.gate.tenants |= {"loud", "quiet"}

    async def goes_on(call_ids: Sequence[str]) -> Sequence[str]:
        looks.append(call_ids)
        return call_ids

    async def park(permits: Sequence[Parked]) -> None:
        parked.extend(permit.tenant for permit in permits)

    consumed: list[Delivery] = []
    on_delivery = acts.gate.guard(_into(consumed), bus, goes_on, park)
    with pytest.raises(ComesAgain) if kept else nullcontext():
        await on_delivery(Delivery("executor.default", _after("earlier"), kept=kept))
    assert (kept, [] if kept else ["loud"], [], []) == (len(looks) > 1, parked, bus.parked, consumed)


async def test_no_more_kept_permits_look_for_their_turn_than_there_are_slots() -> None:
    """One more is looked at once, and comes again."""
    acts, bus = Acts(2), ParkingBus()
    looks: list[str] = []
    all_look, end = asyncio.Event(), asyncio.Event()

    async def goes_on(call_ids: Sequence[str]) -> Sequence[str]:
        looks.extend(call_ids)
        if "earlier" in call_ids:
            if len(looks) == 2:
                all_look.set()
            await end.wait()
            return []
        return call_ids

    on_delivery = acts.gate.guard(_into([]), bus, goes_on)
    earlier = Delivery("executor.default", _after("earlier"), kept=True)
    waiting = [asyncio.ensure_future(on_delivery(earlier)) for _ in range(2)]
    await all_look.wait()
    with pytest.raises(ComesAgain):
        await on_delivery(Delivery("executor.default", _after("another"), kept=True))
    assert ["earlier", "earlier", "another"] == looks
    end.set()
    await asyncio.gather(*waiting)


async def test_a_permit_whose_turn_comes_as_the_executor_ends_is_left_to_another() -> None:
    """Nobody would wait for what it claims: it stays parked."""
    acts, looking, end = Acts(2), asyncio.Event(), asyncio.Event()
    consumed: list[Delivery] = []

    async def goes_on(call_ids: Sequence[str]) -> Sequence[str]:
        del call_ids
        looking.set()
        await end.wait()
        return []

    on_delivery = acts.gate.guard(_into(consumed), ParkingBus(), goes_on)
    turn = asyncio.ensure_future(on_delivery(Delivery("executor.default", _after("earlier"), kept=True)))
    await looking.wait()
    await acts.slots.drain(0)
    end.set()
    with pytest.raises(ComesAgain):
        await turn
    assert [] == consumed


async def test_of_an_answer_the_first_enters_and_the_others_are_parked() -> None:
    """In the order of the envelope; what comes twice enters twice, and what cannot be parked is for its reader."""
    acts, parked, consumed = Acts(8), list[Parked](), list[Delivery]()

    async def park(permits: Sequence[Parked]) -> None:
        parked.extend(permits)

    second, first = _permit({"answer": "t:1", "position": 4}), _permit({"answer": "t:1", "position": 3})
    nobodys, alone = {**_permit({"answer": "t:1", "position": 9}), "id": ""}, _permit({})
    items = [second, first, first, nobodys, alone]
    await acts.gate.guard(_into(consumed), ParkingBus(), all_staged, park)(Delivery("executor.a", to_json(items)))
    entered = [item for delivery in consumed for item in from_json(delivery.body)]
    assert ([first, first, nobodys, alone], [to_json([second]).decode()]) == (entered, [each.body for each in parked])


@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"answer": ""},
        {"answer": 5},
        {"answer": "t\0:1"},
        {"answer": "t:1", "position": -1},
        {"answer": "t:1", "position": 10**9},
        {"answer": "t:1", "position": "x"},
        {"answer": "t:1", "exp": 1e300},
        {"answer": "t:1", "exp": None},
    ],
)
def test_a_place_that_is_none_is_nobodys(claims: dict[str, Any]) -> None:
    """A permit was not verified yet: what could not be stored or compared waits for nothing."""
    assert answer_place(_permit(claims)["data"]["permit"]) is None


def _permit(claims: dict[str, Any]) -> dict[str, Any]:
    """Return an event with a permit of these claims."""
    payload = base64.urlsafe_b64encode(to_json({"exp": 4e9} | claims)).decode().rstrip("=")
    data = {"tenant": "loud", "permit": f"e30.{payload}.x"}
    return {"id": "a", "type": ToolCallPermitted.type_name, "data": data}


def _after(call_id: str) -> bytes:
    """Return an envelope with a permit to stage that comes after a call."""
    return to_json([_permit({"mode": "stage", "after": [call_id]})])


def _into(consumed: list[Delivery]) -> Any:
    async def consumer(delivery: Delivery) -> None:
        consumed.append(delivery)

    return consumer


async def test_an_envelope_enters_whole_where_all_its_permits_find_slots() -> None:
    """Two permits in one envelope keep two slots from the beginning: whoever comes meanwhile finds the third alone."""
    acts, bus = Acts(3, patience_seconds=0.01), ParkingBus()
    body = b'[{"id":"a"},{"id":"b"}]'
    bodies: list[bytes] = []

    async def claim(delivery: Delivery) -> None:
        bodies.append(delivery.body)
        assert 1 == acts.gate.room()
        for _ in range(2):
            acts.slots.spawn(acts.end.wait(), name="act")  # type: ignore[arg-type]

    await acts.gate.guard(claim, bus, all_staged)(Delivery("executor.default", body))
    assert ([body], 1, []) == (bodies, acts.gate.room(), bus.parked)
    acts.end.set()


async def test_an_envelope_passes_nobody_who_waits_at_the_gate() -> None:
    """Two slots come free at once: whoever waits goes first, and the two permits that come then keep to the slots."""
    acts, bus = Acts(2, patience_seconds=0.01), ParkingBus()
    await acts.enter_and_spawn()
    await acts.enter_and_spawn()
    waiting = [asyncio.create_task(acts.enter_and_spawn()) for _ in range(2)]
    await asyncio.sleep(0)
    acts.end.set()
    await acts.slots.drain(30)
    acts.end.clear()
    busy: list[int] = []

    async def claim(delivery: Delivery) -> None:
        del delivery
        acts.slots.spawn(acts.end.wait(), name="act")  # type: ignore[arg-type]
        busy.append(acts.slots.busy)

    assert 0 == acts.gate.room()
    await acts.gate.guard(claim, bus, all_staged)(Delivery("executor.default", b'[{"id":"a"},{"id":"b"}]'))
    await asyncio.gather(*waiting)
    assert (2, [], 2) == (acts.slots.busy, busy, len(bus.parked))
    acts.end.set()


async def test_each_permit_of_an_envelope_enters_by_itself_where_not_all_find_slots() -> None:
    """Three permits in one envelope take two slots; who finds none comes again alone, and its neighbours run."""
    acts, bus = Acts(2, patience_seconds=0.01), ParkingBus()
    entered: list[bytes] = []

    async def claim(delivery: Delivery) -> None:
        entered.append(delivery.body)
        acts.slots.spawn(acts.end.wait(), name="act")  # type: ignore[arg-type]

    await acts.gate.guard(claim, bus, all_staged)(Delivery("executor.default", b'[{"id":"a"},{"id":"b"},{"id":"c"}]'))
    assert ([b'[{"id":"a"}]', b'[{"id":"b"}]'], [(b'[{"id":"c"}]', 1)]) == (entered, bus.parked)
    acts.end.set()


async def test_what_fails_gives_its_envelope_back_when_its_neighbours_have_ended() -> None:
    """The broker brings all of it again, and the inbox knows those that were taken."""
    acts, taken = Acts(1), []

    async def claim(delivery: Delivery) -> None:
        if delivery.body == b'[{"id":"a"}]':
            raise ZeroDivisionError
        await asyncio.sleep(0)
        taken.append(delivery.body)

    with pytest.raises(ZeroDivisionError):
        await acts.gate.guard(claim, ParkingBus(), all_staged)(Delivery("executor.default", b'[{"id":"a"},{"id":"b"}]'))
    assert [b'[{"id":"b"}]'] == taken


@pytest.mark.parametrize("body", [b"no JSON", b"{}", b"[]", b'[{"id":"a"}]'])
async def test_what_is_no_envelope_of_several_comes_whole(body: bytes) -> None:
    """Whoever reads it judges it."""
    bodies: list[bytes] = []

    async def note(delivery: Delivery) -> None:
        bodies.append(delivery.body)

    await Acts(1).gate.guard(note, ParkingBus(), all_staged)(Delivery("executor.default", body))
    assert [body] == bodies
