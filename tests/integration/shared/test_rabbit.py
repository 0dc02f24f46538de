"""The bus on a real broker: who has which channel, what a refusal harms, and what comes back after a loss."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any
from urllib.parse import unquote, urlsplit

import aiormq
import pytest
from aio_pika import RobustConnection
from aiormq.abc import ChannelFrame
from aiormq.connection import Connection
from structlog.testing import capture_logs

from placet.contracts.topology import QUEUES, Destination, QueueSpec, executor_queue, queue
from placet.runtime import declaring, rabbit
from placet.runtime.bus import Delivery, OnDelivery, PublishBlocked, PublishRefused, PublishReturned
from placet.runtime.declaring import declare_topology
from placet.runtime.driver import Outage
from placet.runtime.outages import Outages
from placet.runtime.rabbit import LARGE_BYTES, RabbitBus, _patiently
from placet.runtime.urls import redacted_url
from tests.support.line import Line
from tests.support.rabbitmq import VirtualHosts, delete_queues
from tests.support.system import until

SPECS = (executor_queue("default"), queue("agent.messages"), queue("approval.decisions"))
PLACE = Destination("messages", "acme")


class Taken:
    """Notes deliveries, and holds them while the gate is closed."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, delivery: Delivery) -> None:
        """Note one."""
        self.bodies.append(delivery.body)
        await self.gate.wait()

    async def has(self, number: int) -> None:
        """Return when so many have come."""

        async def come() -> bool:
            return len(self.bodies) >= number

        await until(come, f"{number} deliveries came")


@asynccontextmanager
async def running(
    url: str, *specs: QueueSpec, taken: OnDelivery | None = None, declare: bool = True, private: str = ""
) -> AsyncIterator[RabbitBus]:
    """Run a bus that consumes `specs`, and a private queue where it has a name."""
    bus = RabbitBus(url, service="test", declare=declare)
    if private:
        bus.listen(private, (Destination("conversations", "event.#"),), Taken())
    for spec in specs:
        bus.subscribe(spec, taken or Taken())
    await bus.start()
    try:
        yield bus
    finally:
        await bus.stop()


async def send(bus: RabbitBus, body: bytes, message_id: str = "m") -> None:
    """Publish to the queue of the agent's messages."""
    await bus.publish(PLACE, body, message_id=message_id, mandatory=True)


@pytest.mark.parametrize("declare", [True, False])
async def test_each_consumer_has_a_channel_and_a_prefetch(
    rabbitmq_url: str, virtual_hosts: VirtualHosts, *, declare: bool
) -> None:
    """Whoever declares: the broker knows each queue's own prefetch, and no two consumers on one channel."""
    if not declare:
        await declare_topology(rabbitmq_url, (*QUEUES, *SPECS))
    vhost = unquote(urlsplit(rabbitmq_url).path[1:])
    wanted = sorted([("gateway.live.test", 64), *((spec.name, spec.prefetch) for spec in SPECS)])
    async with running(rabbitmq_url, *SPECS, declare=declare, private="gateway.live.test") as bus:
        await send(bus, b"[]")
        found = await asyncio.to_thread(virtual_hosts._administration.consumers, vhost)
    assert wanted == sorted((name, limit) for name, _, limit in found)
    assert len(wanted) == len({channel for _, channel, _ in found})


async def test_what_waits_in_a_queue_is_for_every_replica(rabbitmq_url: str) -> None:
    """A consumer with prefetch 1 that is busy leaves the rest to the other one."""
    first, second, spec = Taken(), Taken(), executor_queue("default")
    first.gate.clear()
    async with running(rabbitmq_url, spec, taken=first) as bus:
        for number in range(4):
            await bus.publish(Destination("executions", "default"), b"%d" % number, message_id="m", mandatory=True)
        await first.has(1)
        async with running(rabbitmq_url, spec, taken=second, declare=False):
            await second.has(3)
        first.gate.set()
    assert ([b"0"], [b"1", b"2", b"3"]) == (first.bodies, second.bodies)


async def test_a_refused_message_harms_no_neighbour(rabbitmq_url: str) -> None:
    """The broker closes a channel because of a large one: that is told so, the others arrive, consumers go on."""
    taken = Taken()
    async with running(rabbitmq_url, queue("agent.messages"), taken=taken) as bus:
        bad = bus._send(PLACE, b"bad" * LARGE_BYTES, "bad", {"CC": "no list"})
        outcomes = await asyncio.gather(
            *(send(bus, b"before", f"b{number}") for number in range(3)),
            bad,
            *(send(bus, b"after", f"a{number}") for number in range(3)),
            return_exceptions=True,
        )
        await send(bus, b"last")
        await taken.has(7)
    assert [PublishRefused] == [type(outcome) for outcome in outcomes if outcome is not None]
    assert {b"before", b"after", b"last"} == set(taken.bodies)


