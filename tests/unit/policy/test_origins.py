"""Conditions about where values come from: only evidence counts, and without any the call is held."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placet.domain.yaml_source import RulebookInvalid, parse_yaml
from placet.policy.rulebook import rulebook_from
from placet.policy.rules import CallFacts, Effect, Rulebook, judge
from placet.policy.rules.call import COLUMNS, facts_from, kept_text
from placet.policy.rules.cases import cases_from, run_cases
from placet.policy.rules.explain import call_from, explain
from tests.support.policy_builders import a_proposal

BOOK = """
tools:
  mail:
    description: Send a mail.
    category: unsafe_api
    parameters:
      type: object
      properties:
        to: {type: string}
        cc: {type: array, items: {type: string}}
        order: {type: object, properties: {mail: {type: string}}}
rules:
- name: named
  match: {tool: mail}
  when: >-
    origin(arguments.to) == "user"
    && (!has(arguments.cc) || arguments.cc.all(each, origin(each) in ["user", "agent"]))
  effect: allow
  reason: The requester named everybody.
"""
TO, CC = "bob@shop.example", "eve@evil.example"


def a_rulebook(text: str = BOOK) -> Rulebook:
    """Return the rulebook of a text."""
    return rulebook_from(parse_yaml("rulebook.yaml", text.encode()))


def judged(origins: Any, rulebook: Rulebook | None = None, **arguments: Any) -> tuple[str, str]:
    """Return effect and rule of a call whose texts stood there."""
    book = rulebook or a_rulebook()
    proposal = a_proposal(book, "mail", arguments={"to": TO, **arguments}, origins=origins)
    verdict = judge(CallFacts.of(proposal.call), book)
    return str(verdict.effect), verdict.rule


def test_named_target_is_allowed() -> None:
    """A call runs whose target the requester named, where a rule says so."""
    assert ("allow", "named") == judged({"/to": ["user", "tool:read_inbox"]})


@pytest.mark.parametrize("places", [["tool:read_inbox"], ["quoted"], ["quoted", "tool:a"], ["agent"], []])
def test_target_from_elsewhere_is_held(places: list[str]) -> None:
    """A target that stood anywhere but in the requester's own words is held by what the rules say then."""
    assert ("require_approval", "default:unsafe_api") == judged({"/to": places})


def test_target_that_was_not_looked_for_is_none() -> None:
    """What the agent did not look for stood nowhere, as far as a rule knows."""
    assert ("require_approval", "default:unsafe_api") == judged({})


def test_call_without_evidence_is_held() -> None:
    """Where nobody looked, the condition has no value, and the call is held whatever the rules below say."""
    effect, rule = judged(None, a_rulebook(BOOK + "- {name: all, match: {tool: mail}, effect: allow, reason: Yes.}\n"))
    assert (Effect.REQUIRE_APPROVAL, "named") == (effect, rule)


def test_each_of_a_list_counts() -> None:
    """One recipient among several that nobody named is enough to hold the call."""
    origins = {"/to": ["user"], "/cc/0": ["agent"], "/cc/1": ["tool:read_inbox"]}
    assert "allow" == judged(origins, cc=["desk@shop.example"])[0]
    assert "require_approval" == judged(origins, cc=["desk@shop.example", CC])[0]


def test_text_made_of_others_is_none() -> None:
    """What a condition makes of a text is no text of the call."""
    book = a_rulebook(BOOK.replace("origin(arguments.to)", 'origin(arguments.to + "x")'))
    assert "require_approval" == judged({"/to": ["user"]}, book)[0]


def test_evidence_of_one_call_is_not_the_next_ones() -> None:
    """What was known of one call is forgotten when the next is judged."""
    assert "allow" == judged({"/to": ["user"]})[0]
    assert "require_approval" == judged(None)[0]


def test_kept_call_keeps_its_evidence() -> None:
    """A call that is judged again by what a verdict kept has the evidence, and the requester's message is not kept."""
    book = a_rulebook()
    call = a_proposal(book, "mail", arguments={"to": TO}, origins={"/to": ["user"]}, asked="to Bob, please").call
    text = kept_text(call, CallFacts.of(call))
    facts = facts_from(text, {name: getattr(call, name) for name in COLUMNS})
    assert ("allow", False) == (judge(facts, book).effect, "Bob" in text)
    assert replace(facts, origins=None) == replace(CallFacts.of(call), origins=None)


CASES = """
cases:
- name: named
  call:
    tool: mail
    arguments: {to: bob@shop.example, order: {mail: a@b.example}}
    origins: {to: user, order.mail: "tool:x"}
  expect: {effect: allow, rule: named}
- name: left out
  call: {tool: mail, arguments: {to: bob@shop.example}}
  expect: {effect: require_approval, rule: "default:unsafe_api"}
"""


def test_cases_say_where_values_stood() -> None:
    """`rulebook test` takes origins by the names of arguments; what a case leaves out stood nowhere."""
    _, cases = cases_from(parse_yaml("cases.yaml", CASES.encode()))
    report = run_cases(cases, a_rulebook())
    assert (2, 0, []) == (report.passed, report.failed, [each.differences for each in report.cases if not each.passed])


def test_explained_call_says_where_its_values_stood() -> None:
    """`rulebook explain` takes origins too."""
    entry = call_from({"tool": "mail", "arguments": {"to": TO}, "origins": {"/to": "user"}}, a_rulebook(), "call.json")
    assert "allow" == explain(entry, a_rulebook()).effect


@pytest.mark.parametrize(
    ("origins", "problem"),
    [({"too": "user"}, "no text among the arguments is called 'too'"), ({"to": "mine"}, "should match pattern")],
)
def test_wrong_origin_of_a_case_is_told(origins: dict[str, str], problem: str) -> None:
    """An origin of an argument that is not there, or that there is none of, is a mistake."""
    with pytest.raises(RulebookInvalid) as caught:
        call_from({"tool": "mail", "arguments": {"to": TO}, "origins": origins}, a_rulebook(), "call.json")
    assert problem in str(caught.value)
