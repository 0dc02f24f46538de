"""Limits: what the file may say, and what a call asks of them. Counting is tested where the database is."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.domain.limits import Limit, Per
from placet.domain.yaml_source import RulebookInvalid, parse_yaml
from placet.policy.rulebook import rulebook_from
from placet.policy.rules import CallFacts, Effect, Rulebook, judge
from placet.policy.rules.limits import AmountUnclear, demands
from placet.policy.rules.verdicts import judge_within
from tests.support.policy_builders import LIMITED, a_proposal


def a_rulebook(rest: str = "") -> Rulebook:
    """Return the rulebook with limits, and more rules below."""
    return rulebook_from(parse_yaml("rulebook.yaml", (LIMITED + rest).encode()))


def a_call(tool: str = "pay", **changes: Any) -> CallFacts:
    """Return what the rules look at."""
    return CallFacts.of(a_proposal(a_rulebook(), tool, **changes).call)


def a_limit(within: str, *, amount: str = "count: 3", per: str = "agent") -> Limit:
    """Return the limit that a rule of the file says."""
    limits = f"[{{{amount}, per: {per}, within: {within}}}]"
    more = f"- {{name: one, match: {{tool: ship}}, effect: allow, reason: Fine., limits: {limits}}}\n"
    text = LIMITED.replace("  - name: small", f"  {more}  - name: small")
    return rulebook_from(parse_yaml("rulebook.yaml", text.encode())).rules[0].limits[0]


@pytest.mark.parametrize(
    ("written", "seconds"), [("3600", 3600), ("90s", 90), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000)]
)
def test_window_is_read_in_seconds(written: str, seconds: int) -> None:
    """A number of seconds, or a text with a unit."""
    assert seconds == a_limit(written).within_seconds


def test_limit_is_read_with_everything_it_may_say() -> None:
    """A sum of an argument inside another keeps its path and its exact bound."""
    expected = Limit(Decimal("0.3"), Per.REQUESTER, 60, ("amount",))
    assert expected == a_limit("60", amount="sum: {argument: amount, at_most: 0.3}", per="requester")


def test_rule_behind_a_limited_one_is_reachable() -> None:
    """A limited rule decides only for a while, so what is below it is not dead."""
    assert ["small", "payments", "looked-enough", "four-eyes", "shipping"] == [rule.name for rule in a_rulebook().rules]


def test_limit_that_changes_nothing_is_told() -> None:
    """Without a rule below, a call that has no room would be allowed by its category: the author is told."""
    useless = "- {name: few-looks, match: {tool: look}, effect: allow, reason: R, limits: [%s]}"
    with pytest.raises(RulebookInvalid, match="limits without effect: no rule below is for look"):
        a_rulebook(f"  {useless % '{count: 3, per: tenant, within: 1d}'}\n")


def test_call_asks_every_limit_of_its_rule() -> None:
    """The verdict says what must be reserved before it stands."""
    verdict = judge(a_call(arguments={"amount": 12.5}), a_rulebook())
    asked = [(each.measure, each.per, each.subject, each.amount, each.at_most) for each in verdict.demands]
    assert [
        ("sum:amount", "tenant", "acme", Decimal("12.5"), Decimal(500)),
        ("count", "conversation", "conversation-1", Decimal(1), Decimal(20)),
    ] == asked


def test_rule_without_room_decides_nothing() -> None:
    """Evaluation goes on below it."""
    verdict = judge(a_call(), a_rulebook(), exhausted={"small"})
    assert (Effect.REQUIRE_APPROVAL, "payments", ()) == (verdict.effect, verdict.rule, verdict.demands)


@pytest.mark.parametrize("amount", ["1", True, None, [1], -1, -0.01, float("inf")])
def test_amount_that_cannot_be_counted_is_an_error(amount: Any) -> None:
    """No number, no finite one, or one below zero."""
    facts = CallFacts("c", "acme", "conversation", "agent", "requester", {}, "pay", "a" * 64, {"amount": amount})
    with pytest.raises(AmountUnclear):
        demands("small", [Limit(Decimal(5), Per.TENANT, 60, ("amount",))], facts)


def test_amount_that_cannot_be_counted_holds_the_call() -> None:
    """People are told what kind of error it was, and not the value: the tool has a redacted argument."""
    verdict = judge(a_call(arguments={"amount": -1}), a_rulebook())
    assert (Effect.REQUIRE_APPROVAL, "small", True) == (
        verdict.effect,
        verdict.rule,
        "AmountUnclear" in verdict.reason,
    )


@given(st.lists(st.decimals(min_value=0, max_value=10**6, places=2), max_size=40))
def test_sum_of_amounts_is_exact(amounts: list[Decimal]) -> None:
    """However many parts: the decimals of the arguments add up to what paper and pencil say."""
    limit = Limit(Decimal(1), Per.TENANT, 60, ("amount",))
    asked = [demands("r", [limit], _paying(float(amount)))[0].amount for amount in amounts]
    assert sum((Fraction(amount) for amount in amounts), Fraction(0)) == Fraction(sum(asked, Decimal(0)))


def _paying(amount: float) -> CallFacts:
    return CallFacts("c", "acme", "conversation", "agent", "requester", {}, "pay", "a" * 64, {"amount": amount})


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"conversation_id": "conversation-2"}, True),
        ({"requester": "visitor-2"}, True),
        ({"tenant": "rival"}, False),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_counter_belongs_to_whom_the_limit_says(changes: dict[str, Any], same: bool) -> None:  # noqa: FBT001
    """`per: tenant`: one counter for all conversations and requesters of a tenant."""
    one, other = (judge(a_call(**each), a_rulebook()).demands[0].counter_id for each in ({}, changes))
    assert same == (one == other)


def test_changed_limit_keeps_its_counter() -> None:
    """Raising a limit does not forget what was used."""
    limits = [Limit(Decimal(most), Per.TENANT, seconds) for most, seconds in ((5, 60), (9, 3600))]
    assert 1 == len({each.counter_id for each in demands("r", limits, _paying(1))})


@pytest.mark.parametrize(
    ("effect", "below", "expected"),
    [
        ("require_approval", "deny", "limited"),
        ("stage", "deny", "below"),
        ("allow", "deny", "below"),
        ("require_approval", "require_approval", "below"),
        ("require_approval", "allow", "below"),
    ],
)
def test_what_people_were_asked_about_is_not_denied_where_a_limited_rule_asks_them(
    effect: str, below: str, expected: str
) -> None:
    """The rule that held it was renamed: one that asks about the call is an answer whatever its limits are."""
    terms = {"require_approval": ", approval: {approvers: [operators]}"}
    limits = ", limits: [{count: 1, per: tenant, within: 1d}]"
    rules = "".join(
        f"  - {{name: {name}, match: {{tool: bin}}, effect: {each}, reason: R.{terms.get(each, '')}{more}}}\n"
        for name, each, more in (("limited", effect, limits), ("below", below, ""))
    )
    tool = "  bin: {description: B, category: unsafe_api, parameters: {type: object, properties: {}}}\n"
    text = LIMITED.replace("rules:\n", f"{tool}rules:\n{rules}")
    rulebook = rulebook_from(parse_yaml("rulebook.yaml", text.encode()))
    call = CallFacts.of(a_proposal(rulebook, "bin", arguments={}).call)
    assert expected == judge_within(call, rulebook, "renamed").rule
