"""The embedded footing's bus works while every service does, and at no other time."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import SecretStr

from placet.contracts.topology import Destination, QueueSpec
from placet.embedded.system import at_work
from placet.runtime.bus import Delivery, PublishFailed
from placet.runtime.in_process import InProcessBus
from placet.runtime.service import GC_THRESHOLDS, Service, runtime_on
from placet.runtime.settings import Settings

NAMES = ("policy", "executor")


async def test_nothing_is_delivered_while_a_service_does_not_run(database_url: str) -> None:
    """What the first service sends before the last one runs, or after the last one began to end, reaches nobody."""
    bus, told = InProcessBus(), list[str]()

    async def handle(delivery: Delivery) -> None:
        told.append(f"{delivery.queue} got it {delivery.body.decode()}")

    async def send(when: str) -> None:
        for name in NAMES:
            try:
                await bus.publish(Destination("", name), when.encode(), message_id="m", mandatory=True)
            except PublishFailed:
                told.append(f"refused {when}")

    @asynccontextmanager
    async def sending(name: str) -> AsyncIterator[None]:
        await send(f"while {name} opens")
        yield
        await send(f"while {name} closes")

    def service(name: str) -> Service:
        settings = Settings(database_url=SecretStr(database_url))
        subscriptions = ((QueueSpec(name, name, ()), handle),)
        return Service(
            name, runtime_on(settings, name, bus), raw_subscriptions=subscriptions, resources=(sending(name),)
        )

    async with at_work([service(name) for name in NAMES], bus):
        await send("at work")
    opening = [f"refused while {name} opens" for name in NAMES for _ in NAMES]
    closing = [f"refused while {name} closes" for name in reversed(NAMES) for _ in NAMES]
    assert [*opening, *(f"{name} got it at work" for name in NAMES), *closing] == told


async def test_what_comes_again_waits_for_no_neighbour() -> None:
    """Of two events of one envelope that come again, the first may wait for the second."""
    bus, came = InProcessBus(), asyncio.Event()

    async def handle(delivery: Delivery) -> None:
        match delivery.body, came.is_set():
            case b"both", _:
                await bus.retry(delivery, b"first", attempt=1)
                await bus.retry(delivery, b"second", attempt=1)
            case b"first", False:
                await bus.retry(delivery, b"first", attempt=1)
            case b"second", _:
                came.set()

    bus.subscribe(QueueSpec("queue", "queue", ()), handle)
    await bus.start()
    async with asyncio.timeout(30):
        await bus.publish(Destination("", "queue"), b"both", message_id="m", mandatory=True)
    await bus.stop()
    assert came.is_set()


async def test_the_garbage_collector_passes_over_what_the_start_left_behind() -> None:
    """As in a service of its own: looking through all of it, again and again, takes a fifth of the time under load."""
    gc.unfreeze()
    async with at_work([], InProcessBus()):
        seen = (GC_THRESHOLDS, gc.get_freeze_count() > 0)
    assert seen == (gc.get_threshold(), True)
