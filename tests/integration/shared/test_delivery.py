"""One suite for both buses: what a message is promised between a commit and its handler.

Real PostgreSQL always; real RabbitMQ for one of the two buses.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import aio_pika
import psycopg
import pytest
import sqlalchemy as sa

from placet.contracts.errors import Poison, Refused, SecurityAlert, Transient
from placet.contracts.messages import Message, MessagePosted
from placet.contracts.topology import DEAD_LETTERS, RETRIES_MAX, RETRY_DELAYS_SECONDS, Destination, QueueSpec, queue
from placet.runtime import consumer, database
from placet.runtime.bus import ATTEMPT_HEADER, Bus, Delivery, PublishFailed
from placet.runtime.consumer import EVENTS, Consumer, Handler, is_void, one_by_one
from placet.runtime.database import OWN_SECONDS, Database, Restored, async_url
from placet.runtime.driver import Outage
from placet.runtime.in_process import InProcessBus
from placet.runtime.outbox import Outbox, outgoing
from placet.runtime.queries import query
from placet.runtime.rabbit import RabbitBus
from placet.runtime.work import UnitOfWork, Work
from tests.builders import NOON, a_call, a_posted_message, a_result, an_envelope, an_event
from tests.support.system import until

QUEUE = "agent.messages"
RAN = a_result(a_call())


class House:
    """One service's ground with a handler that the test scripts, and everything that reaches the dead letters."""

    def __init__(self, database: Database, bus: Bus) -> None:
        self.database, self.bus = database, bus
        self.outbox = Outbox(database, bus)
        self.units = UnitOfWork(database, self.outbox)
        self.handled: asyncio.Queue[str] = asyncio.Queue()
        self.dead: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self.behave: Callable[[MessagePosted, Work], Awaitable[None]] = self._note
        handlers: dict[type[Message], Handler] = {MessagePosted: one_by_one(self._handle)}
        bus.subscribe(queue(QUEUE), Consumer(QUEUE, handlers, units=self.units, bus=bus))
        bus.subscribe(queue(DEAD_LETTERS), self._bury)

    async def _note(self, message: MessagePosted, work: Work) -> None:
        del work
        self.handled.put_nowait(message.text)

    async def _handle(self, message: MessagePosted, work: Work) -> None:
        await self.behave(message, work)

    async def _bury(self, delivery: Delivery) -> None:
        headers = delivery.headers
        self.dead.put_nowait((str(headers["x-placet-reason"]), str(headers["x-placet-message-id"])))

    async def deliver(self, body: bytes) -> None:
        """Publish an envelope as it stands."""
        await self.bus.publish(Destination("messages", "acme"), body, message_id="m", mandatory=True)

    async def count(self, table: str) -> int:
        """Return how many rows a table of this service has."""
        async with self.database.single() as connection:
            return int((await connection.execute(sa.text(f"SELECT count(*) FROM agent.{table}"))).scalar_one())  # noqa: S608


async def keep_forgetting(outbox: Outbox) -> None:
    """Delete confirmed rows, as the service's duty does."""
    while True:
        await outbox.forget_confirmed()


