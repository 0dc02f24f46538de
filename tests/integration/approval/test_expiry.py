"""The expiry duty: by the database clock, by any number of replicas, each approval once."""

from __future__ import annotations

import asyncio

import sqlalchemy as sa

from placet.approval import worker
from placet.approval.store import QUERIES
from placet.contracts.messages import ApprovalClosed, ApprovalOpened, ToolCallRefused
from tests.builders import an_event
from tests.support.approval_builders import REFUSED, a_request
from tests.support.house import Replica

_OVERDUE = "UPDATE approval.approvals SET expires_at = clock_timestamp() - interval '1 ms'"
_LOCK = sa.text("SELECT 1 FROM approval.approvals WHERE approval_id = :id FOR UPDATE")
_COPIES = """
    INSERT INTO approval.approvals SELECT (jsonb_populate_record(a, jsonb_build_object(
        'approval_id', 'copy-' || n, 'call_id', 'copy-' || n, 'conversation_id', 'conversation-' || n,
        'tool', 'tool-' || n % 50, 'agent', 'agent-' || n % 50,
        'category', (ARRAY['unsafe_write', 'unsafe_api', 'unsafe_exec'])[1 + n % 3],
        'created_at', a.created_at + n * interval '1 ms', 'expires_at', a.expires_at + n * interval '1 s'))).*
    FROM approval.approvals a, generate_series(1, 5000) n
"""


async def open_some(replica: Replica, number: int) -> None:
    """Open approvals, in envelopes of 50."""
    for _ in range(0, number, 50):
        await replica.send(*[a_request() for _ in range(50)])


async def states(replica: Replica) -> dict[str, int]:
    """Return how many approvals are in each state."""
    rows = await replica.rows("SELECT state, count(*) FROM approval.approvals GROUP BY state")
    return {row["state"]: row["count"] for row in rows}


async def test_nothing_is_expired_before_its_deadline(replica: Replica) -> None:
    """What still has time is left alone."""
    await open_some(replica, 50)
    assert 0 == await worker.expire_overdue(replica.units, 200, replica.signer)
    assert {"pending": 50} == await states(replica)


async def test_an_overdue_approval_refuses_its_call_in_its_own_thread(replica: Replica) -> None:
    """The agent gets `expired` with a plain reason, surfaces get the end, history names the clock."""
    asked = an_event(replica.as_sent(a_request()), correlation_id="thread-7")
    await replica.send_events(asked)
    await replica.execute(_OVERDUE)
    assert await worker.expire_overdue(replica.units, 200, replica.signer) == 1
    await replica.settle()
    sent = {type(event.message): event for event in replica.sent[2:]}
    assert set(REFUSED) == set(sent)
    refused, closed = replica.all_sent(ToolCallRefused)[0], replica.all_sent(ApprovalClosed)[0]
    assert ("expired", "The call did not run: nobody decided on it in time.") == (refused.kind, refused.reason)
    assert ("expired", "") == (closed.state, closed.decided_by)
    assert {"thread-7"} == {event.correlation_id for event in sent.values()}
    history = "SELECT event, from_state, to_state, actor, call_id FROM approval.history ORDER BY id DESC LIMIT 1"
    row = (await replica.rows(history))[0]
    assert ("time_out", "pending", "expired", "clock", refused.call_id) == tuple(row.values())


async def test_two_replicas_expire_each_approval_once(replicas: tuple[Replica, Replica]) -> None:
    """They share the work in batches, and no call is refused twice."""
    await open_some(replicas[0], 300)
    await replicas[0].execute(_OVERDUE)

    async def work_off(replica: Replica) -> list[int]:
        rounds = [await worker.expire_overdue(replica.units, 40, replica.signer)]
        while rounds[-1]:
            rounds.append(await worker.expire_overdue(replica.units, 40, replica.signer))
        await replica.settle()
        return rounds

    rounds = await asyncio.gather(*map(work_off, replicas))
    refused = [message.call_id for replica in replicas for message in replica.all_sent(ToolCallRefused)]
    assert (300, 300, {"expired": 300}) == (len(refused), len(set(refused)), await states(replicas[0]))
    assert (300, True) == (sum(map(sum, rounds)), max(map(max, rounds)) <= 40)


async def test_an_approval_that_somebody_holds_is_left_to_them(replicas: tuple[Replica, Replica]) -> None:
    """The duty does not wait for a decision in progress; it comes back for what is still overdue."""
    await open_some(replicas[0], 50)
    await replicas[0].execute(_OVERDUE)
    held = replicas[0].all_sent(ApprovalOpened)[0].approval_id
    async with asyncio.timeout(10), replicas[1].units.database.transaction() as connection:
        await connection.execute(_LOCK, {"id": held})
        assert await worker.expire_overdue(replicas[0].units, 200, replicas[0].signer) == 49
    assert await worker.expire_overdue(replicas[0].units, 200, replicas[0].signer) == 1


async def test_the_service_does_the_duty(replica: Replica) -> None:
    """It is wired with its batch size, and says how much it did so that it is called again at once."""
    await open_some(replica, 250)
    await replica.execute(_OVERDUE)
    duty = replica.service.duties[0]
    assert ("expire-overdue", 200, 50, 0) == (
        duty.name,
        await duty.run_once(),
        await duty.run_once(),
        await duty.run_once(),
    )


async def fill(replica: Replica) -> None:
    """Let very many approvals wait, as PostgreSQL's planner sees it."""
    await replica.send(a_request())
    await replica.execute(_COPIES)
    await replica.execute("ANALYZE approval.approvals")


async def test_the_duty_looks_only_at_what_is_due(replica: Replica) -> None:
    """However many approvals wait, the index of deadlines answers."""
    await fill(replica)
    rows = await replica.rows(f"EXPLAIN {QUERIES.expire.source.replace(':most', '200')}")
    plan = "\n".join(row["QUERY PLAN"] for row in rows)
    assert ("ix_approvals_due" in plan, "Seq Scan" in plan) == (True, False)
