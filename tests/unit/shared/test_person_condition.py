"""Conditions on who may decide: what they see of the call."""

from __future__ import annotations

from typing import Any

import pytest

from placet.contracts.canonical import parse_arguments
from placet.contracts.ids import new_id
from placet.domain import person_condition
from placet.domain.cel import ConditionFailed
from placet.domain.deciders import Voter
from placet.domain.directory import Directory
from placet.domain.person_condition import PersonFacts, compile_person_condition, facts_of
from tests.builders import a_call


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Arguments that were parsed for a condition, in order."""
    found: list[str] = []

    def reading(arguments: str) -> dict[str, Any]:
        found.append(arguments)
        return parse_arguments(arguments)

    monkeypatch.setattr(person_condition, "parse_arguments", reading)
    return found


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


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ('person.attributes.level == "senior"', 0),
        ('call.tool == "pay" || person.name == "call.arguments"', 0),
        ("person.groups.exists(call, call == person.id)", 0),
        ("call.arguments.amount < 50", 1),
        ("has(call.arguments.amount)", 1),
        ('person.id == "person:p0" || .call . arguments["amount"] == 49', 1),
    ],
)
def test_arguments_are_read_where_a_condition_looks_at_them_and_once_for_many_people(
    text: str, times: int, read: list[str]
) -> None:
    """An agent chooses them, as long as it likes, and everybody of a group is asked."""
    condition, call = compile_person_condition(text), a_call(arguments={"amount": 49, "order": new_id()})
    for number in range(60):
        condition.holds(PersonFacts(f"person:p{number}", attributes={"level": "junior"}), call)
    assert times == len(read)


@pytest.mark.parametrize("arguments", ["{", "[]", ""])
def test_arguments_that_are_none_matter_to_who_looks_at_them(arguments: str) -> None:
    """A condition on people has its answer without them; one on them has none, so it lets nobody decide."""
    ada, call = PersonFacts("person:ada"), a_call(arguments=arguments)
    assert compile_person_condition('person.id == "person:ada"').holds(ada, call)
    with pytest.raises(ConditionFailed):
        compile_person_condition("call.arguments.amount < 50").holds(ada, call)


def test_a_call_is_weighed_with_its_arguments() -> None:
    """Whoever is asked: what would take too long for arguments of this size has no answer."""
    condition = compile_person_condition("call.arguments.a.map(each, each).size() > 0")
    call = a_call(arguments={"a": [1] * 9_999})
    for person in ("person:ada", "person:bob"):
        with pytest.raises(ConditionFailed, match="too large for the condition"):
            condition.holds(PersonFacts(person), call)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("person.attributes.amount == person.id", set()),
        ("call.arguments.a.b < 5.0 && has(call.arguments.c)", {"a", "c"}),
        ('.call . arguments["a"][call.arguments.b] == 1', {"a", "b"}),
        ("[1, 2].exists(each, call.arguments.a.exists(a, a == call.arguments.b[each]))", {"a", "b"}),
        ("call.arguments[person.id] == 1", None),
        ("call.arguments.a == 1 && 'b' in call.arguments", None),
        ("call.arguments.a == 1 && size(call.arguments) == 1", None),
        ("[call.arguments][0].a == 1", None),
        ("call.arguments.exists(name, call.arguments[name] == 1)", None),
        ("{'a': call.arguments}.a.b == 1", None),
        ("call.labels == call.arguments", None),
    ],
)
def test_a_condition_is_known_by_the_arguments_that_it_looks_at(text: str, names: set[str] | None) -> None:
    """Whatever way leads to them; where it is not sure, all are looked at."""
    assert names == compile_person_condition(text).arguments


def test_an_argument_that_a_condition_does_not_look_at_makes_it_no_dearer() -> None:
    """An agent may write it as long as it likes, and the condition has its answer."""
    condition = compile_person_condition("call.arguments.a.map(each, each).size() > 0")
    assert condition.holds(PersonFacts("person:ada"), a_call(arguments={"a": [1], "b": [1] * 9_999}))


def test_conditions_on_several_arguments_share_what_was_read(read: list[str]) -> None:
    """A rule may have several conditions, each on arguments of its own."""
    call = a_call(arguments={"a": 1, "b": 2, "order": new_id()})
    for text in ("call.arguments.a == 1", "call.arguments.b == 2", "size(call.arguments) == 3"):
        assert compile_person_condition(text).holds(PersonFacts("person:ada"), call)
    assert 1 == len(read)
