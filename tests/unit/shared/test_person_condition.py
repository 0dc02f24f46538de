"""Conditions on who may decide: what they see of the call."""

from __future__ import annotations

import pytest

from placet.domain.deciders import Voter
from placet.domain.directory import Directory
from placet.domain.person_condition import PersonFacts, compile_person_condition, facts_of
from tests.builders import a_call


@pytest.mark.parametrize("amount", [49, 49.5])
@pytest.mark.parametrize("text", ["call.arguments.amount * 2.0 < 100.0", "call.arguments.amount < 50"])
def test_every_number_is_a_double(text: str, amount: float) -> None:
    """49 and 49.5 are the same kind of number in JSON, so a condition must not tell them apart."""
    call = a_call(arguments={"amount": amount, "sure": True})
    assert compile_person_condition(text).holds(PersonFacts("person:ada"), call)


@pytest.mark.parametrize(
    ("voter", "requester", "is_own"),
    [
        (Voter("v77", ("requester",), "conversation_token", "c"), "v77", True),
        (Voter("visitor:c", ("requester",), "conversation_token", "c"), "visitor:c", True),
        (Voter("person:ada", (), "api_key"), "person:ada", True),
        (Voter("person:ada", (), "api_key"), "ada", False),
    ],
)
def test_people_and_requesters_are_called_the_same(voter: Voter, requester: str, *, is_own: bool) -> None:
    """A condition may compare who decides with who asked."""
    found = facts_of(voter.identity, Directory())
    assert is_own == compile_person_condition("person.id == call.requester").holds(found, a_call(requester=requester))


def test_what_is_no_number_stays_as_it_is() -> None:
    """Texts, truths, lists and objects of the arguments."""
    call = a_call(arguments={"sure": True, "tags": ["a", 2], "order": {"total": 3}})
    text = 'call.arguments.sure && call.arguments.tags[0] == "a" && call.arguments.order.total + 1.0 == 4.0'
    assert compile_person_condition(text).holds(PersonFacts("person:ada"), call)
