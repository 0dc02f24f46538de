"""A handler whose whole effect is one statement: what is stored, sent and told of duplicates."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from placet.contracts.errors import Poison
from placet.contracts.messages import MessagePosted, StopTurn
from placet.contracts.topology import Destination
from placet.runtime.bus import Bus, Delivery
from placet.runtime.consumer import Arrival, Consumer, Once
from placet.runtime.database import Database
from placet.runtime.outbox import Outbox
from placet.runtime.queries import query
from placet.runtime.tracing import TRACING
from placet.runtime.work import Change, UnitOfWork, Work
from tests.builders import a_posted_message, an_envelope, an_event
from tests.integration.shared.test_delivery import create_tables
from tests.support.system import until

QUEUE = "agent.messages"
KEEP = query(
    "keep",
    """
    stored AS (
        INSERT INTO agent.kept (id, text)
        SELECT given.id, given.text FROM unnest(:ids::text[], :texts::text[], :keys::text[]) AS given (id, text, key)
        JOIN fresh ON fresh.message_id = given.key
        ON CONFLICT DO NOTHING RETURNING id
    ), effect AS (
        SELECT given.key, given.id FROM unnest(:ids::text[], :keys::text[]) AS given (id, key) JOIN stored USING (id)
    )""",
)


#: The same without the inbox: the table's own key says what is new.
KEEP_BY_KEY = query("keep", KEEP.source.replace("JOIN fresh ON fresh.message_id = given.key", ""))


class Keeper:
    """Keeps each text once, and answers with a message and a line of history where it did."""

    def __init__(self, database: Database, *, keyed: bool = False) -> None:
        self.database = database
        self.sent: list[str] = []
        self.dead: list[str] = []
        self.seen: list[int] = []
        bus = cast("Bus", self)
        self.units = UnitOfWork(database, Outbox(database, bus))
        self.consumer = Consumer(QUEUE, {MessagePosted: Once(self._keep, keyed=keyed)}, units=self.units, bus=bus)
        self._effect = KEEP_BY_KEY if keyed else KEEP
        self.outstanding_max = 1

    async def publish(self, destination: Destination, body: bytes, **options: Any) -> None:
        """Note it."""
        del destination, options
        self.sent.append(body.decode())

    async def dead_letter(self, delivery: Delivery, body: bytes, *, reason: str, message_id: str) -> None:
        """Note why."""
        del delivery, body, message_id
        self.dead.append(reason)

    async def _keep(self, arrivals: Sequence[Arrival[MessagePosted]], work: Work) -> None:
        self.seen.append(len(arrivals))
        if any(each.message.text == "bad" for each in arrivals):
            raise Poison("bad")
        for each in arrivals:
            work.cause = each.cause
            work.record(Change("acme", "turn", each.message.text, "kept", None, "kept", "test"))
            work.emit(StopTurn(tenant="acme", conversation_id=each.message.text, turn_id="t", by="visitor"))
        texts = [each.message.text for each in arrivals]
        await work.execute_once(self._effect, ids=texts, texts=texts, keys=[each.cause.id for each in arrivals])

    async def rows(self, table: str, column: str) -> list[str]:
        """Return a column of a table in order."""
        async with self.database.single() as connection:
            return sorted(row[0] for row in await connection.run(query("q", f"SELECT {column} FROM agent.{table}")))  # noqa: S608


@pytest.fixture
async def keeper(fresh_database: Any) -> AsyncIterator[Keeper]:
    """A Keeper with its tables."""
    database = Database(fresh_database(lambda _: None), service="agent", pool_size=5)
    create_tables(database)
    async with database.single() as connection:
        await connection.run(query("q", "CREATE TABLE agent.kept (id text PRIMARY KEY, text text)"))
    yield Keeper(database)
    await database.close()


async def test_effect_inbox_history_and_outbox_are_one_statement(keeper: Keeper) -> None:
    """All four have what came, and a second delivery changes none of them."""
    events = [an_event(a_posted_message(text=text)) for text in ("a", "b")]
    for _ in range(2):
        await keeper.consumer(Delivery(QUEUE, an_envelope(*events)))
    kept = await keeper.rows("kept", "id"), await keeper.rows("history", "subject_id")
    assert (["a", "b"], ["a", "b"]) == kept
    assert (2, sorted(event.id for event in events)) == (
        len(await keeper.rows("outbox", "unnest(events)")),
        await keeper.rows("inbox", "message_id"),
    )


async def test_what_a_key_keeps_from_happening_twice_needs_no_inbox(keeper: Keeper) -> None:
    """A second delivery finds the row of the first, also beside a new event, and tells nobody anything."""
    by_key = Keeper(keeper.database, keyed=True)
    first, other = (an_event(a_posted_message(text=text)) for text in ("a", "b"))
    await by_key.consumer(Delivery(QUEUE, an_envelope(first)))
    await by_key.consumer(Delivery(QUEUE, an_envelope(first, other)))
    kept = await keeper.rows("kept", "id"), await keeper.rows("history", "subject_id")
    assert (["a", "b"], ["a", "b"]) == kept
    assert (2, []) == (len(await keeper.rows("outbox", "unnest(events)")), await keeper.rows("inbox", "message_id"))


async def test_what_had_no_effect_sends_nothing(keeper: Keeper) -> None:
    """A new event that changes nothing is remembered, and neither history nor messages tell of it."""
    first, again, other = (an_event(a_posted_message(text=text)) for text in ("a", "a", "b"))
    await keeper.consumer(Delivery(QUEUE, an_envelope(first)))
    await keeper.consumer(Delivery(QUEUE, an_envelope(again, other)))
    assert ["a", "b"] == await keeper.rows("history", "subject_id")
    assert (2, 3) == (len(await keeper.rows("outbox", "unnest(events)")), len(await keeper.rows("inbox", "message_id")))

    async def sent() -> bool:
        return len(keeper.sent) == 2

    await until(sent, "both are sent")
    assert ["a", "b"] == sorted(text.split('"conversation_id":"')[1][0] for text in keeper.sent)


async def test_each_change_that_counted_has_one_line_with_its_trace(keeper: Keeper) -> None:
    """What had no effect, and what came before, is told of nowhere; counts hear the same."""
    heard: list[str] = []
    keeper.units.counts.append(lambda change: heard.append(change.subject_id))
    first, again, other = (an_event(a_posted_message(text=text)) for text in ("a", "a", "b"))
    with capture_logs() as lines:
        for envelope in (an_envelope(first), an_envelope(first), an_envelope(again, other)):
            await keeper.consumer(Delivery(QUEUE, envelope))
    told = [(line["event"], line["turn_id"], line["trace_id"]) for line in lines]
    assert [("turn.kept", "a", first.traceparent[3:35]), ("turn.kept", "b", other.traceparent[3:35])] == told
    assert ["a", "b"] == heard


async def test_a_change_without_a_row_in_the_history_is_told_after_the_commit(keeper: Keeper) -> None:
    """A verdict has a row of its own; where its transaction fails, nothing is told of it."""
    verdict = Change("acme", "verdict", "v-1", "given", None, "allow", "policy")
    with capture_logs() as lines:
        async with keeper.units.begin() as work:
            work.tell(verdict)
        with pytest.raises(Poison):
            await _fail(keeper, verdict)
    assert (["verdict.given"], []) == ([line["event"] for line in lines], await keeper.rows("history", "subject_id"))


async def _fail(keeper: Keeper, change: Change) -> None:
    async with keeper.units.begin() as work:
        work.tell(change)
        raise Poison("no")


async def test_what_is_sent_goes_on_from_the_span_of_its_cause(keeper: Keeper) -> None:
    """A reader of traces sees which event led to which."""
    exporter = InMemorySpanExporter()
    TRACING.export("agent", exporter, at_once=True)
    try:
        event = an_event(a_posted_message(text="a"))
        await keeper.consumer(Delivery(QUEUE, an_envelope(event)))
    finally:
        TRACING.stop()
    (span,) = exporter.get_finished_spans()
    assert span.context is not None
    assert span.parent is not None
    carried = f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-01"
    assert (event.traceparent[36:52], "CONSUMER") == (f"{span.parent.span_id:016x}", span.kind.name)
    assert [carried] == [json.loads(text)["traceparent"] for text in await keeper.rows("outbox", "unnest(events)")]


async def test_a_bad_one_fails_alone(keeper: Keeper) -> None:
    """The statement of its neighbours is made without it."""
    await keeper.consumer(
        Delivery(QUEUE, an_envelope(*(an_event(a_posted_message(text=t)) for t in ("a", "bad", "b"))))
    )
    assert (["a", "b"], ["poison: bad"], [3, 1, 1, 1]) == (await keeper.rows("kept", "id"), keeper.dead, keeper.seen)


async def test_work_without_arrivals_is_written_too(keeper: Keeper) -> None:
    """What a request or a timer hands over needs neither inbox nor effect."""
    async with keeper.units.once() as work:
        work.record(Change("acme", "turn", "by hand", "kept", None, "kept", "test"))
    assert ["by hand"] == await keeper.rows("history", "subject_id")
