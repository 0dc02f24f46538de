"""Insights on a known history: every number is the one that was counted by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from placet.domain.cel import VALUES, Environment
from placet.gateway.insights.numbers import (
    ALWAYS_MIN,
    AlwaysApproved,
    Held,
    PersonNumbers,
    RuleNumbers,
    Vote,
    always_approved,
    by_hour,
    by_person,
    by_rule,
    percentile,
    waiting,
    without_names,
)
from placet.gateway.insights.suggestion import NotSuggested, asks_no_more, ranges, suggest, within
from placet.gateway.web.plots import Bar, bars, line, shares
from tests.support.cost import BOUND, FACTOR, growth

START = datetime(2026, 11, 20, 9, tzinfo=UTC)

RULEBOOK = """\
tools: {}

rules:
  # Money first.
  - name: payments
    match: {tool: [pay, refund], labels: {channel: "web*"}}
    when: arguments.amount <= 100
    effect: require_approval
    reason: Money moves.
    approval: {approvers: [operators]}
  - name: rest
    effect: deny
    reason: No.
"""
WITHIN = within([{"amount": 5.0}])
AMOUNT = '"amount" in arguments && arguments["amount"] == 5.0'
DIFF = f"""\
--- rulebook
+++ rulebook
@@ -3,4 +3,10 @@
 rules:
   # Money first.
+  # Suggested for 20 calls.
+  - name: "payments-pay"
+    match: {{"tool": "pay", "labels": {{"channel": "web*"}}}}
+    when: '(arguments.amount <= 100) && arguments.all(name, name in ["amount"]) && {AMOUNT}'
+    effect: "allow"
+    reason: "People always approved such calls as they were."
   - name: payments
     match: {{tool: [pay, refund], labels: {{channel: "web*"}}}}
"""


def held(
    number: int, seconds: float | None, state: str = "approved", *, edited: bool = False, tool: str = "pay"
) -> Held:
    """Return the approval that was asked for `number` minutes after the start and took so many seconds."""
    at = START + timedelta(minutes=number)
    closed = None if seconds is None else at + timedelta(seconds=seconds)
    return Held(f"a{number}", "payments", "pay", state, edited, at, closed, characters=500)


HISTORY = [
    held(0, 5),
    held(1, 30),
    held(2, 600, edited=True),
    held(3, 7_200, "denied"),
    held(4, 45, "answered"),
    held(5, 90_000, "expired"),
    held(6, 20, "withdrawn"),
    held(7, None, "pending"),
]


def voted(held: Held, person: str, verb: str = "approve") -> Vote:
    """Return the vote that ended an approval."""
    assert held.closed_at is not None
    return Vote(held.approval_id, person, verb, held.closed_at)


def test_a_rule_s_numbers_are_those_of_its_history() -> None:
    """Each end is counted once, an edited approval as edited; times are of what people decided."""
    expected = RuleNumbers("payments", 8, 1, 2, 1, 1, 1, 1, 1, p50=45, p90=7_200, histogram=(1, 2, 0, 1, 0, 1, 0, 0))
    assert [expected] == by_rule(HISTORY)


def test_a_crowd_between_two_moments_is_counted() -> None:
    """Three hundred that waited for a second are told, though nobody waited at either moment; none is counted twice."""
    at = START + timedelta(seconds=30)
    three = [replace(HISTORY[0], created_at=at, closed_at=at + timedelta(seconds=1)) for _ in range(3)]
    after = replace(HISTORY[0], created_at=at + timedelta(seconds=1), closed_at=at + timedelta(seconds=2))
    now = START + timedelta(minutes=2)
    assert [3, 0] == [count for _, count in waiting([*three, after], START, now, 2)]


def test_what_is_waiting_is_counted_up_to_each_moment() -> None:
    """From when it was asked for until it was decided, the most at once; the last moment is now."""
    now = START + timedelta(minutes=8)
    found = waiting(HISTORY, START, now, 4)
    assert [START + timedelta(minutes=each) for each in (2, 4, 6, 8)] == [at for at, _ in found]
    assert [1, 3, 4, 4] == [count for _, count in found]


def test_an_approval_that_came_too_soon_was_not_read() -> None:
    """A card of 500 characters takes ten seconds, and one person reads one card at a time; a denial is never one."""
    batch = [held(10, 60), held(10, 60), held(9, 1, "denied")]
    votes = [voted(batch[2], "eve", "deny"), voted(HISTORY[0], "ada"), voted(HISTORY[1], "ada"), voted(batch[0], "eve")]
    votes.append(Vote("a9", "eve", "approve", batch[0].closed_at or START))
    votes.append(Vote("gone", "ada", "approve", START))
    found = by_person([*HISTORY, *batch], sorted(votes, key=lambda each: each.decided_at))
    expected = [PersonNumbers("eve", 3, 2, 1, 3), PersonNumbers("ada", 2, 2, 1, 2)]
    assert expected == found
    assert ["person 1", "person 2"] == [each.person for each in without_names(found)]


def test_decisions_are_counted_by_the_hour_of_the_day() -> None:
    """In UTC, whatever zone a moment has."""
    found = by_hour([voted(HISTORY[0], "ada"), voted(HISTORY[3], "ada")])
    assert {9: 1, 11: 1} == {hour: count for hour, count in enumerate(found) if count}


def test_only_what_was_always_approved_unedited_is_suggested() -> None:
    """So often at least; one denial, edit or answer takes a tool out, and what expired says nothing."""
    enough = [replace(held(number, 60), said=str(number % 3)) for number in range(ALWAYS_MIN)]
    votes = [voted(each, "ada") for each in enough]
    silent = [held(90, 60, "expired"), held(91, None, "pending")]
    expected = AlwaysApproved("payments", "pay", ALWAYS_MIN, ALWAYS_MIN, people=1, arguments=3)
    assert [expected] == always_approved(enough + silent, votes)
    assert [] == always_approved(enough[1:] + silent, votes)
    for spoilt in (held(92, 1, "denied"), held(92, 1, edited=True), held(92, 1, "answered")):
        assert [] == always_approved([*enough, spoilt], votes)


def test_what_one_person_approved_together_is_one_decision() -> None:
    """A batch of sixty says no more than a click; another person's votes between them are their own."""
    calls = [held(number, None) for number in range(60)]
    batch = [
        Vote(each.approval_id, "ada", "approve", START + timedelta(milliseconds=40 * each_no))
        for each_no, each in enumerate(calls)
    ]
    single = [replace(vote, decided_at=START + timedelta(hours=number)) for number, vote in enumerate(batch)]
    others = [replace(vote, person=("ada", "eve")[number % 2]) for number, vote in enumerate(batch)]
    found = [always_approved(calls, votes) for votes in (batch, others, [*batch[:41], *single[41:]])]
    assert [[], [], [AlwaysApproved("payments", "pay", 60, 20, people=1, arguments=1)]] == found


