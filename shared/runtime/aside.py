"""A consumer of what takes its time and changes nothing: each event is handled beside all others.

There is no transaction around it and no row of the inbox, so a connection is only held where a handler asks for one,
and an event that comes again is handled again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from placet.contracts.messages import Event, Message
from placet.runtime.bus import Bus, Delivery
from placet.runtime.consumer import EVENTS, Consumer
from placet.runtime.work import Cause, UnitOfWork

Aside = Callable[[Any, Cause], Awaitable[None]]


class AsideConsumer(Consumer):
    """Handles the deliveries of one queue, each event as soon as it comes; what may not go on waits in its handler."""

    def __init__(self, queue: str, handlers: Mapping[type[Message], Aside], *, units: UnitOfWork, bus: Bus) -> None:
        # Only the types are asked for: what handles them is its own.
        types: dict[type[Message], Any] = dict.fromkeys(handlers)
        super().__init__(queue, types, units=units, bus=bus)
        self._aside = handlers

    async def _take(self, delivery: Delivery, events: Sequence[Event]) -> None:
        await asyncio.gather(*(self._alone(delivery, event) for event in events))

    async def _commit(self, events: Sequence[Event]) -> None:
        await self._refuse_void(events)
        for event in events:
            with ExitStack() as spans:
                await self._aside[type(event.message)](event.message, self._cause(event, spans))
            EVENTS.labels(self._queue, "handled").inc()
