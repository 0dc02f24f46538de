"""What one envelope carries, and what becomes of what the broker never takes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from placet.contracts.dead_letters import UNSENT_TYPE, Unsent, unsent_in
from placet.contracts.messages import ENVELOPE_EVENTS_MAX, StopTurn, ToolCallFinished, ToolCallPermitted
from placet.contracts.messages.tool_calls import LEFT_OUT
from placet.contracts.topology import QUEUES, Destination
from placet.runtime.bus import Bus, ComesAgain, Delivery, PublishBlocked, PublishFailed, PublishRefused, PublishReturned
from placet.runtime.database import Database
from placet.runtime.in_process import InProcessBus
from placet.runtime.outbox import ENVELOPE_BYTES_MAX, Outbox
from placet.runtime.queries import query
from placet.runtime.work import UnitOfWork
from tests.builders import a_call
from tests.integration.shared.test_delivery import create_tables

REPLY = 262_000


class Broker:
    """Takes bodies of up to `limit` bytes."""

    outstanding_max = 2
    keeps = True

    def __init__(self, limit: int) -> None:
        self.limit = limit
        #: Envelopes that fail, by their place.
        self.failing: set[int] = set()
        self.tried = 0
        self.taken: list[bytes] = []
        self.blocked: set[str] = set()
        self.unbound: set[str] = set()
        self.mandatory: list[bool] = []
        self.letters: list[tuple[str, bytes, str]] = []

    async def connected(self) -> bool:
        """Return that it is there."""
        return True

    async def publish(self, destination: Destination, body: bytes, **options: Any) -> None:
        """Take it or not."""
        if destination.exchange in self.blocked:
            raise PublishBlocked("no right to it")
        if destination.key in self.unbound:
            raise PublishReturned("NO_ROUTE")
        self.mandatory.append(options.get("mandatory", False))
        self.tried += 1
        tried = self.tried
        await asyncio.sleep(0)
        if tried in self.failing:
            raise PublishFailed("no confirm")
        if len(body) > self.limit:
            raise PublishRefused("message size is larger than configured max size")
        self.taken.append(body)

    async def dead_letter(self, delivery: Delivery, body: bytes, *, reason: str, message_id: str) -> None:
        """Note it, or not."""
        del message_id
        if len(body) > self.limit:
            raise PublishRefused("message size is larger than configured max size")
        self.letters.append((delivery.queue, body, reason))


@pytest.fixture
async def database(fresh_database: Any) -> AsyncIterator[Database]:
    """The three tables of a service."""
    database = Database(fresh_database(lambda _: None), service="agent", pool_size=2)
    create_tables(database)
    yield database
    await database.close()


def a_reply(text: str) -> ToolCallFinished:
    """Return the end of a call whose tool answered `text`."""
    at = datetime.now(UTC)
    return ToolCallFinished(
        tenant="acme",
        call_id="c",
        conversation_id="v",
        tool="search",
        kind="succeeded",
        data=text,
        attempt=1,
        started_at=at,
        finished_at=at,
    )


def a_permit(call_id: str, pool: str = "default") -> ToolCallPermitted:
    """Return a permit, of which an envelope carries one."""
    return ToolCallPermitted(tenant="acme", pool=pool, call=a_call(call_id=call_id), permit="p")


async def sent(database: Database, broker: Broker, *texts: str) -> int:
    """Send messages in one transaction; return how many rows stay."""
    outbox = Outbox(database, cast("Bus", broker))
    async with UnitOfWork(database, outbox).begin() as work:
        work.emit(*map(a_reply, texts))
    await outbox.drain()
    return int((await rows(database, "SELECT count(*) FROM agent.outbox"))[0][0])


async def rows(database: Database, statement: str) -> list[Any]:
    """Return what a statement finds."""
    async with database.single() as connection:
        return await connection.run(query("q", statement))


async def test_seventy_large_replies_go_in_small_envelopes(database: Database) -> None:
    """Envelopes are bounded by bytes, so that what fits alone is not refused for its neighbours."""
    broker = Broker(limit=1_000_000)
    left = await sent(database, broker, *(str(number).ljust(REPLY // 2) for number in range(70)))
    events = [event for body in broker.taken for event in json.loads(body)]
    assert (0, 70, []) == (left, len(events), broker.letters)
    # None was refused and sent again alone; some share an envelope.
    assert broker.tried == len(broker.taken) < 70
    assert max(map(len, broker.taken)) <= ENVELOPE_BYTES_MAX + len("[]")


async def test_an_envelope_has_no_more_bytes_than_it_may(database: Database) -> None:
    """What would make it too long by itself is the first of the next one."""
    broker = Broker(limit=1_000_000)
    await sent(database, broker, *("x" * kilobytes * 1000 for kilobytes in (200, 300, 300, 200, 100)))
    told = [[len(event["data"]["data"]) // 1000 for event in json.loads(body)] for body in broker.taken]
    assert [[200, 300], [300, 200], [100]] == told


async def test_what_is_refused_goes_alone_and_then_to_the_dead_letters(database: Database) -> None:
    """Its neighbours are sent, nothing stays in the outbox, and the letter tells what it was, for whom, and why."""
    broker = Broker(limit=100_000)
    assert await sent(database, broker, "a", "x" * 200_000, "b") == 0
    heard = [event["data"]["data"] for body in broker.taken for event in json.loads(body)]
    assert ["a", "b"] == [text for text in heard if isinstance(text, str)]
    ((queue, letter, reason),) = broker.letters
    (told,) = json.loads(letter)
    assert ("agent.messages", UNSENT_TYPE, "acme") == (queue, told["type"], told["data"]["tenant"])
    assert Unsent(
        ToolCallFinished.type_name,
        "agent.tool-results",
        {"tenant": "acme", "call_id": "c", "conversation_id": "v", "tool": "search"},
    ) == unsent_in(told)
    assert ("too large: sent in brief" in reason, True) == (True, len(letter) < broker.limit)


async def test_a_call_has_its_answer_where_the_broker_refuses_the_reply(database: Database) -> None:
    """In its place goes how the call ended, under the id of the event: whoever heard the one passes the other over."""
    broker = Broker(limit=100_000)
    assert await sent(database, broker, "x" * 200_000) == 0
    ((answer,),) = [json.loads(body) for body in broker.taken]
    ((_, letter, _),) = broker.letters
    assert [True, True] == broker.mandatory
    assert ToolCallFinished.type_name == answer["type"]
    assert ("c", "succeeded", dict(LEFT_OUT)) == tuple(answer["data"][name] for name in ("call_id", "kind", "data"))
    assert json.loads(letter)[0]["id"] == answer["id"]


async def test_an_answer_in_brief_that_fails_is_left_to_the_relay(database: Database) -> None:
    """No letter is written before the call has its answer: the row stays, and the next round does both."""
    broker = Broker(limit=100_000)
    broker.failing = {2}
    left = await sent(database, broker, "x" * 200_000)
    assert (1, [], []) == (left, broker.taken, broker.letters)
    async with database.single() as connection:
        await connection.run(query("late", "UPDATE agent.outbox SET due_at = now()"))
    outbox = Outbox(database, cast("Bus", broker))
    await outbox.sweep()
    await outbox.drain()
    assert (0, 1, 1) == (await rows_left(database), len(broker.taken), len(broker.letters))


async def test_a_letter_is_as_short_as_the_broker_wants_it(database: Database) -> None:
    """Where not even the beginning of an event is taken, the letter still tells what it was and of which call."""
    broker = Broker(limit=1_000)
    assert await sent(database, broker, "x" * 200_000) == 0
    ((_, letter, _),) = broker.letters
    refused = unsent_in(json.loads(letter)[0])
    assert refused is not None
    assert (True, "c") == (len(letter) <= broker.limit, refused.call["call_id"])


class SlowBroker(Broker):
    """Confirms nothing until it is told to."""

    def __init__(self) -> None:
        super().__init__(ENVELOPE_BYTES_MAX)
        self.reached, self.confirming = asyncio.Event(), asyncio.Event()
        self.options: list[dict[str, Any]] = []

    async def publish(self, destination: Destination, body: bytes, **options: Any) -> None:
        """Take an envelope; return once it is confirmed."""
        self.options.append(options)
        self.reached.set()
        await self.confirming.wait()
        await super().publish(destination, body)


async def rows_left(database: Database) -> int:
    """Return how many rows are in the outbox."""
    async with database.single() as connection:
        return int((await connection.run(query("q", "SELECT count(*) FROM agent.outbox")))[0][0])


async def test_a_row_stays_until_its_confirm(database: Database) -> None:
    """A broker that dies with the envelope in its hands has lost nothing: the row is there to be sent again."""
    broker = SlowBroker()
    outbox = Outbox(database, cast("Bus", broker))
    async with UnitOfWork(database, outbox).begin() as work:
        work.emit(a_reply("x"))
    await broker.reached.wait()
    await outbox._forget_once()
    unconfirmed = await rows_left(database)
    broker.confirming.set()
    await outbox.drain()
    assert (1, 0) == (unconfirmed, await rows_left(database))


async def unstored(database: Database, broker: Broker) -> Outbox:
    """Hand over a message of a work that changes nothing; return its outbox."""
    outbox = Outbox(database, cast("Bus", broker))
    async with UnitOfWork(database, outbox).once(unstored=True) as work:
        work.emit(a_reply("x"))
    return outbox


async def test_what_changes_nothing_is_not_stored_where_it_is_confirmed(database: Database) -> None:
    """While it is on its way there is no row of it, and whoever handed it over hears of nothing yet."""
    broker = SlowBroker()
    handing = asyncio.create_task(unstored(database, broker))
    await broker.reached.wait()
    on_its_way = (await rows_left(database), handing.done())
    broker.confirming.set()
    await (await handing).drain()
    assert ((0, False), 0, 1) == (on_its_way, await rows_left(database), len(broker.options))


async def test_what_changes_nothing_is_stored_where_the_carrier_keeps_nothing(database: Database) -> None:
    """In one process the outbox is all that is durable, so that nobody waits for the readers of a message."""
    broker = SlowBroker()
    broker.keeps = False
    outbox = await unstored(database, broker)
    left = await rows_left(database)
    broker.confirming.set()
    await outbox.drain()
    assert (1, 0, 1) == (left, await rows_left(database), len(broker.options))


async def test_what_changes_nothing_is_stored_where_it_fails(database: Database) -> None:
    """Then the relay has it like anything else."""
    broker = Broker(limit=ENVELOPE_BYTES_MAX)
    broker.failing = {1, 2}
    outbox = await unstored(database, broker)
    await outbox.drain()
    left = await rows_left(database)
    async with database.single() as connection:
        await connection.run(query("late", "UPDATE agent.outbox SET due_at = now()"))
    await outbox.sweep()
    await outbox.drain()
    assert (1, 0, 1) == (left, await rows_left(database), len(broker.taken))


async def test_what_is_not_confirmed_in_time_is_stored_and_sent_again(database: Database) -> None:
    """Whoever hands it over waits no longer; both copies have one id, by which their reader knows the second."""
    broker = SlowBroker()
    outbox = await unstored(database, broker)
    left = await rows_left(database)
    broker.confirming.set()
    await outbox.drain()
    assert (1, 0) == (left, await rows_left(database))
    assert 1 == len({event["id"] for body in broker.taken for event in json.loads(body)}) < len(broker.taken)


@pytest.mark.parametrize("relayed", [False, True])
async def test_what_must_reach_a_queue_is_published_so(database: Database, *, relayed: bool) -> None:
    """By its writer and by the relay: without `mandatory` the broker confirms what it throws away."""
    broker = SlowBroker()
    broker.confirming.set()
    writer, relay = Outbox(database, cast("Bus", Dead() if relayed else broker)), Outbox(database, cast("Bus", broker))
    async with UnitOfWork(database, writer).begin() as work:
        work.emit(a_reply("x"))
    await writer.drain()
    if relayed:
        async with database.single() as connection:
            await connection.run(query("q", "UPDATE agent.outbox SET due_at = now() - interval '1 second' RETURNING 1"))
        await relay.sweep()
        await relay.drain()
    assert [True] == [options["mandatory"] for options in broker.options]


class Dead(Broker):
    """Takes nothing at all."""

    def __init__(self) -> None:
        super().__init__(0)

    async def publish(self, destination: Destination, body: bytes, **options: Any) -> None:
        """Fail."""
        del destination, body, options
        raise ConnectionError

    async def connected(self) -> bool:
        """It is not."""
        return False


async def test_what_one_commit_sends_one_way_is_one_row(database: Database) -> None:
    """An envelope's worth of events is a row, and what goes elsewhere has a row of its own."""
    outbox = Outbox(database, cast("Bus", Broker(limit=ENVELOPE_BYTES_MAX)))
    stop = StopTurn(tenant="acme", conversation_id="v", turn_id="t", by="visitor")
    async with UnitOfWork(database, outbox).begin() as work:
        work.emit(*(a_reply("") for _ in range(ENVELOPE_EVENTS_MAX + 1)), stop)
    await outbox.drain()
    assert [ENVELOPE_EVENTS_MAX, 1, 1] == [len(row.events) for row in work.rows]


