"""Races on real PostgreSQL, two replicas at a time: whoever is first counts, and every call ends exactly once.

`PLACET_TEST_RACE_ROUNDS` makes them longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import sqlalchemy as sa

from placet.approval import handlers, worker
from placet.approval.quota import Quota
from placet.contracts.messages import ApprovalOpened, ShownCall, ToolCallPermitted, ToolCallRefused
from placet.contracts.signing import Signer, Verifier
from placet.domain.directory import Directory
from tests.support.approval_builders import a_decision, a_request, a_withdrawal, some_claims
from tests.support.approval_races import (
    Replicas,
    answer_in,
    at_once,
    at_once_or_in_turn,
    end_states,
    some_cards,
)
from tests.support.house import Replica
from tests.support.races import LONG_ENOUGH, ROUNDS

pytestmark = LONG_ENOUGH

T = TypeVar("T")

_DEADLINE = (
    "UPDATE approval.approvals SET expires_at = clock_timestamp() + :wait * interval '1 ms' WHERE approval_id = :id"
)
_LOCK = sa.text("SELECT expires_at FROM approval.approvals WHERE approval_id = :id FOR UPDATE")
_UNTIL = sa.text("SELECT pg_sleep_until(CAST(:moment AS timestamptz) + :jitter * interval '1 ms')")
#: What one would write without knowing better: PostgreSQL reads this clock before it waits for the lock.
_NAIVE = sa.text(
    "UPDATE approval.approvals SET state = 'approved', decided_by = 'naive', closed_at = created_at"
    " WHERE approval_id = :id AND state = 'pending' AND expires_at > clock_timestamp() RETURNING approval_id"
)


async def expire_until_closed(replica: Replica, approval_id: str) -> None:
    """Do the expiry duty again and again until the approval is over."""
    state = "SELECT state FROM approval.approvals WHERE approval_id = :id"
    while [{"state": "pending"}] == await replica.rows(state, id=approval_id):
        await worker.expire_overdue(replica.units, 200, replica.signer)


async def test_two_approvals_at_once_permit_once(replicas: Replicas, gateway: Signer) -> None:
    """One of two people decides; the other is told who did."""
    for card in await some_cards(replicas[0], ROUNDS):
        ada, bob = (a_decision(gateway, some_claims(card, person=f"person:{who}")) for who in ("ada", "bob"))
        sent = await at_once(partial(replicas[0].send, ada), partial(replicas[1].send, bob))
        answers = [answer_in(each) for each in sent]
        assert ["accepted", "already_decided"] == sorted(answer.outcome for answer in answers)
        assert answers[0].decided_by == answers[1].decided_by
    assert {"approved"} == set((await end_states(replicas)).values())


async def test_an_approval_and_a_denial_at_once_have_one_winner(replicas: Replicas, gateway: Signer) -> None:
    """Sometimes the yes is first and sometimes the no; the call is permitted or refused, never both."""
    for turn, card in enumerate(await some_cards(replicas[0], ROUNDS)):
        yes, no = (a_decision(gateway, some_claims(card, verb=verb)) for verb in ("approve", "deny"))
        sent = await at_once_or_in_turn(turn, partial(replicas[0].send, yes), partial(replicas[1].send, no))
        assert ["accepted", "already_decided"] == sorted(answer_in(each).outcome for each in sent)
    assert {"approved", "denied"} == set((await end_states(replicas)).values())


async def test_a_decision_and_the_deadline_at_once_have_one_winner(replicas: Replicas, gateway: Signer) -> None:
    """Whoever wins, the person hears the truth, and nothing is approved at or after its deadline."""
    wait = 8.0
    for card in await some_cards(replicas[0], ROUNDS):
        decision = a_decision(gateway, some_claims(card))
        await replicas[0].execute(_DEADLINE, wait=wait, id=card.approval_id)
        sent, _ = await at_once(
            partial(replicas[0].send, decision), partial(expire_until_closed, replicas[1], card.approval_id)
        )
        answer = answer_in(sent)
        assert (answer.outcome, answer.state) in {("accepted", "approved"), ("already_decided", "expired")}
        # Next time the other side gets the better chance, so that both win now and then.
        wait = min(max(wait * (0.8 if answer.outcome == "accepted" else 1.25), 0.5), 100.0)
    assert {"approved", "expired"} == set((await end_states(replicas)).values())


async def hold_past(replica: Replica, card: ApprovalOpened, jitter: int, begin: Callable[[], Awaitable[T]]) -> T:
    """Lock an approval's row, let somebody wait for it, let go `jitter` ms after its deadline; return their result."""
    async with replica.units.database.transaction() as connection:
        deadline = (await connection.execute(_LOCK, {"id": card.approval_id})).scalar_one()
        waiting = asyncio.ensure_future(begin())
        await replica.until_waiting(1)
        in_time = "SELECT expires_at > clock_timestamp() AS yes FROM approval.approvals WHERE approval_id = :id"
        came_in_time = await replica.rows(in_time, id=card.approval_id)
        await connection.execute(_UNTIL, {"moment": deadline, "jitter": jitter})
    result = await waiting
    assert jitter < 0 or came_in_time == [{"yes": True}], "this machine is too slow for the deadline of this test"
    return result