def create_tables(database: Database) -> None:
    """Create the three tables of the unit of work."""
    engine = sa.create_engine(async_url(database.url), poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE SCHEMA agent"))
        tables = [database.tables.inbox, database.tables.outbox, database.tables.history]
        database.tables.inbox.metadata.create_all(connection, tables=tables)


@asynccontextmanager
async def open_house(kind: str, database_url: str, rabbitmq_url: str) -> AsyncIterator[House]:
    """Run a House on the given kind of bus."""
    async with AsyncExitStack() as stack:
        database = Database(database_url, service="agent", pool_size=5)
        stack.push_async_callback(database.close)
        create_tables(database)
        bus: Bus = RabbitBus(rabbitmq_url, service="agent", declare=True) if kind == "rabbit" else InProcessBus()
        house = House(database, bus)
        await bus.start()
        stack.push_async_callback(bus.stop)
        forgetting = asyncio.create_task(keep_forgetting(house.outbox))
        stack.callback(forgetting.cancel)
        stack.push_async_callback(house.outbox.drain)
        yield house


@pytest.fixture(params=["rabbit", "in_process"])
async def house(request: pytest.FixtureRequest, fresh_database: Any, rabbitmq_url: str) -> AsyncIterator[House]:
    """A House on each bus."""
    url = fresh_database(lambda _: None)
    async with open_house(request.param, url, rabbitmq_url) as opened:
        yield opened


async def test_a_committed_message_arrives_and_its_outbox_row_goes(house: House) -> None:
    """What a unit of work emits is handled, and the outbox is empty once it is confirmed."""
    async with house.units.begin() as work:
        work.emit(a_posted_message(text="hello"))
    assert await house.handled.get() == "hello"
    await house.outbox.drain()
    assert await house.count("outbox") == 0


async def test_what_is_from_before_a_restore_is_held_for_a_person(house: House) -> None:
    """Unless it was handled before the backup: then it is the copy that it is. What is sent since is handled."""
    before = an_event(a_posted_message(text="before"))
    await house.deliver(an_envelope(before))
    assert "before" == await house.handled.get()
    house.database.restored = Restored(NOON + timedelta(hours=1), NOON)
    late, since = an_event(a_posted_message(text="late")), an_event(a_posted_message(text="since"))
    await house.deliver(an_envelope(before, late, replace(since, time=NOON + timedelta(hours=2))))
    assert "since" == await house.handled.get()
    reason, event_id = await house.dead.get()
    assert (late.id, True) == (event_id, "before the restore" in reason)
    assert house.handled.empty()


@pytest.mark.parametrize(
    ("message", "seconds", "void"),
    [(RAN, -1, False), (RAN, 1, True), (a_posted_message(), -1, True), (a_posted_message(), 3601, False)],
)
def test_what_tells_what_happened_before_a_backup_still_counts(message: Message, seconds: int, *, void: bool) -> None:
    """All else from before the restore is void: nobody knows whether what it asks for was done."""
    event = an_event(message, time=NOON + timedelta(seconds=seconds))
    assert void == is_void(event, Restored(NOON + timedelta(hours=1), NOON))


async def test_a_rolled_back_message_never_existed(house: House) -> None:
    """An error in the unit of work sends nothing and stores nothing."""
    with suppress(ZeroDivisionError):
        async with house.units.begin() as work:
            work.emit(a_posted_message(text="never"))
            raise ZeroDivisionError
    async with house.units.begin() as work:
        work.emit(a_posted_message(text="after"))
    assert await house.handled.get() == "after"


async def test_the_same_event_twice_is_handled_once(house: House) -> None:
    """A duplicate, in one envelope or in two, meets the inbox."""
    twice, last = an_event(a_posted_message(text="twice")), an_event(a_posted_message(text="last"))
    await house.deliver(an_envelope(twice, twice))
    await house.deliver(an_envelope(twice))
    await house.deliver(an_envelope(last))
    seen = {await house.handled.get(), await house.handled.get()}
    assert ({"twice", "last"}, True) == (seen, house.handled.empty())


async def test_a_poisonous_event_is_buried_and_its_neighbours_are_handled(house: House) -> None:
    """Only the bad event of an envelope becomes a dead letter, with its reason and id."""

    async def behave(message: MessagePosted, work: Work) -> None:
        if message.text == "bad":
            raise Poison("cannot be eaten")
        await house._note(message, work)

    house.behave = behave
    first, bad, last = (an_event(a_posted_message(text=text)) for text in ("first", "bad", "last"))
    await house.deliver(an_envelope(first, bad, last))
    assert await house.dead.get() == ("poison: cannot be eaten", bad.id)
    # "first" is noted once more than once: its first transaction was rolled back with the envelope's.
    texts = [await house.handled.get() for _ in range(3)]
    assert texts == ["first", "first", "last"]

    async def committed() -> bool:
        return await house.count("inbox") == 2

    await until(committed, "both neighbours are committed")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (SecurityAlert("forged"), "security: forged"),
        (KeyError("a secret"), "bug: KeyError"),
    ],
)
async def test_an_alarm_and_a_bug_are_dead_letters(house: House, error: Exception, reason: str) -> None:
    """A forged signature and an unexpected exception both end among the dead letters, never in a loop."""

    async def behave(message: MessagePosted, work: Work) -> None:
        raise error

    house.behave = behave
    event = an_event(a_posted_message())
    await house.deliver(an_envelope(event))
    assert await house.dead.get() == (reason, event.id)


