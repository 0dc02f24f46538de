"""Proposals that come together: one transaction for all, each judged as if it had come alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from placet.contracts.messages import ApprovalRequested, Message, ToolCallPermitted, ToolCallProposed, ToolCallRefused
from placet.contracts.signing import Signer
from placet.policy.rulebook import load_rulebook
from placet.policy.rules import Rulebook
from placet.policy.settings import PolicySettings
from tests.builders import an_abandonment, an_event
from tests.integration.policy.conftest import settings_with, two_replicas
from tests.support.house import Replica
from tests.support.policy_builders import LIMITED, a_grant_request, a_proposal, kinds

Replicas = tuple[Replica, Replica]
PERMITTED, HELD, REFUSED = "ToolCallPermitted", "ApprovalRequested", "ToolCallRefused"
VERDICTS = "SELECT call_id, effect, rule FROM policy.verdicts"
TAKE = sa.text(
    "INSERT INTO policy.verdicts (verdict_id, call_id, tenant, conversation_id, requester, tool, digest, schema_digest,"
    " effect, rule, reason, model_reason, rulebook_digest, judged_at)"
    " VALUES (:call_id, :call_id, 'acme', '-', '-', 'search', :digest, '-', 'deny', '-', '-', '-', '-', now())"
    " ON CONFLICT DO NOTHING"
)


@pytest.fixture(scope="session")
def plain_settings(settings: PolicySettings) -> PolicySettings:
    """Settings that name a rulebook with limits and grants whose conditions ask for no history."""
    return settings_with(settings, "plain", LIMITED.replace("when: history.calls_last_day >= 3", "when: 'false'"))


@pytest.fixture
def plain(plain_settings: PolicySettings) -> Rulebook:
    """What these replicas judge by."""
    return load_rulebook(plain_settings.rulebook)


@pytest.fixture
async def plain_replicas(policy_url: str, plain_settings: PolicySettings) -> AsyncIterator[Replicas]:
    """Two processes of policy that judge by it."""
    async with two_replicas(policy_url, plain_settings) as replicas:
        yield replicas


def call_ids(replica: Replica, kind: type[ToolCallPermitted | ApprovalRequested]) -> list[str]:
    """Return the calls that messages of a type were sent for, in their order."""
    return [message.call.call_id for message in replica.all_sent(kind)]


async def verdicts(replica: Replica) -> dict[str, tuple[str, str]]:
    """Return effect and rule by call."""
    return {row["call_id"]: (row["effect"], row["rule"]) for row in await replica.rows(VERDICTS)}


def payments(rulebook: Rulebook, *amounts: float, **changes: Any) -> list[ToolCallProposed]:
    """Return proposals to pay these amounts."""
    return [a_proposal(rulebook, "pay", arguments={"amount": amount, "to": "bob"}, **changes) for amount in amounts]


async def test_proposals_of_one_envelope_are_judged_in_one_transaction(replica: Replica, rulebook: Rulebook) -> None:
    """Each has its own verdict and its own answer, and those of a kind are sent in the order of the proposals."""
    wanted = [("search", PERMITTED), ("pay", HELD), ("erase", REFUSED), ("vanished", REFUSED), ("search", PERMITTED)]
    events = [an_event(a_proposal(rulebook, tool)) for tool, _ in wanted]
    await replica.send_events(*events)
    assert [{"count": 1}] == await replica.rows("SELECT count(DISTINCT xmin::text) FROM policy.verdicts")
    assert ["default:safe_search", "payments", "never-erase", "unknown-tool", "default:safe_search"] == [
        (await verdicts(replica))[event.message.model_dump()["call"]["call_id"]][1] for event in events
    ]
    ours = {event.id for event in events}
    answers = [event for event in replica.sent if event.id not in ours]
    assert {(event.id, event.correlation_id, kind) for event, (_, kind) in zip(events, wanted, strict=True)} == {
        (answer.causation_id, answer.correlation_id, type(answer.message).__name__) for answer in answers
    }
    assert [events[2].id, events[3].id] == [
        answer.causation_id for answer in answers if isinstance(answer.message, ToolCallRefused)
    ]
    assert len(events) == len(answers)


async def test_a_call_that_is_proposed_twice_in_an_envelope_is_answered_once(
    replica: Replica, rulebook: Rulebook
) -> None:
    """Two events with the same call have one verdict; the neighbour has its own."""
    proposed, other = (a_proposal(rulebook, "search") for _ in range(2))
    await replica.send(proposed, proposed, other)
    assert [proposed.call.call_id, other.call.call_id] == call_ids(replica, ToolCallPermitted)
    assert ([], 2) == (replica.dead, len(await verdicts(replica)))


async def test_a_call_id_with_other_contents_in_an_envelope_is_an_attack(replica: Replica, rulebook: Rulebook) -> None:
    """The first one is judged and stands, the second one is buried, and who comes behind them is judged."""
    first, last = (a_proposal(rulebook, "search") for _ in range(2))
    other = a_proposal(rulebook, "pay", call_id=first.call.call_id)
    assert [PERMITTED, PERMITTED] == kinds(await replica.send(first, other, last))
    assert [True] == ["with other contents" in reason for reason in replica.dead]
    allowed = ("allow", "default:safe_search")
    assert {first.call.call_id: allowed, last.call.call_id: allowed} == await verdicts(replica)


async def test_a_forged_proposal_among_others_is_buried_alone(replica: Replica, rulebook: Rulebook) -> None:
    """It has no verdict; those before and behind it do."""
    good = [a_proposal(rulebook, "search") for _ in range(2)]
    bad = a_proposal(rulebook, "search", digest="0" * 64)
    assert [PERMITTED, PERMITTED] == kinds(await replica.send(good[0], bad, good[1]))
    assert [True] == [reason.startswith("security:") for reason in replica.dead]
    assert {proposed.call.call_id for proposed in good} == set(await verdicts(replica))


async def test_a_second_delivery_of_some_proposals_judges_the_others_only(
    replicas: Replicas, rulebook: Rulebook
) -> None:
    """In the same event or in another one, at whichever replica."""
    proposals = [a_proposal(rulebook, "search") for _ in range(3)]
    events = [an_event(proposed) for proposed in proposals]
    await replicas[0].send_events(*events[:2])
    await replicas[1].send_events(events[0], an_event(proposals[1]), events[2])
    assert [proposals[2].call.call_id] == call_ids(replicas[1], ToolCallPermitted)
    assert 3 == len(await verdicts(replicas[0]))


async def test_a_call_that_is_given_up_among_proposals_is_not_judged(replica: Replica, rulebook: Rulebook) -> None:
    """What stands before its proposal in the envelope comes first: one result, and no permit."""
    before, given_up, behind = (a_proposal(rulebook, "search") for _ in range(3))
    abandoned = an_abandonment("policy.tool-calls", given_up.call)
    await replica.send(before, abandoned, given_up, behind)
    assert [before.call.call_id, behind.call.call_id] == call_ids(replica, ToolCallPermitted)
    assert [given_up.call.call_id] == [refused.call_id for refused in replica.all_sent(ToolCallRefused)]


async def test_calls_of_one_envelope_share_a_limit_in_their_order(plain_replicas: Replicas, plain: Rulebook) -> None:
    """Who comes first has the room; what does not fit is held, and its stored verdict says so."""
    proposals = payments(plain, 200, 301, 300, 1)
    await plain_replicas[0].send(*proposals)
    ids = [proposed.call.call_id for proposed in proposals]
    assert ids[::2] == call_ids(plain_replicas[0], ToolCallPermitted)
    assert ids[1::2] == call_ids(plain_replicas[0], ApprovalRequested)
    found = await verdicts(plain_replicas[0])
    small, held = ("allow", "small"), ("require_approval", "payments")
    assert [small, held, small, held] == [found[call_id] for call_id in ids]
    reserved = await plain_replicas[0].rows("SELECT DISTINCT call_id FROM policy.reservations")
    assert set(ids[::2]) == {row["call_id"] for row in reserved}


async def test_calls_of_one_envelope_use_up_a_grant_in_their_order(
    plain_replicas: Replicas, plain: Rulebook, approver: Signer
) -> None:
    """Three uses let the first three through, and the fourth is held."""
    ship = [a_proposal(plain, "ship", arguments={"amount": 100, "to": "bob"}) for _ in range(4)]
    await plain_replicas[0].send(a_grant_request(ship[0].call, approver, uses=3))
    await plain_replicas[0].send(*ship)
    assert [proposed.call.call_id for proposed in ship[:3]] == call_ids(plain_replicas[0], ToolCallPermitted)
    assert [ship[3].call.call_id] == call_ids(plain_replicas[0], ApprovalRequested)


async def test_envelopes_that_share_counters_in_other_orders_stay_exact(
    plain_replicas: Replicas, plain: Rulebook
) -> None:
    """The same tenants the other way round at two replicas at once: nobody waits for ever, and each limit holds."""
    for turn in range(20):
        tenants = [f"tenant-{turn}-{name}" for name in ("a", "b")]
        await plain_replicas[0].send(
            *(a_payment for tenant in tenants for a_payment in payments(plain, 1, tenant=tenant))
        )
        envelopes = [
            [proposed for tenant in order for proposed in payments(plain, 300, tenant=tenant)]
            for order in (tenants, tenants[::-1])
        ]
        pairs = zip(plain_replicas, envelopes, strict=True)
        await asyncio.gather(*(replica.send(*envelope) for replica, envelope in pairs))
    for replica in plain_replicas:
        await replica.settle()
        assert [] == replica.dead
    effects = "SELECT effect, count(*) FROM policy.verdicts GROUP BY effect ORDER BY effect"
    assert [("allow", 80), ("require_approval", 40)] == [
        (row["effect"], row["count"]) for row in await plain_replicas[0].rows(effects)
    ]


@pytest.mark.parametrize("how", ["next", "after-another-message", "given-up"])
async def test_no_verdict_is_waited_for_while_a_counter_is_held(
    limited_replicas: Replicas, limited: Rulebook, how: str
) -> None:
    """Whoever has the verdict may want the counter. The next call of an envelope falls back rather than wait for it.

    What follows another message is a transaction of its own. Conditions that ask for history have each call judged by
    itself.
    """
    before, first, second = payments(limited, 1, 2, 3)
    await limited_replicas[0].send(before)
    with capture_logs() as logs:
        async with limited_replicas[1].units.database.transaction() as connection:
            await connection.execute(TAKE, {"call_id": second.call.call_id, "digest": second.call.digest})
            other = an_abandonment("policy.tool-calls", a_proposal(limited, "look").call)
            given_up = an_abandonment("policy.tool-calls", second.call)
            behind: dict[str, list[Message]] = {
                "next": [second],
                "after-another-message": [other, second],
                "given-up": [given_up],
            }
            sending = asyncio.ensure_future(limited_replicas[0].send(first, *behind[how]))
            await limited_replicas[1].until_waiting(1)
            await connection.execute(sa.text("SELECT counter_id FROM policy.counters FOR UPDATE"))
        assert (PERMITTED, []) == (kinds(await sending)[0], limited_replicas[0].dead)
    expected = ["LockNotAvailableError"] if how == "next" else []
    assert expected == [line["error"] for line in logs if line["event"] == "envelope.falls_back"]


async def test_verdicts_are_stored_in_one_order(replicas: Replicas, rulebook: Rulebook) -> None:
    """Proposals that wait for the first call hold no later one, so two envelopes cannot lock each other out."""
    first, second = sorted((a_proposal(rulebook, "search") for _ in range(2)), key=lambda each: each.call.call_id)
    async with replicas[1].units.database.transaction() as connection:
        await connection.execute(TAKE, {"call_id": first.call.call_id, "digest": first.call.digest})
        sending = asyncio.ensure_future(replicas[0].send(second, first))
        await replicas[1].until_waiting(1)
        await connection.execute(TAKE, {"call_id": second.call.call_id, "digest": second.call.digest})
    assert ([], []) == (await sending, replicas[0].dead)
