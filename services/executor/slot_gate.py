"""The gate to the slots of one executor process: a claim enters when a slot is kept for it.

One gate for all queues and the sweeper, so that two of them never claim for the same free slot. What does not get in
for a while goes back to the tail of its queue as a new message: held for long, the broker would close the channel,
and given back by nack it would count towards the delivery limit of a message that did nothing wrong.

Where several tenants work, none of them has more than its share of the slots, and what finds none is parked soon, so
that the next tenant's permit is reached; only who has no slot at all waits here. Of calls of one answer that come
together the first enters, and the others are parked at once (see `parking`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import structlog
from pydantic_core import from_json, to_json

from placet.contracts.errors import PlacetError
from placet.contracts.messages import (
    ENVELOPE_EVENTS_MAX,
    AbandonCall,
    ResolveCall,
    StagedCallPermitted,
    ToolCallPermitted,
)
from placet.contracts.permit import answer_place, comes_after
from placet.contracts.topology import executor_queue
from placet.executor.parked_store import Parked
from placet.runtime.bus import Bus, ComesAgain, Delivery, OnDelivery
from placet.runtime.slots import Slots, share_of

log = structlog.get_logger(__name__)

#: How long a permit to stage that holds up nobody waits here for calls that it comes after, and how often it looks, in
#: seconds.
TURN_SECONDS, TURN_LOOK_SECONDS = 0.25, 0.02
#: How long a permit waits for a slot, in seconds, whose tenant has one, where others work too. A queue of fast tools
#: never stands still for as long, and parks nothing.
BRIEF_SECONDS = 0.05
#: What takes a slot, and what people say of calls, which takes none.
_PERMITS = frozenset({ToolCallPermitted.type_name, StagedCallPermitted.type_name})
_WORDS = frozenset({AbandonCall.type_name, ResolveCall.type_name})


#: Returns those of some calls that may be staged yet.
Unstaged: TypeAlias = Callable[[Sequence[str]], Awaitable[Sequence[str]]]
#: Keeps permits until it is their turn.
Park: TypeAlias = Callable[[Sequence[Parked]], Awaitable[None]]


class NoSlot(PlacetError):
    """All slots stayed busy, or earlier calls went on, for as long as it is worth waiting."""


class SlotGate:
    """Lets as many claims in as there are free slots, one at a time and in the order of their coming.

    An envelope enters whole where nobody waits and all of it finds slots.
    """

    def __init__(self, slots: Slots, *, patience_seconds: float, share: float = 1.0) -> None:
        self._slots = slots
        self._patience_seconds = patience_seconds
        self._share = share_of(slots.size, share)
        #: Tenants that work here, as far as it was seen: two are enough to know.
        self.tenants: set[str] = set()
        #: Tenants of which something is parked: what comes is parked behind it.
        self.parked: set[str] = set()
        self._lock = asyncio.Lock()
        #: Claims inside, each of them with a free slot of its own.
        self._inside = 0
        self._inside_of: Counter[str] = Counter()
        #: Claims that wait to enter.
        self._waiting = 0
        #: Permits that wait for calls that they come after.
        self._turns = 0
        self._left = asyncio.Event()

    @property
    def shared(self) -> bool:
        """Whether several tenants share the slots."""
        return len(self.tenants) > 1

    @property
    def most(self) -> int:
        """How many slots one tenant may have now."""
        return self._share if self.shared else self._slots.size

    def _has(self, tenant: str) -> int:
        return self._slots.busy_of(tenant) + self._inside_of[tenant]

    @asynccontextmanager
    async def enter(self, tenant: str = "", *, patience_seconds: float | None = None) -> AsyncIterator[None]:
        """Keep a free slot while the block claims and spawns; raise NoSlot where none came free in time."""
        patience = self._patience_seconds if patience_seconds is None else patience_seconds
        if patience <= 0:
            raise NoSlot("its tenant has its share")
        self._waiting += 1
        try:
            async with asyncio.timeout(patience), self._lock:
                await self._wait_free()
                self._inside += 1
        except TimeoutError as error:
            raise NoSlot(f"no slot within {patience:g} seconds") from error
        finally:
            self._waiting -= 1
        self._inside_of[tenant] += 1
        try:
            yield
        finally:
            self._inside_of -= Counter((tenant,))
            self._leave(1)

    @contextmanager
    def reserve(self, claims: int) -> Iterator[None]:
        """Keep as many free slots while the block claims and spawns; raise NoSlot where there is no room for all."""
        if claims > self.room():
            raise NoSlot(f"no room for {claims} at once")
        self._inside += claims
        try:
            yield
        finally:
            self._leave(claims)

    def room(self) -> int:
        """Return how many claims may enter together now, past nobody who waits."""
        # A claim that has begun its act and has not left yet counts twice.
        return 0 if self._waiting else max(0, self._slots.size - self._slots.busy - self._inside)

    async def _wait_turn(self, awaited: Sequence[str], unstaged: Unstaged, *, patience_seconds: float) -> None:
        ends = asyncio.get_running_loop().time() + patience_seconds
        self._turns += 1
        try:
            while awaited:
                awaited = await unstaged(awaited)
                if awaited and asyncio.get_running_loop().time() >= ends:
                    raise NoSlot(f"{len(awaited)} earlier calls are not staged")
                if awaited:
                    await asyncio.sleep(TURN_LOOK_SECONDS)
        finally:
            self._turns -= 1

    def _leave(self, claims: int) -> None:
        self._inside -= claims
        self._left.set()

    async def _wait_free(self) -> None:
        await self._slots.wait_free()
        while self._slots.busy + self._inside >= self._slots.size:
            self._left.clear()
            await self._left.wait()
            await self._slots.wait_free()

    def guard(self, consumer: OnDelivery, bus: Bus, unstaged: Unstaged, park: Park | None = None) -> OnDelivery:
        """Return `consumer` behind the gate; `unstaged` tells which of some calls a permit to stage must wait for yet.

        A permit to stage that comes after other calls waits a moment for them, then it goes back to its queue; among
        several tenants it is parked without waiting.

        An envelope with several permits enters whole where there is room for all; else each enters alone. `park` keeps
        what has to wait for its turn.
        """
        enter = partial(self._enter_alone, consumer=consumer, bus=bus, unstaged=unstaged, park=park)

        async def on_delivery(delivery: Delivery) -> None:
            items = _items(delivery)
            if park is not None and len(items) > 1:
                items, behind = _in_turn(delivery, items)
                if behind:
                    await park(behind)
                    delivery = replace(delivery, body=to_json(items))
            if items and all(isinstance(item, dict) and item.get("type") in _WORDS for item in items):
                await consumer(delivery)
            elif len(items) <= 1:
                await enter(delivery, items)
            elif len(items) <= self.room() and not _awaited(items) and self._fit(items):
                with self.reserve(len(items)):
                    await consumer(delivery)
            else:
                singles = (enter(replace(delivery, body=to_json([item])), [item]) for item in items)
                # All of them end before one's failure gives the envelope back: the inbox knows those that were taken.
                ends = await asyncio.gather(*singles, return_exceptions=True)
                for error in filter(None, ends):
                    raise error

        return on_delivery

    async def _enter_alone(
        self,
        delivery: Delivery,
        items: Sequence[Any],
        *,
        consumer: OnDelivery,
        bus: Bus,
        unstaged: Unstaged,
        park: Park | None,
    ) -> None:
        """Handle an envelope of one permit, whose events are `items`, or of none that can be read."""
        parked = None if park is None else self._parkable(delivery, items)
        tenant = parked.tenant if parked else ""
        # Of those that hold up nobody no more look for their turn again and again than there are slots.
        at_once = self._turns >= self._slots.size if delivery.kept else parked is not None and self.shared
        try:
            for awaited in _awaited(items):
                await self._wait_turn(awaited, unstaged, patience_seconds=0 if at_once else TURN_SECONDS)
            if delivery.kept and self._slots.draining:
                raise NoSlot("this executor ends")  # noqa: TRY301 - as where no slot came free
            async with self.enter(tenant, patience_seconds=self._patience(tenant, delivery)):
                await consumer(delivery)
        except NoSlot as error:
            log.debug("delivery.passed_on", queue=delivery.queue, reason=str(error))
            if delivery.kept:
                raise ComesAgain(str(error)) from error
            if parked is not None and park is not None and self.shared:
                self.parked.add(tenant)
                await park([parked])
            else:
                # The same attempt again: waiting for a slot is no failure of the event.
                await bus.retry(delivery, delivery.body, attempt=max(1, delivery.attempt))

    def _patience(self, tenant: str, delivery: Delivery) -> float:
        """Return how long a permit may wait here for a slot, in seconds; 0 where its tenant has its share."""
        if not tenant or not self.shared or delivery.kept:
            return self._patience_seconds
        if tenant in self.parked or self._has(tenant) >= self.most:
            return 0
        return BRIEF_SECONDS if self._has(tenant) else self._patience_seconds

    def _fit(self, items: Sequence[Any]) -> bool:
        """Tell whether no tenant of an envelope would have more than its share."""
        if not self.shared:
            return True
        several = Counter(map(_tenant_of, items))
        return not any(each in self.parked or self._has(each) + several[each] > self.most for each in several)

    def _parkable(self, delivery: Delivery, items: Sequence[Any]) -> Parked | None:
        """Return the one permit of a delivery, to be parked; None where it is none. Notes whose it is."""
        parked = _parked(delivery, items)
        if parked is not None and len(self.tenants) <= 1:
            self.tenants.add(parked.tenant)
        return parked


def parked_from(delivery: Delivery) -> Parked | None:
    """Return the one permit of a delivery, to be parked; None where it is none."""
    return _parked(delivery, _items(delivery))


def waits_to_be_staged(delivery: Delivery) -> bool:
    """Tell whether a delivery has a permit to stage a call that comes after others."""
    return bool(_awaited(_items(delivery)))


def _parked(delivery: Delivery, items: Sequence[Any]) -> Parked | None:
    item = items[0] if len(items) == 1 else None
    if not isinstance(item, dict) or item.get("type") not in _PERMITS or not (tenant := _tenant_of(item)):
        return None
    if not isinstance(event_id := item.get("id"), str) or not event_id or "\0" in event_id + tenant:
        return None
    pool = delivery.queue.removeprefix(executor_queue("").name)
    return Parked(event_id, pool, tenant, delivery.body.decode(), answer_place(item["data"].get("permit")))


def _in_turn(delivery: Delivery, items: Sequence[Any]) -> tuple[list[Any], list[Parked]]:
    """Return those of a delivery's events that may enter, and permits that come after others of their answers in it."""
    places = [answer_place(data.get("permit")) if isinstance(data := _data_of(item), dict) else None for item in items]
    first: dict[str, int] = {}
    for each in filter(None, places):
        first[each.answer] = min(each.position, first.get(each.answer, each.position))
    enter, behind = list[Any](), list[Parked]()
    for place, item in zip(places, items, strict=True):
        # Of one that comes twice, both are first: the claim knows them.
        is_behind = place is not None and place.position > first[place.answer]
        if is_behind and (parked := _parked(replace(delivery, body=to_json([item])), [item])):
            behind.append(parked)
        else:
            enter.append(item)
    return enter, behind


def _tenant_of(item: Any) -> str:
    """Return whose permit an event says that it is; its permit is asked once it is taken."""
    data = _data_of(item)
    tenant = data.get("tenant") if isinstance(data, dict) else None
    return tenant if isinstance(tenant, str) else ""


def _data_of(item: Any) -> Any:
    return item.get("data") if isinstance(item, dict) else None


def _awaited(items: Iterable[Any]) -> list[Sequence[str]]:
    """Return what permits to stage among these events come after."""
    # A staged call has its place in a plan, which lets it begin.
    kind = ToolCallPermitted.type_name
    data = [_data_of(each) for each in items if isinstance(each, dict) and each.get("type") == kind]
    found = (comes_after(each.get("permit"), "stage") for each in data if isinstance(each, dict))
    return [each for each in found if each]


def _items(delivery: Delivery) -> list[Any]:
    """Return the events of an envelope, unread; none where it is no envelope, which its reader judges."""
    try:
        items = from_json(delivery.body, allow_inf_nan=False)
    except ValueError:
        return []
    return items if isinstance(items, list) and len(items) <= ENVELOPE_EVENTS_MAX else []