async def test_a_refusal_is_an_answer_and_not_a_dead_letter(house: House) -> None:
    """An expected refusal is acknowledged; the next message is handled."""

    async def behave(message: MessagePosted, work: Work) -> None:
        if message.text == "no":
            raise Refused("not now")
        await house._note(message, work)

    house.behave = behave
    await house.deliver(an_envelope(an_event(a_posted_message(text="no"))))
    await house.deliver(an_envelope(an_event(a_posted_message(text="yes"))))
    assert (await house.handled.get(), house.dead.empty()) == ("yes", True)


async def test_a_transient_error_comes_again_after_its_delay(house: House) -> None:
    """What fails for the moment is not tried again at once, but by the retry after its delay."""
    tries: list[float] = []

    async def behave(message: MessagePosted, work: Work) -> None:
        tries.append(asyncio.get_running_loop().time())
        if len(tries) == 1:
            raise Transient("not yet")
        await house._note(message, work)

    house.behave = behave
    await house.deliver(an_envelope(an_event(a_posted_message(text="later"))))
    assert await house.handled.get() == "later"
    first, second = tries
    assert second - first >= RETRY_DELAYS_SECONDS[0]


async def test_a_transient_error_that_stays_is_buried_after_its_last_retry(house: House) -> None:
    """Retries are bounded: the event that has used them up becomes a dead letter with its reason."""

    async def behave(message: MessagePosted, work: Work) -> None:
        raise Transient("never ready")

    house.behave = behave
    event = an_event(a_posted_message())
    consumer = Consumer(QUEUE, {MessagePosted: one_by_one(behave)}, units=house.units, bus=house.bus)
    await consumer(Delivery(QUEUE, an_envelope(event), {ATTEMPT_HEADER: RETRIES_MAX}))
    assert await house.dead.get() == (f"{RETRIES_MAX} retries: never ready", event.id)


