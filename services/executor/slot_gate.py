"""The gate to the slots of one executor process: a claim enters when a slot is kept for it.

One gate for all queues and the sweeper, so that two of them never claim for the same free slot. What does not get in
for a while goes back to the tail of its queue as a new message: held for long, the broker would close the channel,
and given back by nack it would count towards the delivery limit of a message that did nothing wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import structlog
from pydantic_core import from_json, to_json

from placet.contracts.errors import PlacetError
from placet.contracts.messages import ENVELOPE_EVENTS_MAX, ToolCallPermitted
from placet.contracts.permit import ComesAfter, comes_after
from placet.runtime.bus import Bus, Delivery, OnDelivery
from placet.runtime.slots import Slots

log = structlog.get_logger(__name__)

#: How long a permit waits at its executor for calls that it comes after, and how often it looks, in seconds.
TURN_SECONDS, TURN_LOOK_SECONDS = 0.25, 0.02


#: Returns those of the calls that a permit comes after for which it must wait yet.
Unfinished: TypeAlias = Callable[[ComesAfter], Awaitable[Sequence[str]]]


class NoSlot(PlacetError):
    """All slots stayed busy, or earlier calls went on, for as long as it is worth waiting."""


class SlotGate:
    """Lets as many claims in as there are free slots, one at a time and in the order of their coming.

    An envelope enters whole where nobody waits and all of it finds slots.
    """

    def __init__(self, slots: Slots, *, patience_seconds: float) -> None:
        self._slots = slots
        self._patience_seconds = patience_seconds
        self._lock = asyncio.Lock()
        #: Claims inside, each of them with a free slot of its own.
        self._inside = 0
        #: Claims that wait to enter.
        self._waiting = 0
        self._left = asyncio.Event()

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[None]:
        """Keep a free slot while the block claims and spawns; raise NoSlot where none came free in time."""
        self._waiting += 1
        try:
            async with asyncio.timeout(self._patience_seconds), self._lock:
                await self._wait_free()
                self._inside += 1
        except TimeoutError as error:
            raise NoSlot(f"no slot within {self._patience_seconds:g} seconds") from error
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
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
        return 0 if self._waiting else self._slots.size - self._slots.busy - self._inside

    async def _wait_turn(self, awaited: ComesAfter, unfinished: Unfinished) -> None:
        ends = asyncio.get_running_loop().time() + TURN_SECONDS
        while awaited.calls:
            awaited = replace(awaited, calls=await unfinished(awaited))
            if awaited.calls and asyncio.get_running_loop().time() >= ends:
                raise NoSlot(f"{len(awaited.calls)} earlier calls have not ended")
            if awaited.calls:
                await asyncio.sleep(TURN_LOOK_SECONDS)

    def _leave(self, claims: int) -> None:
        self._inside -= claims
        self._left.set()

    async def _wait_free(self) -> None:
        await self._slots.wait_free()
        while self._slots.busy + self._inside >= self._slots.size:
            self._left.clear()
            await self._left.wait()
            await self._slots.wait_free()

    def guard(self, consumer: OnDelivery, bus: Bus, unfinished: Unfinished) -> OnDelivery:
        """Return `consumer` behind the gate; `unfinished` tells which of some calls a permit must wait for yet.

        A permit that comes after other calls waits a moment for them, then it goes back to its queue.

        An envelope with several permits enters whole where there is room for all; else each enters alone.
        """

        async def enter(delivery: Delivery) -> None:
            try:
                for awaited in _awaited(_items(delivery)):
                    await self._wait_turn(awaited, unfinished)
                async with self.enter():
                    await consumer(delivery)
            except NoSlot as error:
                log.debug("delivery.passed_on", queue=delivery.queue, reason=str(error))
                # The same attempt again: waiting for a slot is no failure of the event.
                await bus.retry(delivery, delivery.body, attempt=max(1, delivery.attempt))

        async def on_delivery(delivery: Delivery) -> None:
            items = _items(delivery)
            if len(items) <= 1:
                await enter(delivery)
            elif len(items) <= self.room() and not _awaited(items):
                with self.reserve(len(items)):
                    await consumer(delivery)
            else:
                singles = (replace(delivery, body=to_json([item])) for item in items)
                # All of them end before one's failure gives the envelope back: the inbox knows those that were taken.
                ends = await asyncio.gather(*map(enter, singles), return_exceptions=True)
                for error in filter(None, ends):
                    raise error

        return on_delivery


def _awaited(items: Iterable[Any]) -> list[ComesAfter]:
    """Return what permits among these events come after."""
    # A staged call has its place in a plan, which lets it begin.
    kind = ToolCallPermitted.type_name
    data = [each.get("data") for each in items if isinstance(each, dict) and each.get("type") == kind]
    found = (comes_after(each.get("permit")) for each in data if isinstance(each, dict))
    return [each for each in found if each.calls]


def _items(delivery: Delivery) -> list[Any]:
    """Return the events of an envelope, unread; none where it is no envelope, which its reader judges."""
    try:
        items = from_json(delivery.body, allow_inf_nan=False)
    except ValueError:
        return []
    return items if isinstance(items, list) and len(items) <= ENVELOPE_EVENTS_MAX else []
