"""Trials of others than the house: their calls alone, and nobody whom they may not see."""

from __future__ import annotations

from typing import Any

import pytest

from placet.domain.directory import Directory, Person
from placet.domain.yaml_source import RulebookInvalid
from placet.policy.trial_process import NOBODY, NOT_OWN, Limits, Trial, report

TOOLS = """
tools:
  pay: {description: P., category: unsafe_api, parameters: {type: object, properties: {to: {type: string}}}}
"""
ASKS = "effect: require_approval, reason: R., approval: {approvers: [group:finance, person:bob]"
ACTIVE = f"""{TOOLS}
rules:
  - {{name: globex-pays, match: {{tool: pay, tenant: globex}}, {ASKS}}}}}
  - {{name: all-pay, match: {{tool: pay, tenant: "*"}}, {ASKS}}}}}
"""
#: A text that asks the house's directory something about ada.
SENT = f"""{TOOLS}
directory: people.yaml
rules:
  - {{name: pays, match: {{tool: pay}}, {ASKS}, condition: 'person.attributes.pay == "12"'}}}}
"""
PEOPLE = Directory(
    people={"ada": Person("ada", attributes={"pay": "12"}), "bob": Person("bob")},
    groups={"finance": frozenset({"ada"})},
)
CASE = "cases: [{name: c, call: {tool: pay%s}, expect: {effect: require_approval, rule: globex-pays}}]"


def tried(kind: Any, tenant: str, **what: Any) -> Any:
    """Return the report of a trial against the active rulebook, asked for in a tenant; empty: the house's."""
    texts = {"active": ACTIVE, "rulebook": "", "cases": "", "call": {"tool": "pay"}} | what
    trial = Trial(kind=kind, directory=PEOPLE, limits=Limits(), tenant=tenant, **texts)
    return report(trial, iter(()))


@pytest.mark.parametrize("call", [{"tool": "pay"}, {"tool": "pay", "tenant": "initech"}])
def test_a_tenant_sees_the_rules_for_its_own_calls_and_no_people(call: dict[str, Any]) -> None:
    """Neither another tenant's rules nor who is in a group are explained to its administrators."""
    found = tried("explain", "initech", call=call)
    assert ("all-pay", ["all-pay"]) == (found.rule, [each.rule for each in found.tried])
    assert ([NOBODY], [[]]) == (found.notes, [each.people for each in found.deciders])


def test_whom_the_active_rules_know_is_not_found_out_by_asking() -> None:
    """Whether a person is in a group of the house makes no difference to a tenant's administrators."""
    grouped = ACTIVE.replace('tool: pay, tenant: "*"', "tool: pay, requester: 'group:finance'")
    found = [
        tried("explain", "initech", active=grouped, call={"tool": "pay", "requester": f"person:{each}"})
        for each in ("ada", "bob")
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("kind", "what"),
    [("explain", {"call": {"tool": "pay", "tenant": "globex"}}), ("test", {"cases": CASE % ", tenant: globex"})],
)
def test_a_call_of_another_tenant_is_not_tried(kind: str, what: dict[str, Any]) -> None:
    """What is wrong in it is told with its place."""
    with pytest.raises(RulebookInvalid) as refused:
        tried(kind, "initech", **what)
    assert [NOT_OWN] == [each.problem for each in refused.value.problems]


def test_cases_are_calls_of_the_senders_tenant() -> None:
    """A case that names no tenant is the sender's, and of the house it is one of the house."""
    outcomes = [tried("test", tenant, cases=CASE % "").cases[0].differences for tenant in ("globex", "initech", "")]
    other = ["rule: expected globex-pays, found all-pay"]
    assert [[], other, other] == outcomes


def test_a_text_of_a_tenant_is_not_judged_with_the_houses_people() -> None:
    """A condition that asks about them has nobody to hold for, and the answer says so."""
    found = tried("explain", "initech", rulebook=SENT)
    assert ([NOBODY], [[]]) == (found.notes, [each.people for each in found.deciders])
    for kind, more in (("test", {"cases": CASE % ""}), ("simulate", {})):
        assert [NOBODY] == tried(kind, "initech", rulebook=SENT, **more).notes


def test_a_check_for_a_tenant_neither_knows_nor_misses_people() -> None:
    """Whether a group or a person is there is not to be found out by asking for it."""
    text = SENT.replace("person:bob", "person:bobb, group:financee")
    found = tried("check", "initech", rulebook=text)
    assert (True, [NOBODY]) == (found.valid, [each.problem for each in found.notes])
    assert (2, False) == (len(tried("check", "", rulebook=text).problems), tried("check", "", rulebook=text).valid)


def test_people_that_a_text_itself_lists_count() -> None:
    """Its sender wrote them down: they are looked at and told."""
    own = "people: {cem: {attributes: {pay: '12'}}, bob: {}}\ngroups: {finance: [cem]}"
    text = SENT.replace("directory: people.yaml", own)
    found = tried("explain", "initech", rulebook=text)
    assert ([], [["person:cem"]]) == (found.notes, [each.people for each in found.deciders])


def test_the_house_sees_everything() -> None:
    """Its administrators try calls of every tenant, with its people."""
    found = tried("explain", "", call={"tool": "pay", "tenant": "globex"})
    assert ("globex-pays", [["person:ada", "person:bob"]]) == (found.rule, [each.people for each in found.deciders])
    assert [["person:ada"]] == [each.people for each in tried("explain", "", rulebook=SENT).deciders]
