"""'Allow this from now on': only by an approval, only by who could approve alone, only within the rule's terms."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from placet.approval import rules
from placet.approval.rules import Approval, grants
from placet.approval.states import State
from placet.contracts.messages import GrantTerms, GrantWish
from tests.builders import NOON, a_call, an_approval_rule
from tests.support.approval_builders import a_directory, an_approval, claims_of, closed_as

TERMS = GrantTerms(scope="agent", bounds=["amount"], uses=5, expires_after_seconds=600)


def a_grantable(**rule: Any) -> Approval:
    """Return an approval whose rule lets finance allow such calls from now on."""
    return an_approval(approval_rule=an_approval_rule(**({"approvers": ["group:finance"], "grants": TERMS} | rule)))


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ({}, "accepted"),
        ({"scope": "agent"}, "accepted"),
        ({"scope": "tenant"}, "invalid"),
        ({"bounds": []}, "accepted"),
        ({"bounds": ["amount"]}, "accepted"),
        ({"bounds": ["currency"]}, "invalid"),
        ({"uses": 5}, "accepted"),
        ({"uses": 6}, "invalid"),
        ({"expires_after_seconds": 601}, "invalid"),
    ],
)
def test_a_wish_beyond_the_terms_is_refused(wish: dict[str, Any], expected: str) -> None:
    """The rule's author decides how far a grant goes; the approval itself is then not made either."""
    approval = a_grantable()
    claims = claims_of(approval, "ada", "approve", grant=GrantWish(**wish))
    assert expected == rules.decide(approval, claims, NOON, a_directory()).outcome


@pytest.mark.parametrize(("bound", "expected"), [("cc.0=*", "invalid"), ("cc=*", "accepted")])
def test_a_wish_for_an_element_of_a_list_is_refused(bound: str, expected: str) -> None:
    """Nothing of it would ever vary; what no schema says of an argument is seen in the approved call alone."""
    terms = GrantTerms(bounds=["cc.0=*", "cc=*"])
    approval = a_grantable(grants=terms)
    approval = replace(approval, call=a_call(arguments={"cc": ["ada"]}))
    claims = claims_of(approval, "ada", "approve", grant=GrantWish(bounds=[bound]))
    assert expected == rules.decide(approval, claims, NOON, a_directory()).outcome


def test_a_wish_of_which_nobody_can_tell_that_it_is_within_says_so() -> None:
    """Whoever approves then takes a bound in the rule's own words."""
    approval = a_grantable(grants=GrantTerms(bounds=["to=INV-?*"]))
    claims = claims_of(approval, "ada", "approve", grant=GrantWish(bounds=["to=INV-2*"]))
    told = "Whether the rule lets to=INV-2* vary cannot be told: take its own words."
    assert told == grants.problem(approval, claims, a_directory())


@pytest.mark.parametrize("rule", [{"grants": None}, {"approvals": 2}], ids=["no-terms", "not-alone"])
def test_not_everybody_who_votes_may_allow_from_now_on(rule: dict[str, Any]) -> None:
    """Without terms nobody may; where two must approve, one may not allow what two had to."""
    approval = a_grantable(**rule)
    claims = claims_of(approval, "ada", "approve", grant=GrantWish())
    assert "invalid" == rules.decide(approval, claims, NOON, a_directory()).outcome


def test_what_is_left_out_is_as_far_as_the_terms_go() -> None:
    """The message carries the approved call, its owner, and the terms in full."""
    approval = a_grantable()
    claims = claims_of(approval, "ada", "approve", grant=GrantWish(), key_id="key-1")
    after = rules.decide(approval, claims, NOON, a_directory()).after
    assert after is not None
    asked = grants.asked("grant-1", after, claims)
    assert asked is not None
    assert (approval.call, "person:ada", "key-1", "conversation", ["amount"], 5, NOON + timedelta(seconds=600)) == (
        asked.call,
        asked.owner,
        asked.key_id,
        asked.scope,
        asked.bounds,
        asked.uses,
        asked.expires_at,
    )


@pytest.mark.parametrize("verb", ["edit", "deny", "respond", "cancel"])
def test_only_an_approval_asks_for_a_grant(verb: str) -> None:
    """Not an edit, not a denial, whatever their maker sent along."""
    approval = closed_as(State.APPROVED, approval_rule=a_grantable().approval_rule)
    assert grants.asked("grant-1", approval, claims_of(approval, "ada", verb, grant=GrantWish())) is None