async def test_a_row_stays_until_all_of_it_is_confirmed(database: Database) -> None:
    """Where one of its envelopes fails, the relay has the row, and the confirms of the others do not delete it."""
    broker = Broker(limit=ENVELOPE_BYTES_MAX)
    broker.failing = {2}
    outbox = Outbox(database, cast("Bus", broker))
    permits = [a_permit(f"call-{number}") for number in range(3)]
    async with UnitOfWork(database, outbox).begin() as work:
        work.emit(*permits)
    await outbox.drain()
    ((left,),) = await rows(database, "SELECT count(*) FROM agent.outbox")
    async with database.single() as connection:
        await connection.run(query("late", "UPDATE agent.outbox SET due_at = now()"))
    swept = await outbox.sweep()
    await outbox.drain()
    ((at_last,),) = await rows(database, "SELECT count(*) FROM agent.outbox")
    assert (1, 1, 0) == (left, swept, at_last)
    told = [event["data"]["call"]["call_id"] for body in broker.taken for event in json.loads(body)]
    assert {"call-0", "call-1", "call-2"} == set(told)


async def test_a_broker_that_is_away_is_told_once(database: Database) -> None:
    """Not once for each envelope: a line when it begins, and one when an envelope arrives again."""
    broker = Broker(limit=ENVELOPE_BYTES_MAX)
    broker.failing = {1, 2, 3}
    outbox = Outbox(database, cast("Bus", broker))
    with capture_logs() as lines:
        for number in range(4):
            async with UnitOfWork(database, outbox).begin() as work:
                work.emit(a_permit(f"call-{number}"))
            await outbox.drain()
    told = [(line["event"], line.get("missed")) for line in lines if line["event"].startswith("outbox.")]
    assert [("outbox.publish_failed", None), ("outbox.publishes_again", 3)] == told


