"""Edits: people may approve other arguments only where the rulebook would let people approve them anyway."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from placet.contracts.canonical import canonical_text
from placet.contracts.errors import SecurityAlert
from placet.contracts.messages import Edited, EditJudged, EditProposed
from placet.contracts.messages.approvals import ApprovalRule
from placet.contracts.messages.tool_calls import Category
from placet.domain.card_text import REDACTED
from placet.domain.catalog import Catalog, ToolSpec
from placet.domain.limits import Limit, Per
from placet.policy.rules import Effect, Rule, Rulebook, Ruling, edits
from placet.policy.rules.conditions import compile_condition
from tests.builders import a_call

PROPERTIES = {"amount": {"type": "number"}, "card": {"type": "object"}}
SCHEMA = {"type": "object", "properties": PROPERTIES, "required": ["amount"]}
PAY = ToolSpec(
    name="pay",
    description="Pay.",
    parameters=SCHEMA,
    redact=["/card/number"],
    category=Category.UNSAFE_API,
    summary={"en": "Pay {amount}?"},
)


def a_rule(name: str, effect: Effect, when: str | None = None) -> Rule:
    """Return a rule for `pay`."""
    approval = ApprovalRule(approvers=["operators"]) if effect is Effect.REQUIRE_APPROVAL else None
    condition = compile_condition(when, [PAY]) if when else None
    return Rule(name, Ruling(effect, "Because.", approval=approval), frozenset({"pay"}), condition=condition)


RULEBOOK = Rulebook(
    digest="0" * 64,
    tools=Catalog([PAY]),
    rules=(
        a_rule("small", Effect.ALLOW, "arguments.amount < 10"),
        a_rule("huge", Effect.DENY, "arguments.amount > 1000"),
        a_rule("large", Effect.REQUIRE_APPROVAL, "arguments.amount > 500"),
        a_rule("payments", Effect.REQUIRE_APPROVAL),
    ),
)


ASKED = ApprovalRule(approvers=["operators"])


def judged(
    arguments: Any,
    rulebook: Rulebook = RULEBOOK,
    rule: str = "payments",
    asked: ApprovalRule | None = ASKED,
    **changes: Any,
) -> EditJudged:
    """Return policy's answer to an edit of a call that rule `payments` held for operators."""
    call = a_call(tool="pay", arguments=arguments, schema_digest=PAY.schema_digest, **changes)
    proposed = EditProposed(tenant="acme", edit_id="edit-1", approval_id="approval-1", rule=rule, call=call)
    return edits.judged(proposed, edits.Held(asked, {}), rulebook)


@pytest.mark.parametrize("amount", [5, 299])
def test_an_edit_within_its_rule_or_allowed_anyway_is_accepted(amount: int) -> None:
    """The card's new text comes with the answer."""
    answer = judged({"amount": amount})
    assert (True, "", f"Pay {amount}?") == (answer.accepted, answer.detail, answer.summary)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            {"amount": 600},
            (
                "With the changed amount, the call would fall under rule 'large' (Because), so others would have to "
                "decide; allowed is what stays under rule 'payments' (Because)."
            ),
        ),
        (
            {"amount": 2000, "card": {"number": "4111"}},
            (
                "With the changed amount, card, rule 'huge' does not let such a call run (Because); "
                "allowed is what stays under rule 'payments' (Because)."
            ),
        ),
        ({"amount": "much"}, "The arguments do not fit the tool: /amount 'much' is not of type 'number'."),
        (
            {},
            ("The arguments do not fit the tool: 'amount' is a required property, and its arguments are amount, card."),
        ),
        (
            {"amount": 1, "more": 2},
            (
                "The arguments do not fit the tool: Additional properties are not allowed ('more' was unexpected), "
                "and its arguments are amount, card."
            ),
        ),
    ],
)
def test_an_edit_that_leaves_its_rule_is_refused_with_the_reason(arguments: Any, says: str) -> None:
    """One sentence names the argument and what is allowed: others would have to decide, or nobody may."""
    edited = Edited(person="person:ada", proposed='{"amount":299}', proposed_digest="0" * 64)
    answer = judged(arguments, edited=edited)
    assert (False, says, "") == (answer.accepted, answer.detail, answer.summary)


