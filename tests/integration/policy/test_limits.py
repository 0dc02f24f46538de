"""Limits on real PostgreSQL: what is counted, what comes back, and that no crowd of calls gets past them.

`PLACET_TEST_RACE_ROUNDS` makes the races longer.
"""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any, get_args

import pytest
from structlog.testing import capture_logs

from placet.contracts.messages import ApprovalRequested, ToolCallFinished, ToolCallPermitted, ToolCallProposed
from placet.contracts.messages.message import ResultKind
from placet.contracts.topology import ROUTES, queue
from placet.policy.rules import Rulebook
from tests.support.house import Replica
from tests.support.policy_builders import a_failure, a_proposal, a_refusal, kinds
from tests.support.races import LONG_ENOUGH, ROUNDS

pytestmark = LONG_ENOUGH
Replicas = tuple[Replica, Replica]
#: Kinds of ends that leave no effect behind, in words of their own: what policy takes for such ends is tested by these.
DID_NOT_RUN = ("answered", "cancelled", "denied", "expired", "failed", "invalid", "refused", "superseded")
PERMITTED, HELD = "ToolCallPermitted", "ApprovalRequested"


def a_payment(rulebook: Rulebook, amount: float, **changes: Any) -> ToolCallProposed:
    """Return the proposal to pay something."""
    return a_proposal(rulebook, "pay", arguments={"amount": amount, "to": "bob"}, **changes)


async def verdict_of(replica: Replica, proposed: ToolCallProposed) -> tuple[str, str]:
    """Return effect and rule of a call's verdict as it is stored."""
    statement = "SELECT effect, rule FROM policy.verdicts WHERE call_id = :call_id"
    row = (await replica.rows(statement, call_id=proposed.call.call_id))[0]
    return row["effect"], row["rule"]


async def used(replica: Replica, measure: str = "sum:amount") -> Decimal:
    """Return what all counters of a measure have in use."""
    statement = (
        "SELECT coalesce(sum(amount), 0) AS used FROM policy.reservations JOIN policy.counters USING (counter_id)"
        " WHERE measure = :measure AND released_at IS NULL"
    )
    found: Decimal = (await replica.rows(statement, measure=measure))[0]["used"]
    return found


async def test_a_rule_decides_until_its_limit_has_no_room(limited_replica: Replica, limited: Rulebook) -> None:
    """The sum is exact to the last unit; what does not fit goes on to the next rule."""
    proposals = [a_payment(limited, amount) for amount in (300, 150.5, 50, 49.5, 0.01)]
    sent = [kinds(await limited_replica.send(proposed)) for proposed in proposals]
    assert [[PERMITTED], [PERMITTED], [HELD], [PERMITTED], [HELD]] == sent
    assert (("allow", "small"), ("require_approval", "payments")) == (
        await verdict_of(limited_replica, proposals[0]),
        await verdict_of(limited_replica, proposals[2]),
    )
    assert Decimal("500.0") == await used(limited_replica)


async def test_a_rule_that_was_passed_over_is_named_in_the_history(limited_replica: Replica, limited: Rulebook) -> None:
    """Whoever wonders why a call was held finds the limit that had no room."""
    proposed = a_payment(limited, 501)
    await limited_replica.send(proposed)
    rows = await limited_replica.rows("SELECT machine, subject_id, event, call_id, detail FROM policy.history")
    limits = ["sum:amount <= 500 per tenant in 86400 s", "count <= 20 per conversation in 3600 s"]
    expected = {"machine": "limit", "subject_id": "small", "event": "exhausted", "call_id": proposed.call.call_id}
    assert [{**expected, "detail": {"limits": limits}}] == rows


async def test_sums_of_decimals_are_exact(limited_replica: Replica, limited: Rulebook) -> None:
    """Ten times 0.1 are 1, not a little less: the last cent of a limit can be used, and not one more."""
    await limited_replica.send(a_payment(limited, 499))
    tenths = [a_payment(limited, 0.1) for _ in range(11)]
    assert [*[PERMITTED] * 10, HELD] == kinds(await limited_replica.send(*tenths))
    assert Decimal(500) == await used(limited_replica)


async def test_every_limit_of_a_rule_must_have_room(limited_replica: Replica, limited: Rulebook) -> None:
    """Twenty calls an hour per conversation: the next one is held there and runs elsewhere, and took nothing."""
    sent = [kinds(await limited_replica.send(*[a_payment(limited, 1) for _ in range(21)]))]
    sent.append(kinds(await limited_replica.send(a_payment(limited, 1, conversation_id="conversation-2"))))
    assert [[*[PERMITTED] * 20, HELD], [PERMITTED]] == sent
    assert (Decimal(21), Decimal(21)) == (await used(limited_replica), await used(limited_replica, "count"))


async def test_tenants_count_apart(limited_replica: Replica, limited: Rulebook) -> None:
    """One tenant's spending leaves another's limit alone."""
    tenants = ("acme", "rival")
    sent = [kinds(await limited_replica.send(a_payment(limited, 500, tenant=tenant))) for tenant in tenants]
    assert [[PERMITTED], [PERMITTED]] == sent