async def test_an_exchange_that_alone_takes_nothing_is_told_once(database: Database) -> None:
    """However much else arrives meanwhile; and again when it takes something."""
    broker = Broker(limit=ENVELOPE_BYTES_MAX)
    broker.blocked = {"tool-results"}
    outbox = Outbox(database, cast("Bus", broker))
    with capture_logs() as lines:
        for number in range(4):
            if number == 3:
                broker.blocked.clear()
            async with UnitOfWork(database, outbox).begin() as work:
                work.emit(a_permit(f"call-{number}"), a_reply("done"))
            await outbox.drain()
    told = [(line["event"], line.get("exchange")) for line in lines if line["event"].startswith("outbox.")]
    assert [("outbox.publish_failed", "tool-results"), ("outbox.publishes_again", "tool-results")] == told
    assert 5 == len(broker.taken)


async def test_a_pool_that_alone_has_no_queue_is_told_once(database: Database) -> None:
    """However much goes to other pools by the same exchange meanwhile; and again when its queue is there."""
    broker = Broker(limit=ENVELOPE_BYTES_MAX)
    broker.unbound = {"weather"}
    outbox = Outbox(database, cast("Bus", broker))
    with capture_logs() as lines:
        for number in range(4):
            if number == 3:
                broker.unbound.clear()
            async with UnitOfWork(database, outbox).begin() as work:
                work.emit(a_permit(f"call-{number}", pool="weather"), a_permit(f"other-{number}"))
            await outbox.drain()
    told = [
        (line["event"], line["exchange"], line["key"], line.get("missed"))
        for line in lines
        if line["event"].startswith("outbox.")
    ]
    where = ("executions", "weather")
    assert [("outbox.publish_failed", *where, None), ("outbox.publishes_again", *where, 3)] == told