def test_an_edit_that_two_readers_could_read_differently_is_refused() -> None:
    """Whatever they are allowed to say."""
    answer = judged('{"amount": 1, "amount": 2}')
    assert (False, True) == (answer.accepted, "not strict JSON" in answer.detail)


def test_what_people_may_see_of_an_edit_comes_with_the_answer() -> None:
    """Also of a value that the call did not have before: the editor is not believed about what may be seen."""
    answer = judged({"amount": 5, "card": {"number": "4111"}}, shown_arguments="")
    assert (True, canonical_text({"amount": 5, "card": {"number": REDACTED}}), False) == (
        answer.accepted,
        answer.shown_arguments,
        "4111" in answer.model_dump_json(),
    )


def test_an_edit_of_a_tool_that_has_changed_is_refused() -> None:
    """The schema is the one of the rulebook as it is now."""
    call = a_call(tool="pay", arguments={"amount": 5})
    proposed = EditProposed(tenant="acme", edit_id="e", approval_id="a", rule="payments", call=call)
    assert not edits.judged(proposed, edits.Held(ASKED, {}), RULEBOOK).accepted


def test_a_digest_that_does_not_fit_is_an_attack() -> None:
    """What policy judges is what would run."""
    with pytest.raises(SecurityAlert):
        judged({"amount": 5}, digest="f" * 64)


TWICE = ApprovalRule(approvers=["group:finance"], approvals=2, edits=True)
ONCE = ApprovalRule(approvers=["group:ops"], edits=True)
#: `marked` cannot be evaluated where the call has no card, so the people of `fallback` are asked there.
MARKED = Rulebook(
    digest="0" * 64,
    tools=Catalog([PAY]),
    rules=(
        Rule(
            "marked",
            Ruling(Effect.REQUIRE_APPROVAL, "Because.", approval=TWICE),
            frozenset({"pay"}),
            condition=compile_condition('arguments.card.number == "1"', [PAY]),
        ),
    ),
    fallback=ONCE,
)
WITH, WITHOUT = {"amount": 5, "card": {"number": "1"}}, {"amount": 5}


@pytest.mark.parametrize(
    ("asked", "arguments", "says"),
    [
        (ONCE, WITH, "others than those who are asked here"),
        (TWICE, WITHOUT, "so the people of 'fallback' would have to decide"),
        (TWICE, WITH, ""),
        (ONCE, WITHOUT, ""),
        (None, WITH, "others than those who are asked here"),
    ],
)
def test_an_edit_never_moves_a_call_to_other_people(
    asked: ApprovalRule | None, arguments: dict[str, Any], says: str
) -> None:
    """From an error to its rule and back the name of the rule is the same; who decides is not."""
    answer = judged(arguments, MARKED, "marked", asked)
    assert (not says, True) == (answer.accepted, says in answer.detail)


def test_an_edit_under_a_rule_that_was_tightened_is_refused() -> None:
    """The rulebook asks two people by now; the card still asks one. When and where they are asked changes nothing."""
    later = ASKED.model_copy(update={"expires_after_seconds": 60, "channels": ["slack"]})
    answers = [judged({"amount": 299}, asked=asked) for asked in (ASKED.model_copy(update={"approvals": 2}), later)]
    assert [False, True] == [answer.accepted for answer in answers]


def test_an_edit_takes_no_room_of_a_limit() -> None:
    """A rule with limits above the denial does not let an edit run, because nobody took room for it there."""
    small = replace(RULEBOOK.rules[0], limits=(Limit(Decimal(1), Per.TENANT, 60),), condition=None)
    rulebook = replace(RULEBOOK, rules=(small, *RULEBOOK.rules[1:]))
    assert (False, True) == (judged({"amount": 2000}, rulebook).accepted, judged({"amount": 299}, rulebook).accepted)
