"""Dead letters on real PostgreSQL: kept once, sent back as they were, or given up together with their call."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from prometheus_client import REGISTRY
from psycopg import sql
from structlog.testing import capture_logs

from placet.contracts.dead_letters import unsent
from placet.contracts.errors import Refused
from placet.contracts.ids import new_id
from placet.contracts.messages import (
    AbandonCall,
    Event,
    Message,
    ResolveDeadLetter,
    ToolCallPermitted,
    ToolCallProposed,
)
from placet.contracts.topology import DEAD_LETTERS, destination_of, queue, reader_of
from placet.dead_letters.handlers import bury, measure, resolve
from placet.runtime.bus import Delivery
from placet.runtime.database import Database
from placet.runtime.outbox import Outbox
from placet.runtime.work import UnitOfWork
from tests.builders import NOON, a_call, a_posted_message, a_result, an_envelope, an_event
from tests.support.approval_builders import a_request
from tests.support.house import Replica

CALL = a_call(arguments={"pin": "no-4929"}, shown_arguments='{"pin":"•••"}')
PROPOSED = ToolCallProposed(tenant="acme", call=CALL)


async def buried(replica: Replica, *events: Event, queue_name: str = "policy.tool-calls", reason: str = "bug") -> str:
    """Bury an envelope as the consumer shell does; return the letter's id."""
    headers = {"x-placet-reason": reason, "x-placet-message-id": events[0].id}
    await bury(Delivery(DEAD_LETTERS, an_envelope(*events), headers, key=queue_name), replica.units)
    found = await replica.rows(
        "SELECT dead_letter_id FROM dead_letters.dead_letters WHERE message_id = :id AND queue = :queue",
        id=events[0].id,
        queue=queue_name,
    )
    (row,) = found
    return str(row["dead_letter_id"])


def resolving(letter_id: str, action: str, **changes: Any) -> ResolveDeadLetter:
    """Return what an operator wants done with a letter."""
    fields = {"tenant": "acme", "dead_letter_id": letter_id, "action": action, "by": "person:grace"}
    return ResolveDeadLetter.model_validate(fields | changes)


async def states(replica: Replica) -> list[tuple[str, str | None]]:
    """Return each letter's state and who resolved it."""
    rows = await replica.rows("SELECT state, resolved_by FROM dead_letters.dead_letters ORDER BY received_at")
    return [(row["state"], row["resolved_by"]) for row in rows]


async def history(replica: Replica) -> list[tuple[str, str | None, str, str, str | None]]:
    """Return event, states, actor and call of each history row, oldest first."""
    rows = await replica.rows("SELECT * FROM dead_letters.history ORDER BY id")
    return [(row["event"], row["from_state"], row["to_state"], row["actor"], row["call_id"]) for row in rows]


async def test_a_letter_that_comes_twice_is_kept_once(replica: Replica) -> None:
    """The broker may deliver a burial again."""
    event = an_event(PROPOSED)
    assert await buried(replica, event) == await buried(replica, event)
    assert [("open", None)] == await states(replica)
    assert [("buried", None, "open", "policy", None)] == await history(replica)


async def test_its_line_in_the_log_says_where_it_was_buried_and_why(replica: Replica) -> None:
    """Also when it is buried again: an operator reads there what to look at."""
    event = an_event(PROPOSED)
    with capture_logs() as lines:
        letter = await buried(replica, event, reason="bug: KeyError")
        await replica.send(resolving(letter, "replay"))
        await buried(replica, event, reason="bug: KeyError")
    told = [(line["event"], line.get("queue"), line.get("reason")) for line in lines if "actor" in line]
    where = ("policy.tool-calls", "bug: KeyError")
    assert [
        ("dead_letter.buried", *where),
        ("dead_letter.replay", None, None),
        ("dead_letter.buried_again", *where),
    ] == told


async def test_its_line_in_the_log_names_the_call_and_its_trace(replica: Replica) -> None:
    """An operator finds by them what the other services said of the call before it was buried."""
    event = an_event(PROPOSED)
    with capture_logs() as lines:
        await buried(replica, event)
        await bury(Delivery(DEAD_LETTERS, b"no JSON", {}, key="policy.tool-calls"), replica.units)
    assert [(PROPOSED.call.call_id, event.traceparent[3:35]), (None, "")] == [
        (line.get("call_id"), line["trace_id"]) for line in lines if line["event"] == "dead_letter.buried"
    ]


class Waited(Database):
    """A database that tells when somebody waits for it."""

    def __init__(self, url: str) -> None:
        super().__init__(url, service="dead_letters", pool_size=1)
        self.waited = asyncio.Event()

    async def wait_ready(self) -> None:
        """Tell, and wait."""
        self.waited.set()
        await super().wait_ready()