@pytest.mark.parametrize("arguments", [{}, {"amount": "1"}, {"amount": True}, {"amount": -400}, {"amount": None}])
async def test_an_amount_that_cannot_be_counted_holds_the_call(
    limited_replica: Replica, limited: Rulebook, arguments: dict[str, Any]
) -> None:
    """No number, or one that would make room for other calls: people decide, and nothing is reserved."""
    proposed = a_proposal(limited, "pay", arguments=arguments)
    held = (await limited_replica.send(proposed))[0]
    assert isinstance(held, ApprovalRequested)
    assert ("small", Decimal(0)) == (held.rule, await used(limited_replica))


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        *[(kind, 0) for kind in DID_NOT_RUN],
        *[(kind, 500) for kind in get_args(ResultKind) if kind not in DID_NOT_RUN],
    ],
)
async def test_what_a_call_that_did_not_run_had_reserved_comes_back(
    limited_replica: Replica, limited: Rulebook, kind: str, left: int
) -> None:
    """Ends that leave no effect behind give the amount back, once; what may have had an effect stays counted."""
    proposed = a_payment(limited, 500)
    await limited_replica.send(proposed)
    for _ in range(2):
        await limited_replica.send(a_refusal(proposed.call, kind))
    assert Decimal(left) == await used(limited_replica)
    assert [PERMITTED if left == 0 else HELD] == kinds(await limited_replica.send(a_payment(limited, 500)))


async def test_a_call_that_ran_stays_counted(limited_replica: Replica, limited: Rulebook) -> None:
    """Policy does not even listen to the end of what ran: it may have had an effect, also where it failed.

    It hears of calls that did not run, of those about which a person found that out, of staged ones that never will.
    """
    wanted = [each.key for each in queue("policy.tool-results").bindings]
    assert ["tool-call.refused", "tool-call.resolved", "workspace.calls-dropped"] == wanted
    assert {"tool-call.finished"} == {ROUTES[ToolCallFinished].key(None)}
    proposed = a_payment(limited, 500)
    await limited_replica.send(proposed)
    await limited_replica.send(a_failure(proposed.call))
    assert Decimal(500) == await used(limited_replica)


async def test_another_tenants_refusal_gives_nothing_back(limited_replica: Replica, limited: Rulebook) -> None:
    """Knowing a call's id is not enough to make room in its tenant's limits."""
    proposed = a_payment(limited, 500)
    await limited_replica.send(proposed)
    await limited_replica.send(a_refusal(proposed.call).model_copy(update={"tenant": "rival"}))
    assert Decimal(500) == await used(limited_replica)


async def test_what_is_older_than_the_window_counts_no_more(limited_replica: Replica, limited: Rulebook) -> None:
    """The window slides by the database's clock: a call of a day ago makes room, one of a little less does not."""
    await limited_replica.send(a_payment(limited, 300), a_payment(limited, 200))
    older = "UPDATE policy.reservations SET reserved_at = reserved_at - interval '{}' WHERE amount = {}"
    await limited_replica.execute(older.format("24 hours", 300))
    await limited_replica.execute(older.format("23 hours 50 minutes", 200))
    sent = kinds(await limited_replica.send(a_payment(limited, 300), a_payment(limited, 0.01)))
    assert [PERMITTED, HELD] == sent


async def test_a_second_proposal_reserves_nothing(limited_replica: Replica, limited: Rulebook) -> None:
    """The same call again, in a new event, is answered with silence and costs nothing."""
    proposed = a_payment(limited, 100)
    await limited_replica.send(proposed, proposed)
    assert [] == await limited_replica.send(proposed)
    assert Decimal(100) == await used(limited_replica)


async def test_conditions_may_ask_for_earlier_calls(limited_replica: Replica, limited: Rulebook) -> None:
    """`history.calls_last_day` counts this conversation's calls of the tool: three run, the fourth is refused."""
    sent = [kinds(await limited_replica.send(a_proposal(limited, "look", arguments={}))) for _ in range(4)]
    elsewhere = a_proposal(limited, "look", arguments={}, conversation_id="conversation-2")
    assert [*[[PERMITTED]] * 3, ["ToolCallRefused"]] == sent
    assert [PERMITTED] == kinds(await limited_replica.send(elsewhere))


async def some_tenants(replica: Replica, rulebook: Rulebook, spent: float, number: int) -> list[str]:
    """Return tenants that have spent so much of their 500 already."""
    tenants = [f"tenant-{turn}" for turn in range(number)]
    proposals = [a_payment(rulebook, spent, tenant=tenant, conversation_id="before") for tenant in tenants]
    for start in range(0, number, 50):
        await replica.send(*proposals[start : start + 50])
    return tenants


async def split(replicas: Replicas, *envelopes: list[ToolCallProposed]) -> list[str]:
    """Send envelopes at the same moment, through both replicas in turn; return what follows, in the order of names."""
    await asyncio.gather(*(replicas[turn % 2].send(*each) for turn, each in enumerate(envelopes)))
    for replica in replicas:
        await replica.settle()
    assert [[], []] == [replica.dead for replica in replicas]
    wanted = {proposed.call.call_id for envelope in envelopes for proposed in envelope}
    answers: list[ToolCallPermitted | ApprovalRequested] = []
    for replica in replicas:
        answers += [*replica.all_sent(ToolCallPermitted), *replica.all_sent(ApprovalRequested)]
    return sorted(type(each).__name__ for each in answers if each.call.call_id in wanted)


