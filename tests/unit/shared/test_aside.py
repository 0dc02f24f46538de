"""What takes its time and changes nothing: each event is handled beside all others."""

from __future__ import annotations

import asyncio

from placet.contracts.errors import Poison
from placet.contracts.messages import MessagePosted
from placet.contracts.topology import DEAD_LETTERS, destination_of, queue
from placet.runtime.aside import Aside, AsideConsumer
from placet.runtime.bus import Delivery
from placet.runtime.database import Database
from placet.runtime.in_process import InProcessBus
from placet.runtime.outbox import Outbox
from placet.runtime.work import Cause, UnitOfWork
from tests.builders import a_posted_message, an_envelope, an_event

QUEUE = "agent.messages"


async def dead_of(aside: Aside, *envelopes: tuple[str, ...]) -> list[str]:
    """Have envelopes of such texts handled at the same time; return why some of their events are dead letters."""
    bus, dead = InProcessBus(), list[str]()
    database = Database("postgresql://nobody@127.0.0.1:1/none", service="agent")
    units = UnitOfWork(database, Outbox(database, bus))

    async def bury(delivery: Delivery) -> None:
        dead.append(str(delivery.headers["x-placet-reason"]))

    bus.subscribe(queue(QUEUE), AsideConsumer(QUEUE, {MessagePosted: aside}, units=units, bus=bus))
    bus.subscribe(queue(DEAD_LETTERS), bury)
    await bus.start()
    posted = [[an_event(a_posted_message(text=text)) for text in texts] for texts in envelopes]
    async with asyncio.timeout(10):
        await asyncio.gather(
            *(
                bus.publish(destination_of(events[0].message), an_envelope(*events), message_id="1", mandatory=True)
                for events in posted
            )
        )
    await bus.stop()
    return dead


async def test_no_event_waits_for_another() -> None:
    """The first ends when the last has begun, be it of the same envelope or of another; no database was asked."""
    begun, handled = asyncio.Event(), list[str]()

    async def handle(message: MessagePosted, cause: Cause) -> None:
        del cause
        if message.text == "last":
            begun.set()
        await begun.wait()
        handled.append(message.text)

    assert [] == await dead_of(handle, ("first", "second"), ("third", "last"))
    assert ["first", "last", "second", "third"] == sorted(handled)


async def test_a_bad_event_is_buried_alone() -> None:
    """Its neighbours are handled; why it was buried is said as of any other."""
    handled = []

    async def handle(message: MessagePosted, cause: Cause) -> None:
        if message.text == "bad":
            raise Poison("it is bad")
        handled.append((message.text, bool(cause.id)))

    assert ["poison: it is bad"] == await dead_of(handle, ("good", "bad"))
    assert [("good", True)] == handled