async def test_an_exchange_that_takes_nothing_harms_no_neighbour(rabbitmq_url: str) -> None:
    """Whatever else is sent meanwhile arrives on the same connection; it alone waits until the exchange is there."""
    taken, nowhere = Taken(), Destination("not-yet", "x")
    async with running(rabbitmq_url, queue("agent.messages"), taken=taken) as bus:
        connection = bus._connection

        def lost() -> list[Coroutine[Any, Any, None]]:
            return [bus.publish(nowhere, b"lost", message_id="m", mandatory=False) for _ in range(20)]

        for turn in range(3):
            sending = [send(bus, b"%d" % (20 * turn + each)) for each in range(20)]
            outcomes = await asyncio.gather(*lost(), *sending, return_exceptions=True)
            assert [PublishBlocked] * 20 + [None] * 20 == [type(each) if each else None for each in outcomes]
        await taken.has(60)
        assert connection is bus._connection
        assert connection is not None
        channel = await connection.channel()
        await channel.exchange_declare("not-yet", auto_delete=True, exchange_type="topic")
        await asyncio.gather(*lost())
        await channel.exchange_delete("not-yet")
    assert {b"%d" % number for number in range(60)} == set(taken.bodies)


async def test_a_large_body_arrives_whole(rabbitmq_url: str) -> None:
    """Whatever number of frames it takes, on the channel of its own too."""
    taken, bodies = Taken(), [b"a" * (LARGE_BYTES + 1), b"b" * LARGE_BYTES, b""]
    async with running(rabbitmq_url, queue("agent.messages"), taken=taken) as bus:
        for body in bodies:
            await send(bus, body)
        await taken.has(3)
    assert sorted(bodies) == sorted(taken.bodies)


async def test_an_envelope_for_nobody_is_no_success(rabbitmq_url: str) -> None:
    """Neither where no queue is bound nor where there is no such exchange, told apart; the next one arrives."""
    taken = Taken()
    async with running(rabbitmq_url, queue("agent.messages"), taken=taken) as bus:
        with pytest.raises(PublishReturned):
            await bus.publish(Destination("decisions", "nobody.listens"), b"lost", message_id="m", mandatory=True)
        with pytest.raises(PublishBlocked):
            await bus.publish(Destination("no-such-exchange", "x"), b"lost", message_id="m", mandatory=True)
        await send(bus, b"next")
        await taken.has(1)
    assert [b"next"] == taken.bodies


async def test_a_lost_connection_comes_back_with_its_consumers(rabbitmq_url: str) -> None:
    """What was not acknowledged comes again, what is published meanwhile fails or arrives, and all goes on."""
    taken = Taken()
    taken.gate.clear()
    async with running(rabbitmq_url, queue("agent.messages"), taken=taken) as bus:
        bus.listen("gateway.live.test", (Destination("conversations", "event.#"),), Taken())
        await send(bus, b"again")
        await taken.has(1)
        assert bus._connection is not None
        await bus._connection.close()
        await taken.has(2)
        taken.gate.set()
        assert await bus.ready()
        await send(bus, b"after")
        await taken.has(3)
    assert [b"again", b"again", b"after"] == taken.bodies


