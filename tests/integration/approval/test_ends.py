"""The news that an approval is over says how each person voted, in every ending."""

from __future__ import annotations

from typing import Any

from placet.approval import worker
from placet.contracts.messages import ApprovalClosed, ApprovalOpened, CallsWithdrawn
from placet.contracts.signing import Signer
from tests.builders import an_approval_rule
from tests.support.approval_builders import a_decision, a_request, claims_of
from tests.support.house import Replica

THREE: dict[str, Any] = {"approvers": ["group:finance"], "approvals": 3, "denials": 2}


async def voted_on(replica: Replica, gateway: Signer, **votes: str) -> ApprovalOpened:
    """Have a call held that three must approve, and people vote on it; return its card."""
    (card,) = await replica.send(a_request(approval=an_approval_rule(**THREE)))
    assert isinstance(card, ApprovalOpened)
    for name, verb in votes.items():
        await replica.send(a_decision(gateway, claims_of(card, name, verb)))
    return card


def told(replica: Replica) -> list[list[tuple[str, str]]]:
    """Return the votes that each end told of."""
    return [[(each.person, each.verb) for each in end.votes] for end in replica.all_sent(ApprovalClosed)]


async def test_a_decided_approval_tells_every_vote(replica: Replica, gateway: Signer) -> None:
    """The deciding one is among them; of a changed mind the last word counts."""
    card = await voted_on(replica, gateway, ada="approve", bob="approve")
    await replica.send(a_decision(gateway, claims_of(card, "ada", "deny")))
    await replica.send(a_decision(gateway, claims_of(card, "bob", "deny")))
    assert [sorted([("person:ada", "deny"), ("person:bob", "deny")])] == [sorted(each) for each in told(replica)]


async def test_what_runs_out_of_time_tells_the_votes_that_did_not_suffice(replica: Replica, gateway: Signer) -> None:
    """Nobody decided, and one had voted."""
    await voted_on(replica, gateway, ada="approve")
    await replica.execute("UPDATE approval.approvals SET expires_at = clock_timestamp() - interval '1 second'")
    await worker.expire_overdue(replica.units, 10, replica.signer)
    await replica.settle()
    assert [[("person:ada", "approve")]] == told(replica)


async def test_an_end_tells_no_vote_of_a_place_that_its_owner_filled(replica: Replica, gateway: Signer) -> None:
    """Dora voted for ada, and then ada did: one place, and one vote."""
    card = await voted_on(replica, gateway)
    for name, verb in (("ada", "delegate"), ("dora", "deny"), ("ada", "approve"), ("bob", "deny"), ("carl", "deny")):
        to = {"to": "person:dora"} if verb == "delegate" else {}
        await replica.send(a_decision(gateway, claims_of(card, name, verb, **to)))
    await replica.execute("UPDATE approval.approvals SET expires_at = clock_timestamp() - interval '1 second'")
    await worker.expire_overdue(replica.units, 10, replica.signer)
    await replica.settle()
    assert [sorted([("person:ada", "approve"), ("person:bob", "deny")])] == [sorted(each) for each in told(replica)]


async def test_what_is_withdrawn_tells_the_votes_that_came_before(replica: Replica, gateway: Signer) -> None:
    """The conversation wants it no more, and one had voted."""
    card = await voted_on(replica, gateway, ada="deny")
    call = card.call
    await replica.send(
        CallsWithdrawn(
            tenant=call.tenant,
            conversation_id=call.conversation_id,
            call_ids=[call.call_id],
            kind="cancelled",
            reason="Nobody wants it any more.",
        )
    )
    assert [[("person:ada", "deny")]] == told(replica)
