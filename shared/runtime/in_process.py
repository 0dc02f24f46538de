"""The bus of the embedded footing: routes by the topology inside one process, with the outbox as the durable queue.

`publish` returns when every bound queue has handled the envelope, and the outbox forgets a row only then; so a crash
at any moment leaves the row of what has one, the relay sends it again, and the inboxes know what was handled. A retried
event keeps its row until its last try. FastStream's test broker was tried for this and is none: it swallows what a
handler rejects and matches `a.#` differently (see ADR 0005).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import structlog

from placet.contracts.topology import DEAD_LETTERS, Destination, QueueSpec, key_matches, retry_delay
from placet.runtime.bus import (
    ATTEMPT_HEADER,
    BusStopped,
    ComesAgain,
    Delivery,
    OnDelivery,
    PublishFailed,
    PublishPutOff,
    PublishReturned,
)

log = structlog.get_logger(__name__)

#: How long a stop waits for deliveries that are being handled, in seconds. What takes longer waits itself, for a slot
#: or the database, and has claimed nothing.
STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _LocalDelivery(Delivery):
    """A delivery that remembers what its handler wants to see again."""

    retries: list[tuple[bytes, int]] = field(default_factory=list)


@dataclass(slots=True)
class _LocalQueue:
    """One consumer and its limit of concurrent deliveries."""

    name: str
    bindings: tuple[Destination, ...]
    on_delivery: OnDelivery
    limit: asyncio.Semaphore
    durable: bool
    #: Deliveries that wait for their turn.
    waiting: int = 0

    def takes(self, destination: Destination) -> bool:
        """Tell whether a binding of this queue matches; the default exchange delivers by the queue's name."""
        if not destination.exchange:
            return destination.key == self.name
        return any(
            binding.exchange == destination.exchange and key_matches(binding.key, destination.key)
            for binding in self.bindings
        )


class InProcessBus:
    """Carries envelopes inside one process."""

    outstanding_max = 1_000
    keeps = False

    def __init__(self) -> None:
        self._queues: dict[str, _LocalQueue] = {}
        self._running = False
        self._deliveries: set[asyncio.Task[None]] = set()
        #: Deliveries whose handlers are at work; the others wait for their turn or their retry.
        self._handling: set[asyncio.Task[Any]] = set()

    def subscribe(self, spec: QueueSpec, on_delivery: OnDelivery) -> None:
        """Consume `spec` from `start` on."""
        limit = asyncio.Semaphore(spec.prefetch)
        self._queues[spec.name] = _LocalQueue(spec.name, spec.bindings, on_delivery, limit, durable=True)

    def listen(self, name: str, destinations: tuple[Destination, ...], on_delivery: OnDelivery) -> None:
        """Consume transient envelopes."""
        self._queues[name] = _LocalQueue(name, destinations, on_delivery, asyncio.Semaphore(64), durable=False)

    async def publish(
        self,
        destination: Destination,
        body: bytes,
        *,
        message_id: str,
        mandatory: bool,
        persistent: bool = True,
    ) -> None:
        """Deliver to every bound queue; return when all have handled it."""
        del message_id, persistent
        if not self._running:
            raise BusStopped("the bus is stopped")
        bound = [queue for queue in self._queues.values() if queue.takes(destination)]
        if not bound and mandatory:
            raise PublishReturned(f"{destination.exchange}/{destination.key}: no queue is bound")
        tasks = [self._track(self._deliver(queue, Delivery(queue.name, body))) for queue in bound]
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures:
            put_off = all(isinstance(failure, ComesAgain) for failure in failures)
            kind = PublishPutOff if put_off else PublishFailed
            raise kind(f"{destination.exchange}/{destination.key}: {type(failures[0]).__name__}")

    def _track(self, delivering: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(delivering)
        self._deliveries.add(task)
        task.add_done_callback(self._deliveries.discard)
        return task

    async def _deliver(self, queue: _LocalQueue, delivery: Delivery) -> None:
        local = _LocalDelivery(delivery.queue, delivery.body, delivery.headers)
        queue.waiting += 1
        async with queue.limit:
            queue.waiting -= 1
            await self._handle(queue, local)
        # Each by itself: what comes again may wait for its neighbour.
        retries = (self._deliver_again(queue, body, attempt) for body, attempt in local.retries)
        for failure in filter(None, await asyncio.gather(*retries, return_exceptions=True)):
            raise failure

    async def _deliver_again(self, queue: _LocalQueue, body: bytes, attempt: int) -> None:
        if not self._running:
            raise PublishFailed("the bus stopped before the retry")
        await asyncio.sleep(retry_delay(attempt))
        await self._deliver(queue, Delivery(queue.name, body, {ATTEMPT_HEADER: attempt}))

    async def _handle(self, queue: _LocalQueue, delivery: Delivery) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - every delivery runs in its task
        self._handling.add(task)
        try:
            await queue.on_delivery(delivery)
        finally:
            self._handling.discard(task)

    async def retry(self, delivery: Delivery, body: bytes, *, attempt: int) -> None:
        """See `body` again after its delay; the outbox row stays until then."""
        if not isinstance(delivery, _LocalDelivery):
            raise PublishFailed("this delivery did not come from this bus")
        delivery.retries.append((body, attempt))

    async def dead_letter(self, delivery: Delivery, body: bytes, *, reason: str, message_id: str) -> None:
        """Hand `body` to the consumer of dead letters."""
        queue = self._queues.get(DEAD_LETTERS)
        if queue is None:
            raise PublishFailed("nobody consumes dead letters")
        headers = {
            "x-placet-reason": reason,
            "x-placet-message-id": message_id,
        }
        try:
            await queue.on_delivery(Delivery(DEAD_LETTERS, body, headers, key=delivery.queue))
        except Exception as error:
            raise PublishFailed(f"dead letters: {type(error).__name__}") from error

    async def start(self) -> None:
        """Begin to route."""
        self._running = True

    async def stop_consuming(self) -> None:
        """Do nothing: inside one process the other services still need theirs; `stop` ends all at once."""

    async def stop(self) -> None:
        """Refuse new envelopes, wait a while for what is being handled, and cancel the rest; outbox rows stay.

        What was cancelled between its commit and its act would be a claim that nobody works on.
        """
        self._running = False
        for task in self._deliveries - self._handling:
            task.cancel()
        if self._deliveries:
            _, late = await asyncio.wait(self._deliveries, timeout=STOP_SECONDS)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=STOP_SECONDS)

    async def connected(self) -> bool:
        """Tell whether the bus routes."""
        return self._running

    async def depth(self, name: str) -> int | None:
        """Return how many deliveries wait for their turn."""
        queue = self._queues.get(name)
        return queue.waiting if queue else None

    async def ready(self) -> bool:
        """Tell whether the bus routes."""
        return self._running