async def test_an_outage_counts_against_no_delivery(rabbitmq_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again here: the broker, which bounds how often it gives one out, has given it out once."""
    monkeypatch.setattr(rabbit, "GIVE_BACK_SECONDS", 0.01)
    counts: list[object] = []
    handled = asyncio.Event()

    async def handle(delivery: Delivery) -> None:
        counts.append(delivery.headers.get("x-delivery-count"))
        if len(counts) < 3:
            raise Outage("the database is away")
        handled.set()

    async with running(rabbitmq_url, queue("agent.messages"), taken=handle) as bus:
        await send(bus, b"[]")
        await handled.wait()
    assert [None] * 3 == counts


async def test_a_consumer_whose_queue_went_comes_back_with_the_queue(rabbitmq_url: str) -> None:
    """The broker cancels it and closes nothing; it is not ready until the queue is there again, and consumes then."""
    spec, taken = queue("agent.messages"), Taken()
    async with running(rabbitmq_url, spec, taken=taken) as bus:
        await delete_queues(rabbitmq_url)

        async def cancelled() -> bool:
            return not await bus.ready()

        await until(cancelled, "the consumer is cancelled")
        await declare_topology(rabbitmq_url, (*QUEUES, spec))
        await until(bus.ready, "it consumes again")
        await send(bus, b"after")
        await taken.has(1)
    assert [b"after"] == taken.bodies


async def test_a_connection_that_the_broker_closes_is_told_in_two_lines(rabbitmq_url: str) -> None:
    """The first says why, also where the next try succeeds: of the client's own lines nobody has need."""
    with capture_logs() as lines:
        async with running(rabbitmq_url, queue("agent.messages"), taken=Taken()) as bus:
            connection = bus._connection
            assert isinstance(connection, Connection)
            unasked = ChannelFrame.marshall(channel_number=999, frames=[aiormq.spec.Basic.Ack(delivery_tag=1)])
            await connection.write_queue.put(unasked)
            await until(lambda: asyncio.sleep(0, len(lines) == 2), "it is back")
    where = redacted_url(rabbitmq_url)
    assert [("broker.away", "warning", where), ("broker.back", "warning", where)] == [
        (line["event"], line["log_level"], line["broker"]) for line in lines
    ]
    assert "CHANNEL_ERROR" in lines[0]["error"]


async def test_what_a_dying_connection_cancels_is_tried_again() -> None:
    """The client cancels what waits for an answer; who opens the connection again must not end with it."""
    waiting: list[asyncio.Future[None]] = []

    async def reach() -> None:
        waiting.append(asyncio.get_running_loop().create_future())
        if len(waiting) == 1:
            waiting[0].cancel()
            await waiting[0]

    await _patiently(reach, Outages("broker.away", "broker.back"))
    assert 2 == len(waiting)


async def test_a_broker_that_hangs_up_while_it_is_greeted_is_tried_again(
    rabbitmq_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection is lost, and what aiormq raises for the next, whatever it is, does not end the keeping of it."""
    connect, refusals = aiormq.connect, [StopAsyncIteration(), LookupError("a bug of the client")]

    async def refusing(*given: Any, **named: Any) -> Any:
        if refusals:
            raise refusals.pop(0)
        return await connect(*given, **named)

    taken = Taken()
    async with running(rabbitmq_url, queue("agent.messages"), taken=taken) as bus:
        monkeypatch.setattr(aiormq, "connect", refusing)
        assert bus._connection is not None
        await bus._connection.close()
        await until(lambda: asyncio.sleep(0, not refusals), "both have been raised")
        await until(bus.ready, "it consumes again")
        await send(bus, b"after")
        await taken.has(1)
    assert [b"after"] == taken.bodies


async def test_a_start_without_a_broker_leaves_nothing_behind() -> None:
    """No connection that nobody closes, which Python would warn of in a line that is no JSON."""
    bus = RabbitBus("amqp://127.0.0.1:1/", service="test", declare=True)
    with capture_logs() as lines:
        starting = asyncio.create_task(bus.start())

        async def tried() -> bool:
            return len(lines) > 0

        await until(tried, "it was tried")
    starting.cancel()
    await asyncio.wait({starting})
    assert {"broker.away"} == {line["event"] for line in lines}
    assert [] == [each for each in gc.get_objects() if isinstance(each, RobustConnection) and each.url.port == 1]


async def test_a_slow_broker_is_no_silent_one(rabbitmq_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thing is answered in time, and all of them together take longer than that: the service starts."""
    monkeypatch.setattr(declaring, "ANSWER_SECONDS", 2.0)
    parts = urlsplit(rabbitmq_url)
    line = Line(lambda: asyncio.open_connection(parts.hostname, parts.port))
    line.delay_seconds = 0.02
    await line.open()
    login = parts.netloc.rpartition("@")[0]
    url = parts._replace(netloc=f"{login}@127.0.0.1:{line.port}").geturl()
    began, taken = monotonic(), Taken()
    with capture_logs() as lines:
        async with running(url, queue("agent.messages"), taken=taken) as bus:
            took = monotonic() - began
            await send(bus, b"arrives")
            await taken.has(1)
    await line.close()
    assert (True, []) == (took > declaring.ANSWER_SECONDS, lines)


async def test_whoever_is_told_to_end_ends() -> None:
    """A task that waits for the broker is cancelled like any other."""
    begun = asyncio.Event()

    async def reach() -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(_patiently(reach, Outages("broker.away", "broker.back")))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_many_acknowledgements_leave_nothing_behind(rabbitmq_url: str) -> None:
    """Combined or alone, in whatever order handlers end: the next consumer finds an empty queue."""
    first, second = Taken(), Taken()
    async with running(rabbitmq_url, queue("agent.messages"), taken=first) as bus:
        await asyncio.gather(*(send(bus, b"%d" % number, str(number)) for number in range(200)))
        await first.has(200)
    async with running(rabbitmq_url, queue("agent.messages"), taken=second, declare=False) as bus:
        await send(bus, b"end")
        await second.has(1)
    assert (200, [b"end"]) == (len(set(first.bodies)), second.bodies)


async def test_depth_of_a_queue_harms_nothing_where_there_is_none(rabbitmq_url: str) -> None:
    """Asking has a channel of its own, so consumers and publishers keep theirs."""
    await declare_topology(rabbitmq_url, SPECS)
    async with running(rabbitmq_url, SPECS[2]) as bus:
        await send(bus, b"one")
        assert await bus.depth("no.such.queue") is None

        async def waits() -> bool:
            return await bus.depth(SPECS[1].name) == 1

        await until(waits, "what was sent waits")
        assert (0, True) == (await bus.depth(SPECS[0].name), await bus.ready())