async def test_a_full_disk_buries_nothing_however_long_it_lasts(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no event's fault: far more tries than any other outage has, and the event is handled."""
    monkeypatch.setattr(consumer, "OUTAGE_PAUSE_MAX_SECONDS", 0)
    monkeypatch.setattr(database, "FULL_SECONDS", 0)
    tries = 0

    async def behave(message: MessagePosted, work: Work) -> None:
        nonlocal tries
        tries += 1
        if tries <= 2 * consumer.OUTAGE_TRIES_MAX:
            raise Outage("no space left", sqlstate="53100")
        await house._note(message, work)

    house.behave = behave
    await house.deliver(an_envelope(an_event(a_posted_message(text="kept"))))
    assert ("kept", True) == (await house.handled.get(), house.dead.empty())


async def test_a_message_that_nobody_handles_here_is_buried(house: House) -> None:
    """A known message on a queue without a handler for it is never dropped silently."""
    event = an_event(a_posted_message())
    await Consumer(QUEUE, {}, units=house.units, bus=house.bus)(Delivery(QUEUE, an_envelope(event)))
    assert await house.dead.get() == ("no handler for placet.message.posted.v1", event.id)


async def test_unreadable_bytes_are_buried_as_they_are(house: House) -> None:
    """Bytes that are no envelope become a dead letter with a reason."""
    await house.deliver(b"\x00garbage")
    reason, _ = await house.dead.get()
    assert reason.startswith("not JSON")


async def test_the_relay_sends_what_a_crash_left_behind(house: House) -> None:
    """A committed row that nobody published is sent by the sweep once it is due."""
    event = an_event(a_posted_message(text="left behind"))
    async with house.units.once() as work:
        work._sent.append((outgoing(event), ""))
        await work.execute_once()
        await work.run(query("late", "UPDATE agent.outbox SET due_at = now()"))
        work._sent.clear()
        work._places.clear()
    assert await house.outbox.sweep() == 1
    assert await house.handled.get() == "left behind"


async def test_a_row_belongs_to_its_writer_at_first(house: House) -> None:
    """The relay of another replica does not race the writer of a fresh row."""
    async with house.units.begin() as work:
        work.emit(a_posted_message(text="mine"))
    assert await house.outbox.sweep() == 0
    assert await house.handled.get() == "mine"


async def test_events_gather_into_few_envelopes(house: House) -> None:
    """A hundred messages of one transaction are all handled, each once."""
    async with house.units.begin() as work:
        work.emit(*(a_posted_message(text=str(number)) for number in range(100)))
    texts = {await house.handled.get() for _ in range(100)}
    assert {str(number) for number in range(100)} == texts


async def test_a_bus_whose_consumer_is_cancelled_is_not_ready(rabbitmq_url: str) -> None:
    """A queue that goes takes its consumer along; the connection stays open, and envelopes can be published on it."""

    async def take(delivery: Delivery) -> None:
        del delivery

    bus = RabbitBus(rabbitmq_url, service="agent", declare=True)
    bus.subscribe(queue(QUEUE), take)
    before = await bus.ready()
    await bus.start()
    try:
        running = await bus.ready()
        async with await aio_pika.connect(rabbitmq_url) as connection:
            await (await connection.channel()).queue_delete(QUEUE)

        async def cancelled() -> bool:
            return not await bus.ready()

        await until(cancelled, "the bus says that a consumer is gone")
        assert (False, True, True) == (before, running, await bus.connected())
    finally:
        await bus.stop()


async def test_an_event_that_came_before_counts_as_a_duplicate_beside_new_ones(house: House) -> None:
    """An envelope of which half was handled before counts one event as handled and one as a duplicate."""

    def counted() -> tuple[float, float]:
        return tuple(EVENTS.labels(QUEUE, outcome)._value.get() for outcome in ("handled", "duplicate"))

    known, new = an_event(a_posted_message(text="known")), an_event(a_posted_message(text="new"))
    await house.deliver(an_envelope(known))
    assert await house.handled.get() == "known"

    async def forgotten() -> bool:
        return await house.count("inbox") == 1

    await until(forgotten, "the first is committed")
    handled, duplicates = counted()
    await house.deliver(an_envelope(known, new))

    async def committed() -> bool:
        return await house.count("inbox") == 2

    await until(committed, "the second is committed")

    async def told() -> bool:
        return counted() == (handled + 1, duplicates + 1)

    await until(told, "one is counted as handled and one as a duplicate")


async def test_a_row_is_its_writers_own_for_as_long_as_the_relay_leaves_it(database_url: str) -> None:
    """The migrated default of `due_at` is the time that the relay gives a row it has taken."""
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        cursor = await connection.execute(
            "INSERT INTO agent.outbox (id, exchange, key, batch, mandatory, events) "
            "VALUES ('1', '', '', 1, true, '{}') RETURNING extract(epoch FROM due_at - now())::int"
        )
        assert await cursor.fetchone() == (OWN_SECONDS,)


async def test_a_bus_that_stops_waits_for_what_is_being_handled() -> None:
    """In one process: who is at work ends it and is confirmed; who has not begun is refused, so that its row stays."""
    bus, begun, go_on = InProcessBus(), asyncio.Event(), asyncio.Event()
    ended: list[bytes] = []

    async def handle(delivery: Delivery) -> None:
        begun.set()
        await go_on.wait()
        ended.append(delivery.body)

    async def publish(body: bytes) -> None:
        await bus.publish(Destination("", "one"), body, message_id="m", mandatory=True)

    bus.subscribe(QueueSpec("one", "agent", (), prefetch=1), handle)
    await bus.start()
    at_work = asyncio.create_task(publish(b"at work"))
    await begun.wait()
    waiting = asyncio.create_task(publish(b"waiting"))
    await asyncio.sleep(0)
    stopping = asyncio.create_task(bus.stop())
    with pytest.raises(PublishFailed):
        await waiting
    with pytest.raises(PublishFailed):
        await publish(b"late")
    go_on.set()
    await stopping
    await at_work
    assert [b"at work"] == ended
