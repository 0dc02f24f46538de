"""How a service runs: its queues, its duties, its slots, and an orderly start and stop.

`services/<name>/service.py` builds a `Service` out of settings and a `Runtime`; the same Service then runs alone in
its process (distributed footing) or beside all others in one (embedded footing).
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from math import nan
from typing import Any, NoReturn, TypeVar

import structlog
import uvloop
from prometheus_client import Gauge

from placet.contracts.errors import PlacetError
from placet.contracts.messages import Message
from placet.contracts.topology import Destination, QueueSpec, permits_of
from placet.runtime.bus import Bus, OnDelivery
from placet.runtime.consumer import Consumer, Handler, Once
from placet.runtime.database import Database, is_outage
from placet.runtime.health import telling_health
from placet.runtime.logging import pass_over_lookups, set_up_logging
from placet.runtime.outbox import Outbox
from placet.runtime.rabbit import RabbitBus
from placet.runtime.settings import Settings, default_credentials, refuse_unknown, what_is_wrong
from placet.runtime.slots import Slots
from placet.runtime.tracing import TRACING, set_up_tracing
from placet.runtime.watchdog import watchdog
from placet.runtime.work import UnitOfWork

log = structlog.get_logger(__name__)

S = TypeVar("S", bound=Settings)

#: When the garbage collector looks for cycles; a message makes hundreds of objects and hardly a cycle.
GC_THRESHOLDS = (20_000, 20, 20)
#: Pause between two looks at what metrics tell of the database and the broker.
MEASURE_SECONDS = 15.0
#: Pause between two deletions of confirmed outbox rows, in seconds; well below the time a row is its writer's own.
FORGET_EVERY_SECONDS = 0.25
#: Rows of the inbox that one round of its hourly cleaner deletes.
FORGET_MAX = 20_000
#: Pause between two sweeps of the outbox, in seconds.
RELAY_EVERY_SECONDS = 1.0
#: Longest pause of a duty after an error, in seconds.
DUTY_PAUSE_MAX_SECONDS = 10.0
#: Between two times that a task is told to end.
CANCEL_AGAIN_SECONDS = 0.1
#: How often it is told before the log says which task does not end.
CANCELS_BEFORE_WARNING = 50


OUTBOX_AGE = Gauge(
    "placet_outbox_age_seconds",
    "Age of the oldest event that a service has yet to send; 0: none.",
    ["service"],
)


@dataclass(frozen=True)
class Runtime:
    """What a service is given to run on."""

    database: Database
    bus: Bus
    outbox: Outbox
    units: UnitOfWork


@dataclass(frozen=True)
class Subscription:
    """A queue and the handler of each message on it; messages without a handler are passed over."""

    queue: QueueSpec
    handlers: Mapping[type[Message], Handler | Once]
    wait_for_slot: Callable[[], Awaitable[None]] | None = None


@dataclass(frozen=True)
class Duty:
    """Something done again and again in the background, by any number of replicas."""

    name: str
    every_seconds: float
    #: Does one round and returns how much it did; None where nothing is ever left to go on with.
    run_once: Callable[[], Awaitable[int | None]]
    #: What a full round does; the next one follows at once. What did less has left nothing behind, and pauses: else a
    #: trickle would keep it going without end, a row at a time.
    full: int = 1
    #: What a round measures; NaN while a round fails, for nobody knows it then.
    gauges: tuple[Gauge, ...] = ()

    def pause_after(self, done: int) -> float:
        """Return how many seconds the next round waits after one that did so much."""
        return 0.0 if done >= self.full else self.every_seconds


@dataclass(frozen=True)
class Service:
    """One service, ready to run."""

    name: str
    runtime: Runtime
    subscriptions: tuple[Subscription, ...] = ()
    raw_subscriptions: tuple[tuple[QueueSpec, OnDelivery], ...] = ()
    listeners: tuple[tuple[str, tuple[Destination, ...], OnDelivery], ...] = ()
    duties: tuple[Duty, ...] = ()
    slots: Slots | None = None
    #: Entered at start before anything is consumed, left at stop.
    resources: tuple[AbstractAsyncContextManager[object], ...] = ()
    drain_seconds: float = 20.0
    _ready: list[bool] = field(default_factory=list)

    async def ready(self) -> bool:
        """Tell whether it consumes, and database and broker answer."""
        return bool(self._ready) and await self.runtime.database.ready() and await self.runtime.bus.ready()

    def subscribe(self) -> None:
        """Tell the bus what to consume; before the bus starts."""
        bus, units = self.runtime.bus, self.runtime.units
        for sub in self.subscriptions:
            consumer = Consumer(sub.queue.name, sub.handlers, units=units, bus=bus, wait_for_slot=sub.wait_for_slot)
            bus.subscribe(sub.queue, consumer)
        for spec, on_delivery in self.raw_subscriptions:
            bus.subscribe(spec, on_delivery)
        for name, destinations, on_delivery in self.listeners:
            bus.listen(name, destinations, on_delivery)

    @asynccontextmanager
    async def running(self, *, own_bus: bool = True) -> AsyncIterator[None]:
        """Run while the block runs. On the embedded footing the bus is shared and started by its owner.

        Stopping goes backwards: take nothing more, let acts end, send what they caused, then disconnect.
        """
        async with AsyncExitStack() as stack:
            await self.runtime.database.wait_ready()
            stack.push_async_callback(self.runtime.database.close)
            for resource in self.resources:
                await stack.enter_async_context(resource)
            if own_bus:
                stack.push_async_callback(self.runtime.bus.stop)
            stack.push_async_callback(self.runtime.outbox.drain)
            tasks = [asyncio.create_task(_forever(duty)) for duty in self._all_duties()]
            stack.push_async_callback(_cancel, tasks)
            if self.slots is not None:
                stack.push_async_callback(self.slots.drain, self.drain_seconds)
            if own_bus:
                self.subscribe()
                await self.runtime.bus.start()
                stack.push_async_callback(self.runtime.bus.stop_consuming)
            self._ready.append(True)
            log.info("service.ready", service=self.name)
            yield
            self._ready.clear()
            log.info("service.stopping", service=self.name)

    def _all_duties(self) -> tuple[Duty, ...]:
        outbox, database = self.runtime.outbox, self.runtime.database

        async def forget() -> int:
            async with database.single() as connection:
                ((forgotten,),) = await connection.run(database.queries.forget_old, most=FORGET_MAX)
            return int(forgotten)

        age = OUTBOX_AGE.labels(self.name)

        async def measure() -> int:
            async with database.single() as connection:
                (row,) = await connection.run(database.queries.outbox_age)
            age.set(row["seconds"])
            return 0

        relay = Duty("relay", RELAY_EVERY_SECONDS, outbox.sweep)
        forgetter = Duty("outbox-cleaner", FORGET_EVERY_SECONDS, outbox.forget_confirmed)
        cleaner = Duty("inbox-cleaner", 3600.0, forget, FORGET_MAX)
        measurer = Duty("measure-outbox", MEASURE_SECONDS, measure, gauges=(age,))
        return (*self.duties, relay, forgetter, cleaner, measurer)


def runtime_of(settings: Settings, service: str) -> Runtime:
    """Return the runtime of the distributed footing: own pool, own connection to RabbitMQ."""
    bus = RabbitBus(
        settings.rabbitmq_url.get_secret_value(),
        service=service,
        declare=settings.declare_topology,
        graceful_seconds=settings.drain_seconds,
    )
    return runtime_on(settings, service, bus)


def runtime_on(settings: Settings, service: str, bus: Bus) -> Runtime:
    """Return a runtime on a given bus."""
    url = settings.database_url.get_secret_value()
    database = Database(url, service=service, pool_size=settings.database_pool_size)
    batches = {permits_of(pool): batch for pool, batch in settings.pool_batches.items()}
    outbox = Outbox(database, bus, batches)
    return Runtime(database, bus, outbox, UnitOfWork(database, outbox))


async def run_until_told(service: Service, settings: Settings) -> None:
    """Run one service until SIGTERM or SIGINT, with health on its own port from the first moment."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(pass_over_lookups)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(telling_health(service.ready, settings))
        others = asyncio.all_tasks()
        starting = asyncio.create_task(stack.enter_async_context(service.running()))
        told = asyncio.create_task(stopping.wait())
        await asyncio.wait({starting, told}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.wait({starting})
            await _end_all_but(others)
            return
        starting.result()
        settle_memory()
        with watchdog(settings.step_seconds):
            await told


async def _end_all_but(others: set[asyncio.Task[Any]]) -> None:
    """Cancel what a start has left behind, until it has ended.

    Once is not enough: in the middle of connecting, aio-pika takes it for a failed attempt and tries again for ever.
    """
    for told in itertools.count(1):
        begun = asyncio.all_tasks() - others
        if not begun:
            return
        if told == CANCELS_BEFORE_WARNING:
            log.warning("service.still_ending", tasks=sorted(task.get_name() for task in begun))
        for task in begun:
            task.cancel()
        await asyncio.wait(begun, timeout=CANCEL_AGAIN_SECONDS)


def settle_memory() -> None:
    """Let the garbage collector pass over what the start has left behind: it stays as long as the process does."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def main(name: str, settings_type: type[S], build: Callable[[S, Runtime], Service]) -> None:
    """Run one service as a process of its own, until it is told to stop."""
    try:
        refuse_unknown(os.environ)
        settings = settings_type()
        set_up_logging(settings.log_level, settings.log_format)
        set_up_tracing(name, settings.otlp_endpoint)
        for default in default_credentials(settings):
            log.warning("settings.default_credentials", setting=default)
        service = build(settings, runtime_of(settings, name))
    except ValueError as error:
        _stop(name, what_is_wrong(error) or str(error))
    except (PlacetError, OSError) as error:
        _stop(name, str(error))
    try:
        uvloop.run(run_until_told(service, settings))
    except PlacetError as error:
        _stop(name, str(error))
    finally:
        TRACING.stop()


def _stop(name: str, reason: str) -> NoReturn:
    sys.stderr.write(f"placet {name}: {reason}\n")
    raise SystemExit(2)


async def _forever(duty: Duty) -> None:
    pause = duty.every_seconds
    while True:
        try:
            pause = duty.pause_after(await duty.run_once() or 0)
        except Exception as error:
            for gauge in duty.gauges:
                gauge.set(nan)
            if (task := asyncio.current_task()) is not None and task.cancelling():
                # Cancelled, it failed on its way out: that must not keep it, or the stop waits for ever.
                raise asyncio.CancelledError from error
            if is_outage(error):
                log.debug("duty.waiting", duty=duty.name, error=type(error).__name__)
            else:
                log.exception("duty.bug", duty=duty.name)
            pause = min(max(pause * 2, 0.5), DUTY_PAUSE_MAX_SECONDS)
        await asyncio.sleep(pause)


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
