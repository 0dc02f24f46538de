"""Approvals that nobody can approve any more: said in the log and by a gauge, and never decided because of it."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from placet.approval import metrics, worker
from placet.approval.watching import Watch
from placet.contracts.messages import DecisionAnswered, ToolCallPermitted, ToolCallRefused
from placet.contracts.signing import Signer
from tests.builders import a_call
from tests.support.approval_builders import Register, a_decision, a_directory, a_request, claims_of
from tests.support.approval_races import some_cards
from tests.support.house import Replica

EMPTY = {"finance": frozenset[str](), "leads": frozenset({"carl"})}
WHY = "cannot be decided: 1 of group:finance must approve, and 0 can"


@pytest.fixture
def watch(replica: Replica, register: Register) -> Watch:
    """The duty of one replica."""
    return Watch(replica.units, register)


def gauge() -> float | None:
    """Return what a scrape would say."""
    return REGISTRY.get_sample_value("placet_approval_undecidable")


async def told(watch: Watch) -> list[tuple[str, int]]:
    """Look once; return what was logged: problem and number of approvals."""
    with capture_logs() as logs:
        await watch.run_once()
    return [(entry["problem"], entry["approvals"]) for entry in logs if entry["event"] == "approval.undecidable"]


async def test_a_group_that_became_empty_is_told_once_until_it_has_people(
    replica: Replica, register: Register, watch: Watch
) -> None:
    """Nothing is said while finance has people; then how many wait in vain, once; and again only after a change."""
    await some_cards(replica, 3, approvers=["group:finance"])
    await some_cards(replica, 2, approvers=["operators", "group:finance"])
    seen = [(await told(watch), gauge())]
    register.directory = a_directory(groups=EMPTY)
    seen += [(await told(watch), gauge()), (await told(watch), gauge())]
    register.directory = a_directory()
    seen += [(await told(watch), gauge())]
    assert [([], 0), ([(WHY, 3)], 3), ([], 3), ([], 0)] == seen


async def test_a_quorum_larger_than_its_group_is_told(replica: Replica, register: Register, watch: Watch) -> None:
    """Bob of finance is not active any more: two can not agree."""
    await some_cards(replica, 1, approvers=["group:finance"], approvals=2)
    register.directory = a_directory("bob")
    assert [("cannot be decided: 2 of group:finance must approve, and 1 can", 1)] == await told(watch)


async def test_what_depends_on_the_call_is_judged_call_by_call(
    replica: Replica, register: Register, watch: Watch
) -> None:
    """Four eyes keep ada from her own call, and she is the only one left of finance."""
    register.directory = a_directory("bob")
    for requester in ("person:ada", "visitor-1"):
        call = a_call(requester=requester)
        rule = a_request().approval.model_copy(update={"approvers": ["group:finance"], "exclude": ["requester"]})
        await replica.send(a_request(call, approval=rule))
    assert [(WHY, 1)] == await told(watch)


async def test_what_nobody_can_approve_is_never_let_through(
    replica: Replica, gateway: Signer, register: Register, watch: Watch
) -> None:
    """Who was of the group is refused, and the deadline denies: an empty approver set is not anyone."""
    (card,) = await some_cards(replica, 1, approvers=["group:finance"])
    register.directory = a_directory(groups=EMPTY)
    await watch.run_once()
    sent = await replica.send(a_decision(gateway, claims_of(card, "ada", "approve")))
    assert ["not_allowed"] == [message.outcome for message in sent if isinstance(message, DecisionAnswered)]
    await replica.execute("UPDATE approval.approvals SET expires_at = clock_timestamp()")
    await worker.expire_overdue(replica.units, 10, replica.signer)
    await replica.settle()
    assert ([], ["expired"]) == (
        replica.all_sent(ToolCallPermitted),
        [message.kind for message in replica.all_sent(ToolCallRefused)],
    )


async def test_what_waits_is_measured(replica: Replica) -> None:
    """How many wait, of all tenants, and for how long the oldest does; nothing where none waits."""
    database = replica.units.database
    await metrics.measure(database)
    seen = [(sample("placet_approvals_pending"), sample("placet_approvals_oldest_seconds"))]
    await some_cards(replica, 3)
    await replica.execute("UPDATE approval.approvals SET created_at = created_at - interval '1 hour' WHERE true")
    await some_cards(replica, 1)
    await metrics.measure(database)
    seen += [(sample("placet_approvals_pending"), sample("placet_approvals_oldest_seconds") // 60)]
    assert [(0, 0), (4, 60)] == seen


def sample(name: str) -> float:
    """Return what a scrape would say."""
    value = REGISTRY.get_sample_value(name)
    assert value is not None
    return value
