"""Requests that come together: opened with one statement, each as if it had come alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa

from placet.contracts.messages import ApprovalClosed, ApprovalOpened, Message, ShownCall, ToolCallRefused
from tests.builders import a_call, an_approval_rule, an_event
from tests.support.approval_builders import a_request, a_withdrawal
from tests.support.approval_races import Replicas
from tests.support.house import Replica

TRANSACTIONS = "SELECT count(DISTINCT xmin::text) FROM approval.approvals"
HEAR = sa.text(
    "INSERT INTO approval.calls (tenant, call_id, heard_at) VALUES (:tenant, :call_id, clock_timestamp())"
    " ON CONFLICT DO NOTHING"
)


def opened_in(sent: Sequence[Message]) -> list[ShownCall]:
    """Return the calls of the cards among messages, in their order."""
    return [message.call for message in sent if isinstance(message, ApprovalOpened)]


def shown(request: Message) -> ShownCall:
    """Return the call of a request as people see it."""
    return ShownCall.model_validate(request.model_dump()["call"])


async def test_requests_of_one_envelope_are_opened_in_one_transaction(replica: Replica) -> None:
    """Each waits as long as its own rule says, and has a card, in the order of the requests."""
    seconds = [60, 90_000, 3600]
    rules = [an_approval_rule(expires_after_seconds=each, reminders_after_seconds=[each - 1]) for each in seconds]
    requests = [a_request(approval=rule) for rule in rules]
    sent = await replica.send(*requests)
    assert [shown(request) for request in requests] == opened_in(sent)
    assert [{"count": 1}] == await replica.rows(TRANSACTIONS)
    rows = await replica.rows("SELECT call_id, created_at, expires_at, next_step_at FROM approval.approvals")
    waits = {
        row["call_id"]: (row["expires_at"] - row["created_at"], row["next_step_at"] - row["created_at"]) for row in rows
    }
    assert {
        request.call.call_id: (timedelta(seconds=each), timedelta(seconds=each - 1))
        for request, each in zip(requests, seconds, strict=True)
    } == waits


async def test_a_request_opens_in_its_own_thread(replica: Replica) -> None:
    """Cause, correlation and trace of a card are those of its own request, now and when it is over."""
    requests = [replica.as_sent(a_request(a_call(labels={"n": "1"}))) for _ in range(3)]
    events = [an_event(each, correlation_id=f"thread-{n}") for n, each in enumerate(requests)]
    await replica.send_events(*events)
    cards = [event for event in replica.sent if isinstance(event.message, ApprovalOpened)]
    assert [(event.id, event.correlation_id) for event in events] == [
        (event.causation_id, event.correlation_id) for event in cards
    ]
    rows = await replica.rows("SELECT call_id, correlation_id FROM approval.approvals ORDER BY correlation_id")
    assert [event.message.model_dump()["call"]["call_id"] for event in events] == [row["call_id"] for row in rows]


async def test_a_call_that_is_requested_twice_in_an_envelope_is_opened_once(replica: Replica) -> None:
    """Two events with the same request make one card; the neighbour has its own."""
    request, other = a_request(), a_request()
    sent = await replica.send(request, request, other)
    assert [shown(request), shown(other)] == opened_in(sent)
    assert [] == replica.dead


async def test_a_request_with_a_wrong_digest_among_others_is_buried_alone(replica: Replica) -> None:
    """Whoever stands before it and behind it waits for people."""
    requests = [a_request(), a_request(a_call(digest="0" * 64)), a_request()]
    sent = await replica.send(*requests)
    assert [shown(requests[0]), shown(requests[2])] == opened_in(sent)
    assert [True] == [reason.startswith("security:") for reason in replica.dead]


async def test_withdrawn_calls_among_requests_are_closed_at_once(replica: Replica) -> None:
    """Their agent has the one result of each; the others wait for people."""
    requests = [a_request() for _ in range(4)]
    await replica.send(a_withdrawal(requests[0].call, requests[2].call))
    sent = await replica.send(*requests)
    assert [shown(requests[1]), shown(requests[3])] == opened_in(sent)
    refused = [message.call_id for message in sent if isinstance(message, ToolCallRefused)]
    assert [requests[0].call.call_id, requests[2].call.call_id] == refused
    assert 2 == len([message for message in sent if isinstance(message, ApprovalClosed)])


async def test_a_second_delivery_of_some_requests_opens_the_others_only(replicas: Replicas) -> None:
    """In the same event or in another one, at whichever replica."""
    requests = [replicas[0].as_sent(a_request()) for _ in range(3)]
    events = [an_event(request) for request in requests]
    await replicas[0].send_events(*events[:2])
    sent = await replicas[1].send_events(events[0], an_event(requests[1]), events[2])
    assert [shown(requests[2])] == opened_in(sent)
    assert [{"count": 3}] == await replicas[0].rows("SELECT count(*) FROM approval.approvals")


async def test_calls_are_heard_of_in_one_order(replicas: Replicas) -> None:
    """Requests that wait for the first call hold no later one, so two envelopes cannot lock each other out."""
    first, second = sorted((a_request() for _ in range(2)), key=lambda request: request.call.call_id)
    async with replicas[1].units.database.transaction() as connection:
        await connection.execute(HEAR, {"tenant": "acme", "call_id": first.call.call_id})
        sending = asyncio.ensure_future(replicas[0].send(second, first))
        await replicas[1].until_waiting(1)
        await connection.execute(HEAR, {"tenant": "acme", "call_id": second.call.call_id})
    assert [] == await sending
    assert [] == replicas[0].dead