def let_in(postgres_url: str, database_url: str, *, allowed: bool) -> None:
    """Let connections into a database, or end those that it has and let none in."""
    name = urlsplit(database_url).path.removeprefix("/")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}").format(sql.Identifier(name), sql.Literal(allowed))
        )
        if not allowed:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])


async def test_a_letter_outlasts_an_outage_of_the_database(
    replica: Replica, postgres_url: str, dead_letters_url: str
) -> None:
    """It is neither taken nor given back while the database is away: a letter given back too often is dropped."""
    database = Waited(dead_letters_url)
    bus = replica.service.runtime.bus
    body = an_envelope(an_event(PROPOSED))
    let_in(postgres_url, dead_letters_url, allowed=False)
    try:
        burying = asyncio.create_task(
            bury(Delivery(DEAD_LETTERS, body, key="policy.tool-calls"), UnitOfWork(database, Outbox(database, bus)))
        )
        waiting = asyncio.create_task(database.waited.wait())
        await asyncio.wait({burying, waiting}, return_when=asyncio.FIRST_COMPLETED)
        assert (True, False) == (waiting.done(), burying.done())
    finally:
        let_in(postgres_url, dead_letters_url, allowed=True)
    await burying
    await database.close()
    assert [("open", None)] == await states(replica)


async def test_what_people_may_see_of_a_letter_is_kept_beside_it(replica: Replica) -> None:
    """The body is what would be replayed; what is shown of it holds no redacted value."""
    await buried(replica, an_event(PROPOSED))
    (row,) = await replica.rows("SELECT body, shown_body FROM dead_letters.dead_letters")
    assert (True, False) == ("no-4929" in row["body"], "no-4929" in row["shown_body"])


async def test_a_replayed_letter_goes_back_as_it_was(replica: Replica) -> None:
    """The same event with the same id reaches the queue it came from, once; buried again, the letter is open again."""
    came: list[bytes] = []

    async def keep(delivery: Delivery) -> None:
        came.append(delivery.body)

    replica.service.runtime.bus.subscribe(queue("policy.tool-calls"), keep)
    event = an_event(PROPOSED)
    letter = await buried(replica, event)
    for _ in range(2):
        await replica.send(resolving(letter, "replay"))
    assert [True] == [event.id.encode() in body and b"no-4929" in body for body in came]
    assert [("replayed", "person:grace")] == await states(replica)
    kept = "SELECT body FROM dead_letters.dead_letters"
    assert [""] == [row["body"] for row in await replica.rows(kept)]
    assert letter == await buried(replica, event)
    assert [("open", None)] == await states(replica)
    assert [True] == [event.id in row["body"] for row in await replica.rows(kept)]


@pytest.mark.parametrize(
    ("queue_name", "message", "may_have_run"),
    [
        ("policy.tool-calls", PROPOSED, False),
        ("approval.requests", a_request(CALL), False),
        (
            "executor.payments",
            ToolCallPermitted(tenant="acme", pool="payments", call=CALL, permit="signed"),
            False,
        ),
        ("agent.tool-results", a_result(CALL), True),
    ],
)
async def test_a_discarded_step_ends_its_call(
    replica: Replica, queue_name: str, message: Message, *, may_have_run: bool
) -> None:
    """Whoever buried the letter is asked to end the call, once; the call's history says who gave it up."""
    letter = await buried(replica, an_event(message), queue_name=queue_name)
    sent = await replica.send(resolving(letter, "discard"))
    again = await replica.send(resolving(letter, "discard", by="person:ada"))
    (abandoned,) = sent
    assert isinstance(abandoned, AbandonCall)
    assert (CALL.call_id, CALL.conversation_id, "acme", CALL.tool) == (
        abandoned.call_id,
        abandoned.conversation_id,
        abandoned.tenant,
        abandoned.tool,
    )
    assert (queue_name, may_have_run, "person:grace") == (abandoned.queue, abandoned.may_have_run, abandoned.by)
    assert ([], [("discarded", "person:grace")]) == (again, await states(replica))
    assert ("discard", "open", "discarded", "person:grace", CALL.call_id) == (await history(replica))[1]