async def test_two_calls_at_once_share_the_last_room(limited_replicas: Replicas, limited: Rulebook) -> None:
    """There is room for one of two: one of them runs, the other is held, whoever is first."""
    for tenant in await some_tenants(limited_replicas[0], limited, 100, ROUNDS):
        pair = [[a_payment(limited, 300, tenant=tenant, conversation_id=name)] for name in ("one", "two")]
        assert [HELD, PERMITTED] == await split(limited_replicas, *pair)


async def test_a_crowd_of_small_payments_does_not_slip_through(limited_replicas: Replicas, limited: Rulebook) -> None:
    """T18: a hundred times 49 at once through two replicas: exactly ten fit below 500, every other call is held."""
    for tenant in await some_tenants(limited_replicas[0], limited, 0, max(1, ROUNDS // 100)):
        crowd = [a_payment(limited, 49, tenant=tenant, conversation_id=f"conversation-{n}") for n in range(100)]
        assert [HELD] * 90 + [PERMITTED] * 10 == await split(limited_replicas, *([each] for each in crowd))


async def test_envelopes_that_lock_in_other_orders_stay_exact(limited_replicas: Replicas, limited: Rulebook) -> None:
    """Two counters, locked the other way round elsewhere: nothing is miscounted and nothing lost."""
    tenants = await some_tenants(limited_replicas[0], limited, 100, max(2, ROUNDS // 10))
    for pair in zip(tenants[::2], tenants[1::2], strict=False):
        there, back = ([a_payment(limited, 300, tenant=tenant) for tenant in order] for order in (pair, pair[::-1]))
        assert [HELD, HELD, PERMITTED, PERMITTED] == await split(limited_replicas, there, back)


async def test_envelopes_that_make_the_same_counters_never_lock_in_a_circle(
    limited_replicas: Replicas, limited: Rulebook
) -> None:
    """Two new counters, made the other way round elsewhere: one envelope lets go at once, and nothing is miscounted."""
    with capture_logs() as logs:
        for turn in range(max(2, ROUNDS // 2)):
            pair = (f"new-{turn}", f"newer-{turn}")
            there, back = ([a_payment(limited, 300, tenant=tenant) for tenant in order] for order in (pair, pair[::-1]))
            assert [HELD, HELD, PERMITTED, PERMITTED] == await split(limited_replicas, there, back)
    errors = {line["error"] for line in logs if line["event"] == "envelope.falls_back"}
    assert "DeadlockDetected" not in errors


async def test_what_no_window_can_count_any_more_is_forgotten_once(
    limited_replicas: Replicas, limited: Rulebook
) -> None:
    """Two replicas purge at the same moment: what is old goes, what is young stays, and counting goes on."""
    old = [a_payment(limited, 400, tenant=f"old-{number}") for number in range(30)]
    young = a_payment(limited, 400, tenant="young")
    await limited_replicas[0].send(*old, young)
    for table, column in (("reservations", "reserved_at"), ("counters", "touched_at")):
        age = f"UPDATE policy.{table} SET {column} = {column} - interval '1000 days' WHERE tenant != 'young'"  # noqa: S608  # both are names of this test
        await limited_replicas[0].execute(age)
    purges = [next(duty for duty in each.service.duties if duty.name == "purge") for each in limited_replicas]
    await asyncio.gather(*(purge.run_once() for purge in purges))
    await purges[0].run_once()
    assert [{"tenant": "young"}] == await limited_replicas[0].rows("SELECT DISTINCT tenant FROM policy.reservations")
    assert [{"tenant": "young"}] == await limited_replicas[0].rows("SELECT DISTINCT tenant FROM policy.counters")
    again = [a_payment(limited, 400, tenant=tenant, conversation_id="again") for tenant in ("old-1", "young")]
    assert [PERMITTED, HELD] == kinds(await limited_replicas[1].send(*again))


async def test_refusals_and_proposals_at_once_stay_exact(limited_replicas: Replicas, limited: Rulebook) -> None:
    """What comes back while others ask is used again, and the limit is never passed."""
    for turn in range(max(1, ROUNDS // 20)):
        tenant = f"tenant-{turn}"
        first = [a_payment(limited, 100, tenant=tenant) for _ in range(5)]
        await limited_replicas[0].send(*first)
        more = [[a_payment(limited, 100, tenant=tenant, conversation_id="other")] for _ in range(10)]
        refusals = [limited_replicas[1].send(a_refusal(proposed.call)) for proposed in first]
        splitting = asyncio.ensure_future(split(limited_replicas, *more))
        await asyncio.gather(splitting, *refusals)
        last = [a_payment(limited, 100, tenant=tenant, conversation_id="last") for _ in range(6)]
        rest = kinds(await limited_replicas[0].send(*last))
        assert 5 == splitting.result().count(PERMITTED) + rest.count(PERMITTED)