async def test_a_decision_that_waits_for_a_lock_is_judged_when_it_has_it(replicas: Replicas, gateway: Signer) -> None:
    """The row is let go just before its deadline or just after: what is late by then has expired."""
    for turn, card in enumerate(await some_cards(replicas[0], ROUNDS // 4)):
        decision = a_decision(gateway, some_claims(card))
        await replicas[0].execute(_DEADLINE, wait=300, id=card.approval_id)
        late = turn % 2
        sent = await hold_past(replicas[1], card, 1 if late else -50, partial(replicas[0].send, decision))
        answer = answer_in(sent)
        assert (answer.outcome, answer.state) in {("accepted", "approved"), ("already_decided", "expired")}
        assert not (late and answer.outcome == "accepted")
    assert {"approved", "expired"} == set((await end_states(replicas)).values())


async def test_a_deadline_that_passes_during_the_wait_for_a_lock_counts(replicas: Replicas, gateway: Signer) -> None:
    """The measured trap: another transaction only locked the row; the decision came in time and got it too late."""
    card = (await some_cards(replicas[0], 1))[0]
    await replicas[0].execute(_DEADLINE, wait=1_000, id=card.approval_id)
    decide = partial(replicas[0].send, a_decision(gateway, some_claims(card)))
    answer = answer_in(await hold_past(replicas[1], card, 1, decide))
    assert ("already_decided", "expired", "") == (answer.outcome, answer.state, answer.decided_by)
    assert [] == replicas[0].all_sent(ToolCallPermitted)
    assert ["expired"] == [refused.kind for refused in replicas[0].all_sent(ToolCallRefused)]


async def test_one_statement_that_waits_for_a_lock_approves_too_late(replicas: Replicas) -> None:
    """The control: in the very same wait a single UPDATE with its own clock approves what has expired."""
    card = (await some_cards(replicas[0], 1))[0]
    await replicas[0].execute(_DEADLINE, wait=1_000, id=card.approval_id)

    async def update() -> int:
        async with replicas[0].units.database.transaction() as connection:
            return int((await connection.execute(_NAIVE, {"id": card.approval_id})).rowcount)

    assert await hold_past(replicas[1], card, 1, update) == 1


async def test_a_withdrawal_and_a_decision_at_once_have_one_winner(replicas: Replicas, gateway: Signer) -> None:
    """The call is permitted or superseded, and the person hears which."""
    for turn, card in enumerate(await some_cards(replicas[0], ROUNDS // 2)):
        decision, withdrawal = a_decision(gateway, some_claims(card)), a_withdrawal(card.call)
        await at_once_or_in_turn(turn, partial(replicas[0].send, decision), partial(replicas[1].send, withdrawal))
    assert {"approved", "withdrawn"} == set((await end_states(replicas)).values())


async def test_a_request_and_its_withdrawal_at_once_never_leave_a_waiting_call(replicas: Replicas) -> None:
    """Whichever is handled first, in two replicas: the call is refused once, and nobody is left with a card."""
    for turn in range(ROUNDS // 2):
        request = a_request()
        withdrawal = a_withdrawal(request.call)
        await at_once_or_in_turn(turn, partial(replicas[0].send, request), partial(replicas[1].send, withdrawal))
    assert {"withdrawn"} == set((await end_states(replicas)).values())


async def withdraw(replica: Replica, *calls: ShownCall) -> None:
    """Withdraw calls in a transaction of their own, without the shell that would try again after a deadlock."""
    deps = handlers.Deps(replica.signer, Verifier({}), Directory, replica.units, Quota(100))
    async with replica.units.begin() as work:
        await handlers.withdraw_calls(a_withdrawal(*calls), work, deps)


async def test_withdrawals_of_the_same_calls_never_lock_each_other_out(replicas: Replicas) -> None:
    """Two replicas get the same calls in opposite orders while one row is held; neither is a deadlock's victim."""
    cards = await some_cards(replicas[0], ROUNDS)
    for start in range(0, len(cards), 20):
        group = cards[start : start + 20]
        calls = [card.call for card in group]
        async with replicas[0].units.database.transaction() as connection:
            await connection.execute(_LOCK, {"id": group[len(group) // 2].approval_id})
            forth, back = partial(withdraw, replicas[0], *calls), partial(withdraw, replicas[1], *reversed(calls))
            both = asyncio.gather(forth(), back())
            await replicas[1].until_waiting(2)
        await both
    assert {"withdrawn"} == set((await end_states(replicas)).values())


async def test_the_same_decision_at_two_replicas_is_handled_once(replicas: Replicas, gateway: Signer) -> None:
    """Two gateways pass on the same decision in two events: one permit, two equal answers."""
    for card in await some_cards(replicas[0], 20):
        decision = a_decision(gateway, some_claims(card))
        sent = await at_once(*[partial(replica.send, decision) for replica in replicas])
        assert answer_in(sent[0]) == answer_in(sent[1])
    assert {"approved"} == set((await end_states(replicas)).values())
    assert [{"count": 20}] == await replicas[0].rows("SELECT count(*) FROM approval.decisions")