@pytest.mark.parametrize(
    ("message", "own_queue", "queue_name", "may_have_run"),
    [
        (a_result(CALL), "workspaces.commands", "agent.tool-results", True),
        (PROPOSED, "agent.messages", "policy.tool-calls", False),
        (
            ToolCallPermitted(tenant="acme", pool="payments", call=CALL, permit="signed"),
            "approval.edits",
            "executor.payments",
            False,
        ),
    ],
)
async def test_what_the_broker_refused_ends_its_call_when_it_is_discarded(
    replica: Replica, message: Message, own_queue: str, queue_name: str, *, may_have_run: bool
) -> None:
    """Its letter says what it was, for which queue and why; it cannot be replayed, and keeps that reason."""
    event = an_event(message)
    refused = unsent(json.loads(event.to_json()), reader_of(destination_of(message)), event.to_json()[:200])
    headers = {"x-placet-reason": "too large: 262144 bytes", "x-placet-message-id": event.id}
    await bury(Delivery(DEAD_LETTERS, json.dumps([refused]).encode(), headers, key=own_queue), replica.units)
    (letter,) = await replica.rows("SELECT * FROM dead_letters.dead_letters")
    with pytest.raises(Refused, match="cannot be replayed"):
        async with replica.units.begin() as work:
            await resolve(resolving(letter["dead_letter_id"], "replay"), work)
    (kept,) = await replica.rows("SELECT * FROM dead_letters.dead_letters")
    assert ("open", queue_name, message.type_name, "too large: 262144 bytes") == tuple(
        kept[name] for name in ("state", "queue", "message_type", "reason")
    )
    (abandoned,) = await replica.send(resolving(letter["dead_letter_id"], "discard"))
    assert isinstance(abandoned, AbandonCall)
    assert (queue_name, CALL.call_id, may_have_run) == (abandoned.queue, abandoned.call_id, abandoned.may_have_run)
    assert ("discard", "open", "discarded", "person:grace", CALL.call_id) == (await history(replica))[-1]


async def test_a_discarded_envelope_ends_every_call_in_it(replica: Replica) -> None:
    """What the broker buried holds many events, of several tenants: each has a letter, and ends its own calls."""
    calls = [a_call(), a_call(tenant="rival"), a_call()]
    events = [an_event(ToolCallProposed(tenant=call.tenant, call=call)) for call in calls]
    letter = await buried(replica, *events)
    found = [ended(await replica.send(resolving(letter, "discard")))]
    rows = await replica.rows("SELECT dead_letter_id FROM dead_letters.dead_letters WHERE tenant = 'rival'")
    (other,) = [str(row["dead_letter_id"]) for row in rows]
    found.append(ended(await replica.send(resolving(other, "discard", tenant="rival"))))
    first, second, third = ((call.tenant, call.call_id) for call in calls)
    assert [[first, third], [second]] == found


def ended(sent: list[Message]) -> list[tuple[str, str]]:
    """Return tenant and id of the calls that messages end."""
    return [(message.tenant, message.call_id) for message in sent if isinstance(message, AbandonCall)]


async def test_discarding_what_no_call_waits_for_ends_nothing(replica: Replica) -> None:
    """A line of a feed, a card, a decision, a person's message: the letter is given up, and that is all."""
    letters = [
        await buried(replica, an_event(PROPOSED), queue_name="gateway.handovers"),
        await buried(replica, an_event(a_posted_message()), queue_name="agent.messages"),
        await buried(replica, an_event(resolving(new_id(), "replay")), queue_name="dead-letters.commands"),
    ]
    assert [] == [message for letter in letters for message in await replica.send(resolving(letter, "discard"))]
    assert [("discarded", "person:grace")] * 3 == await states(replica)


async def test_a_discarded_letter_is_never_replayed(replica: Replica) -> None:
    """A replay that comes after the discard is an expected race: kept in the history, without effect."""
    letter = await buried(replica, an_event(PROPOSED, time=NOON))
    await replica.send(resolving(letter, "discard"))
    assert [] == await replica.send(resolving(letter, "replay"))
    assert ("replay", "discarded", "discarded", "person:grace", None) == (await history(replica))[-1]


async def test_another_tenant_resolves_nothing(replica: Replica) -> None:
    """A9: for another tenant the letter does not exist."""
    letter = await buried(replica, an_event(PROPOSED))
    assert [] == await replica.send(resolving(letter, "discard", tenant="rival"))
    assert [("open", None)] == await states(replica)


async def test_a_letter_without_events_stays_open_when_it_is_replayed(replica: Replica) -> None:
    """Nobody can send it back, and the wish is refused: no dead letter about a dead letter."""
    await bury(Delivery(DEAD_LETTERS, b"\xff", key="policy.tool-calls"), replica.units)
    (row,) = await replica.rows("SELECT dead_letter_id, tenant FROM dead_letters.dead_letters")
    wish = resolving(row["dead_letter_id"], "replay", tenant=row["tenant"])
    with pytest.raises(Refused, match="cannot be replayed"):
        async with replica.units.begin() as work:
            await resolve(wish, work)
    assert [("open", None)] == await states(replica)


async def test_open_letters_are_measured(replica: Replica) -> None:
    """Those that were replayed or discarded wait for nobody."""
    letter = await buried(replica, an_event(PROPOSED))
    await buried(replica, an_event(a_posted_message()), queue_name="agent.messages")
    await replica.send(resolving(letter, "discard"))
    await measure(replica.units.database)
    assert 1 == REGISTRY.get_sample_value("placet_dead_letters_waiting")
