"""Approvals that nobody can approve any more: said in the log and by a gauge, and never decided because of it."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from placet.approval import metrics, watching, worker
from placet.approval.watching import Watch
from placet.contracts.messages import DecisionAnswered, ToolCallPermitted, ToolCallRefused
from placet.contracts.signing import Signer
from placet.domain.directory import Directory, Person
from tests.builders import a_call
from tests.support.approval_builders import Counted, Register, a_decision, a_directory, a_request, claims_of
from tests.support.approval_races import some_cards
from tests.support.house import Replica
from tests.support.turns import turns_of_others

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


def a_staff(number: int) -> tuple[Counted, Directory]:
    """Return so many people of one group, none of them senior, and the directory that has them."""
    people = Counted({f"p{each}": Person(f"p{each}", attributes={"level": "junior"}) for each in range(number)})
    return people, Directory(people=people, groups={"staff": frozenset(people)})


SENIORS: dict[str, Any] = {
    "approvers": ["group:staff"],
    "exclude": ["requester"],
    "condition": 'person.attributes.level == "senior"',
}


async def test_nobody_is_asked_again_about_what_is_as_it_was(
    replica: Replica, register: Register, watch: Watch
) -> None:
    """Each look asks about what is new or has changed, and about everything once people and groups have."""
    people, register.directory = a_staff(5)
    asked = []
    for cards, directory in ((3, register.directory), (0, register.directory), (1, register.directory), (0, None)):
        before = people.looked_up
        await some_cards(replica, cards, **SENIORS)
        if directory is None:
            register.directory = Directory(people=people, groups={"staff": frozenset(people)}, digest="e" * 64)
        await watch.run_once()
        asked.append(people.looked_up - before)
    of_one = asked[2]
    assert of_one > 0
    assert [3 * of_one, 0, of_one, 4 * of_one] == asked


async def test_a_look_that_asked_about_many_leaves_the_rest_to_the_next(
    replica: Replica, register: Register, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known stays until it is looked at again, so nothing that is found comes and goes meanwhile."""
    monkeypatch.setattr(watching, "ASKED_MAX", 1)
    _, register.directory = a_staff(3)
    await some_cards(replica, 2, **SENIORS)
    seen = [(len(await told(watch)), gauge()) for _ in range(3)]
    senior = Person("p", attributes={"level": "senior"})
    register.directory = Directory(people={"p": senior}, groups={"staff": frozenset({"p"})})
    seen += [(len(await told(watch)), gauge()) for _ in range(2)]
    assert [(1, 1), (0, 2), (0, 2), (0, 1), (0, 0)] == seen


async def test_others_have_their_turn_after_each_person_who_is_asked(
    replica: Replica, register: Register, watch: Watch
) -> None:
    """A decision waits for one condition, however large the group is."""
    people, register.directory = a_staff(20)
    await some_cards(replica, 1, **SENIORS)
    before = people.looked_up
    async with turns_of_others(lambda: people.looked_up) as seen:
        await watch.run_once()
    assert 20 == len(seen - {before})


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