async def test_what_comes_after_the_bus_has_stopped_is_left_and_no_outage(database: Database) -> None:
    """In an orderly stop nothing is away: the row is sent by whoever runs on, or by the next start."""
    outbox = Outbox(database, InProcessBus())
    with capture_logs() as logs:
        async with UnitOfWork(database, outbox).begin() as work:
            work.emit(a_reply("late"))
        await outbox.drain()
    ((left,),) = await rows(database, "SELECT count(*) FROM agent.outbox")
    assert (1, []) == (left, logs)


async def test_what_a_reader_in_this_process_has_no_room_for_is_left_and_no_outage(database: Database) -> None:
    """An executor whose slots are all taken is at work: nothing is away, and the row is sent again."""
    bus = InProcessBus()

    async def have_no_room(_: Delivery) -> None:
        raise ComesAgain("no slot is free")

    for spec in QUEUES:
        bus.subscribe(spec, have_no_room)
    await bus.start()
    outbox = Outbox(database, bus)
    with capture_logs() as logs:
        async with UnitOfWork(database, outbox).begin() as work:
            work.emit(a_reply("late"))
        await outbox.drain()
    await bus.stop()
    ((left,),) = await rows(database, "SELECT count(*) FROM agent.outbox")
    assert (1, []) == (left, logs)