@pytest.mark.parametrize(("percent", "expected"), [(50, 5), (90, 9), (100, 10), (1, 1)])
def test_a_percentile_is_a_value_that_was_there(percent: int, expected: float) -> None:
    """The smallest that so many do not exceed; none of nothing."""
    assert (expected, None) == (percentile(range(1, 11), percent), percentile([], percent))


def test_a_suggested_rule_allows_no_call_that_the_old_rule_did_not_hold() -> None:
    """It has the old rule's match and condition, one tool, and a place above it; nothing else of the file changes."""
    made = suggest(RULEBOOK, "payments", "pay", WITHIN, ["Suggested for 20 calls."])
    assert ("payments-pay", DIFF) == (made.rule, made.diff)
    taken = RULEBOOK.replace("name: rest", "name: payments-pay")
    assert "payments-pay-2" == suggest(taken, "payments", "pay", WITHIN).rule


def test_what_was_suggested_and_made_is_suggested_no_more() -> None:
    """Rules that let such calls through by now, or ask nobody, have nothing to suggest; the others have."""
    made = suggest(RULEBOOK, "payments", "pay", WITHIN, ["Suggested for 20 calls."])
    with pytest.raises(NotSuggested, match="A rule above lets such calls through already"):
        suggest(made.rulebook, "payments", "pay", WITHIN)
    asked = [("payments", "pay"), ("payments", "refund"), ("rest", "pay"), ("default:unsafe_api", "pay")]
    assert {("rest", "pay")} == asks_no_more(RULEBOOK, asked)
    assert {("rest", "pay"), ("payments", "pay")} == asks_no_more(made.rulebook, asked)


def test_a_suggested_rule_is_one_replacement_of_a_text_that_stands_once() -> None:
    """Whoever makes that edit has the whole suggestion."""
    made = suggest(RULEBOOK, "payments", "pay", WITHIN)
    assert (1, made.rulebook) == (RULEBOOK.count(made.old), RULEBOOK.replace(made.old, made.new))


TO_ADA = {"to": "ada", "amount": 5}


