"""Whom an approval names by now: what an inbox is found by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.contracts.messages import Demand, Escalation, Panel
from placet.domain import deciders
from placet.domain.deciders import Delegation, Voter
from placet.domain.directory import Directory, Person
from tests.builders import an_approval_rule
from tests.support.approval_builders import Counted, a_directory, an_approval

RULE = an_approval_rule(
    approvers=["group:finance", "operators"],
    alternatives=[Panel(approvers=["person:carl", "operators"])],
    veto=["group:security"],
    escalations=[Escalation(after_seconds=60, approvers=["group:leads"])],
    reminders_after_seconds=[30],
)
NAMED = ("group:finance", "group:security", "operators", "person:carl")


def test_an_approval_names_approvers_of_every_panel_and_vetoers_once() -> None:
    """Sorted, so that equal sets are equal; whom an escalation will ask is not named before."""
    assert NAMED == deciders.named(an_approval(approval_rule=RULE, steps_done=1))


def test_an_escalation_that_was_done_names_more() -> None:
    """From then on it waits for them too."""
    assert tuple(sorted((*NAMED, "group:leads"))) == deciders.named(an_approval(approval_rule=RULE, steps_done=2))


def test_who_was_given_a_place_is_named() -> None:
    """A delegate finds it in their inbox."""
    place = Delegation(Voter("person:ada", (), "api_key"), "person:dora")
    assert "person:dora" in deciders.named(an_approval(approval_rule=RULE, delegations=(place,)))


NAMES = ("person:ada", "person:bob", "person:carl", "person:dora", "person:eve")
APPROVERS = st.sampled_from([*NAMES, "group:finance", "group:leads", "group:nobody", "operators"])
SOME = st.lists(APPROVERS, max_size=3)
AT_LEAST_ONE = st.lists(APPROVERS, min_size=1, max_size=2)
PROOFS = ("link", "slack", "web_session", "api_key")
CONDITIONS = (
    "",
    "'finance' in person.groups",
    "person.id != 'person:ada'",
    "call.tool == 'create_pay_link'",
    "1 / 0 > 1",
)
some_rules = st.fixed_dictionaries(
    {
        "approvers": AT_LEAST_ONE,
        "alternatives": st.lists(st.builds(Panel, approvers=AT_LEAST_ONE), max_size=1),
        "also": st.lists(
            st.builds(
                Demand,
                panels=st.lists(st.builds(Panel, approvers=AT_LEAST_ONE), min_size=1, max_size=1),
                condition=st.sampled_from(CONDITIONS),
            ),
            max_size=1,
        ),
        "veto": SOME,
        "exclude": st.lists(st.sampled_from(["requester", "agent_owner"]), unique=True),
        "escalations": st.lists(st.builds(Escalation, after_seconds=st.just(60), approvers=AT_LEAST_ONE), max_size=1),
        "condition": st.sampled_from(CONDITIONS),
        "min_strength": st.sampled_from(["link", "chat", "slack", "web"]),
    }
)
voters = st.builds(Voter, st.sampled_from(NAMES), st.sampled_from([(), ("operators",)]), st.sampled_from(PROOFS))


@given(some_rules, voters, st.integers(0, 1), st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), max_size=2))
def test_whoever_may_decide_is_let_into_the_inbox(
    terms: dict[str, Any], voter: Voter, steps_done: int, giver: str, gone: list[str]
) -> None:
    """Whole sets of approvals are passed over for who is not let in, so nobody who may deny one of them is."""
    place = Delegation(Voter(giver, (), "api_key"), voter.person)
    steps = min(steps_done, len(terms["escalations"]))
    held = an_approval(approval_rule=an_approval_rule(**terms), steps_done=steps, delegations=(place,))
    directory = a_directory(*(name.removeprefix("person:") for name in gone))
    may = deciders.may_deny(held, voter, directory) and deciders.strong_enough(held, voter.proof)
    assert not may or deciders.lets_in(held.approval_rule, deciders.named(held), held.call.agent, voter, directory)


def test_who_is_not_named_is_not_let_into_the_inbox() -> None:
    """The gate is no open door: a stranger, somebody who left, and a proof that is too weak stay outside."""
    rule = an_approval_rule(approvers=["group:finance", "operators"], min_strength="web")
    names = deciders.named(an_approval(approval_rule=rule))
    ada, carl = Voter("person:ada", (), "api_key"), Voter("person:carl", (), "api_key")
    tried = [(ada, ()), (carl, ()), (ada, ("ada",)), (Voter("person:ada", (), "slack"), ())]
    assert [True, False, False, False] == [
        deciders.lets_in(rule, names, "default", voter, a_directory(*gone)) for voter, gone in tried
    ]


def test_members_whom_nobody_lists_are_known_by_their_keys() -> None:
    """Groups need no list of people; who is listed and not active is a member no more."""
    approval = an_approval(approval_rule=an_approval_rule(approvers=["group:finance"]))
    grouped = Directory(groups={"finance": frozenset({"ada"})})
    gone = replace(grouped, people={"ada": Person("ada", active=False)})
    assert "" == deciders.undecidable(approval, grouped)
    assert "0 can" in deciders.undecidable(approval, gone)


def looked_up(count: int, condition: str) -> int:
    """Return how often people are looked up to say that a whole group is too few."""
    people = Counted({f"p{number}": Person(f"p{number}") for number in range(count)})
    directory = Directory(people=people, groups={"crowd": frozenset(people), "other": frozenset(people)})
    rule = an_approval_rule(approvers=["group:crowd"], approvals=count + 1, condition=condition)
    assert f"and {count} can" in deciders.undecidable(an_approval(approval_rule=rule), directory)
    return people.looked_up


@pytest.mark.parametrize("condition", ["", "'crowd' in person.groups"])
def test_asking_whether_a_group_can_decide_grows_as_the_group_does(condition: str) -> None:
    """Nobody is looked up once for each of the others: inboxes ask it for each row."""
    few, more, many = (looked_up(count, condition) for count in (2, 4, 8))
    assert 2 * (more - few) == many - more
