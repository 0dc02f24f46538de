"""What several rules ask together: never less than any of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.contracts.messages import ApprovalRule, Demand, Escalation, Panel
from placet.domain.deciders import Voter
from placet.domain.strictest import covers, strictest
from placet.domain.votes import Vote, tally
from tests.builders import an_approval_rule
from tests.support.approval_builders import a_directory, an_approval

FINANCE, LEADS = Panel(approvers=["group:finance"]), Panel(approvers=["group:leads"])


def rule(panel: Panel, **changes: Any) -> ApprovalRule:
    """Return a rule that asks a panel."""
    return an_approval_rule(approvers=panel.approvers, approvals=panel.approvals, **changes)


def test_one_rule_is_itself() -> None:
    """Nothing of it changes, its grants included, however often it is named."""
    alone = rule(FINANCE, min_strength="web", edits=True)
    assert alone == strictest([alone, alone, alone])


def test_no_rule_is_none() -> None:
    """Nobody asked never means that nobody need be asked."""
    with pytest.raises(ValueError, match="no rule"):
        strictest([])


def test_other_people_must_say_yes_too() -> None:
    """Each rule's panels become a demand of their own."""
    both = strictest([rule(FINANCE), rule(LEADS, alternatives=[Panel(approvers=["person:dora"], approvals=1)])])
    assert (["group:finance"], [Demand(panels=[LEADS, Panel(approvers=["person:dora"])])]) == (
        both.approvers,
        both.also,
    )


def test_the_stricter_word_stands() -> None:
    """Fewest denials, every veto and exclusion, the surest proof, the earliest end."""
    one = rule(FINANCE, denials=2, veto=["person:dora"], min_strength="slack", expires_after_seconds=600)
    two = rule(
        FINANCE,
        exclude=["requester"],
        reason_required="always",
        veto=["person:eve"],
        reminders_after_seconds=[60, 900],
    )
    found = strictest([one, two])
    assert (1, ["person:dora", "person:eve"], ["requester"]) == (found.denials, found.veto, found.exclude)
    assert ("slack", "always", 600, [60]) == (
        found.min_strength,
        found.reason_required,
        found.expires_after_seconds,
        found.reminders_after_seconds,
    )


def test_a_denial_counts_as_far_as_for_any_of_them() -> None:
    """For any arguments, in the whole tenant and for the longest time where one of the rules says so."""
    one = rule(FINANCE, veto_window_seconds=60, veto_on="tool")
    found = strictest([one, rule(LEADS, veto_window_seconds=90, veto_within="tenant")])
    assert ("tool", "tenant", 90) == (found.veto_on, found.veto_within, found.veto_window_seconds)


def test_an_escalation_of_one_rule_gives_no_place_in_the_others() -> None:
    """It reminds people instead: whom one rule asks late would else decide about what the other rule guards."""
    late = Escalation(after_seconds=60, approvers=["group:leads"])
    shared = strictest([rule(FINANCE, escalations=[late]), rule(FINANCE, escalations=[late], denials=2)])
    found = strictest([rule(FINANCE, escalations=[late]), rule(FINANCE)])
    assert ([late], []) == (shared.escalations, shared.reminders_after_seconds)
    assert ([], [60]) == (found.escalations, found.reminders_after_seconds)


def test_a_condition_stays_with_the_places_of_its_own_rule() -> None:
    """Where conditions differ, none of them bars whom another rule lets decide."""
    found = strictest([rule(FINANCE, condition="person.id != 'person:ada'"), rule(LEADS)])
    assert ("", ["person.id != 'person:ada'", ""]) == (found.condition, [each.condition for each in found.also])


NAMES = ("ada", "bob", "carl", "dora")
APPROVERS = st.lists(
    st.sampled_from(["group:finance", "group:leads", *(f"person:{name}" for name in NAMES)]), min_size=1, max_size=2
)
PANELS = st.builds(Panel, approvers=APPROVERS, approvals=st.integers(1, 2))
some_rules = st.builds(
    lambda panel, terms: rule(panel, **terms),
    PANELS,
    st.fixed_dictionaries(
        {
            "alternatives": st.lists(PANELS, max_size=1),
            "denials": st.integers(1, 2),
            "veto": st.lists(st.sampled_from(["person:dora"]), max_size=1),
            "condition": st.sampled_from(["", "person.id != 'person:ada'", "'leads' in person.groups"]),
            "exclude": st.sampled_from([[], ["requester"]]),
        }
    ),
)
some_votes = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["approve", "deny", "abstain"])),
    max_size=4,
    unique_by=lambda v: v[0],
)


@given(st.lists(some_rules, min_size=1, max_size=3), some_votes)
def test_what_is_approved_would_be_approved_by_each(rules: list[ApprovalRule], cast: list[tuple[str, Any]]) -> None:
    """Whatever people say, all rules together let through nothing that one of them alone would not."""
    votes = [Vote(Voter(f"person:{name}", (), "api_key"), verb) for name, verb in cast]

    def way(asked: ApprovalRule) -> str | None:
        return tally(an_approval(approval_rule=asked), votes, a_directory()).way

    assert way(strictest(rules)) != "approve" or {"approve"} == {way(each) for each in rules}


@given(st.lists(some_rules, min_size=1, max_size=3), st.integers(0, 2))
def test_all_rules_together_cover_some_of_them(rules: list[ApprovalRule], left_out: int) -> None:
    """Who meets all of them has met those that are left, so nobody need be asked again."""
    left = rules[:left_out] + rules[left_out + 1 :]
    assert covers(strictest(rules), strictest(left or rules))


@given(some_rules, some_rules, some_votes)
def test_what_covers_a_rule_is_no_easier(asked: ApprovalRule, other: ApprovalRule, cast: list[tuple[str, Any]]) -> None:
    """Nothing is approved under the one that the other would not let through."""
    votes = [Vote(Voter(f"person:{name}", (), "api_key"), verb) for name, verb in cast]
    ways = [tally(an_approval(approval_rule=each), votes, a_directory()).way for each in (asked, other)]
    assert not covers(asked, other) or ways[0] != "approve" or ways[1] == "approve"


@pytest.mark.parametrize(
    "changes",
    [
        {"denials": 1},
        {"veto": ["person:dora"]},
        {"exclude": ["requester"]},
        {"reason_required": "always"},
        {"min_strength": "web"},
        {"condition": "person.id != 'person:ada'"},
        {"by_message": False},
        {"also": [Demand(panels=[LEADS])]},
    ],
)
def test_a_stricter_word_is_not_covered(changes: dict[str, Any]) -> None:
    """Each of what a rule may ask beside its people counts; the stricter rule covers the other one."""
    plain = rule(FINANCE, denials=2, by_message=True)
    stricter = plain.model_copy(update=changes)
    assert (False, True) == (covers(plain, stricter), covers(stricter, plain))