@pytest.mark.parametrize(
    ("seen", "passes", "held_still"),
    [
        ([TO_ADA, {"to": "ada", "amount": 50}], [{"to": "ada", "amount": 7}], [{"to": "eve", "amount": 7}]),
        ([TO_ADA, {"to": "ada", "amount": 50}], [], [TO_ADA | {"amount": 51}, TO_ADA | {"amount": -1}]),
        ([TO_ADA], [TO_ADA], [TO_ADA | {"fast": True}, {"amount": 5}, {}]),
        ([TO_ADA, TO_ADA | {"fast": False}], [TO_ADA, TO_ADA | {"fast": False}], [TO_ADA | {"fast": True}]),
        ([{"all": ["a", "b"]}, {"all": ["c"]}], [{"all": ["c"]}], [{"all": ["a"]}, {"all": []}]),
        ([{}], [{}], [TO_ADA]),
    ],
)
def test_a_suggested_rule_lets_nothing_through_that_is_unlike_what_was_approved(
    seen: list[dict[str, Any]], passes: list[dict[str, Any]], held_still: list[dict[str, Any]]
) -> None:
    """Few values are told one by one, numbers have their range, and what was never given is not given."""
    condition = Environment({"arguments": VALUES}, {}).compile(within(seen))
    assert ([True] * len(passes), [False] * len(held_still)) == tuple(
        [condition.holds({"arguments": each}) for each in calls] for calls in (passes, held_still)
    )


def test_few_calls_that_are_too_long_for_a_rule_make_none() -> None:
    """A rule that let others through would be none that people approved."""
    with pytest.raises(NotSuggested, match="too few and too long"):
        suggest(RULEBOOK, "payments", "pay", within([{"sql": "x" * 5_000}]))


@pytest.mark.parametrize("rule", ["rest", "default:unsafe_write"])
def test_there_is_nothing_to_suggest_for_what_no_rule_holds(rule: str) -> None:
    """A rule that is not there, or that asks nobody."""
    with pytest.raises(NotSuggested):
        suggest(RULEBOOK, rule, "pay", WITHIN)


def test_a_plot_fills_its_box() -> None:
    """The largest value is as high as the box, shares fill a line, and nothing is drawn as nothing."""
    assert [(60.0, 60.0), (0.0, 120.0)] == [(each.y, each.height) for each in bars([1, 2])]
    assert [(120.0, 0.0)] == [(each.y, each.height) for each in bars([0])]
    assert "0.0,120.0 280.0,0.0 560.0,60.0" == line([0, 2, 1])
    assert [Bar(0, 0, 25, 10), Bar(25, 0, 75, 10)] == shares([1, 3])
    assert [Bar(0, 0, 0, 10)] == shares([0])


@pytest.mark.parametrize(
    "made",
    [
        "p{}@shop.example",
        "Bob <p{}@shop.example>",
        "https://shop.example/{}",
        "SELECT {}",
        "Anna Schmidt {}",
        "Please send it to number {}.",
        lambda number: [f"p{number}"],
        lambda number: {f"p{number}": 1},
        lambda number: 10_000_000 + number,
        lambda number: 1e7 + number,
        lambda number: -10_000_000 - number,
    ],
)
def test_no_rule_is_suggested_that_lets_any_text_or_account_through(made: Any) -> None:
    """What people looked at is what differed: one that a mail talked the model into would pass unseen."""
    values = [made.format(number) if isinstance(made, str) else made(number) for number in range(20)]
    with pytest.raises(NotSuggested, match="a rule would allow any"):
        within([{"what": each, "n": 1} for each in values])
    condition = Environment({"arguments": VALUES}, {}).compile(within([{"what": each, "n": 1} for each in values[:3]]))
    assert [True] * 3 + [False] == [condition.holds({"arguments": {"what": each, "n": 1}}) for each in values[:4]]


def test_a_range_of_numbers_is_said_in_words() -> None:
    """Any amount between two that were approved passes, as its reader is told."""
    assert ["amount: 5 – 24"] == ranges([{"amount": 5 + number, "n": 1} for number in range(20)])
    assert ["amount: 0.5 – 900000.5"] == ranges([{"amount": 0.5 + 100_000 * number} for number in range(10)])


def test_numbers_of_many_tools_cost_no_more_than_those_of_one() -> None:
    """What was always approved is told in time that grows with the calls, each of a tool of its own."""
    small, large = (
        [replace(held(each, 60), tool=f"tool{each}") for each in range(number)] for number in (300, 300 * FACTOR)
    )
    votes = [voted(each, "ada") for each in large]
    few = votes[: len(small)]
    assert growth(lambda: always_approved(small, few), lambda: always_approved(large, votes)) <= BOUND


def test_a_rule_is_looked_for_in_time_that_grows_with_the_calls() -> None:
    """Where each had an argument of its own, which is no rule, they are not looked through once for each of them."""

    def looked(number: int) -> None:
        with pytest.raises(NotSuggested, match="too few and too long"):
            within([{f"argument{each}": each} for each in range(number)])

    assert growth(lambda: looked(300), lambda: looked(300 * FACTOR)) <= BOUND
