"""How far a grant may go: what approval and policy judge by, each in its own words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from placet.approval.rules import grants as asking
from placet.contracts.messages import GrantTerms, GrantWish
from placet.domain.directory import Directory
from placet.domain.grants import Excess, beyond
from placet.domain.yaml_source import parse_yaml
from placet.policy.rulebook import rulebook_from
from placet.policy.rules import grants as keeping
from tests.builders import NOON, an_approval_rule
from tests.support.approval_builders import a_directory, an_approval, claims_of
from tests.support.policy_builders import LIMITED, a_grant_request, a_proposal

#: The terms of the rule `shipping`.
TERMS = GrantTerms(scope="agent", bounds=["amount"], uses=3, expires_after_seconds=3600)
OF_TEXTS = GrantTerms(bounds=["amount", "to=*@example.org", "to=INV-?*"])
CASES: list[tuple[dict[str, Any], Excess | None]] = [
    ({"scope": "conversation"}, None),
    ({"scope": "agent", "bounds": ["amount"], "uses": 3, "seconds": 3600}, None),
    ({"scope": "tenant", "bounds": ["to"], "uses": 4}, Excess("scope")),
    ({"scope": "agent", "bounds": ["to", "amount", "from"]}, Excess("bounds", ("from", "to"))),
    ({"scope": "agent", "uses": 4}, Excess("uses")),
    ({"scope": "agent", "seconds": 3601}, Excess("expires_after_seconds")),
]


@pytest.mark.parametrize(("asked", "excess"), CASES)
def test_the_first_term_that_a_grant_goes_beyond_is_named(asked: dict[str, Any], excess: Excess | None) -> None:
    """Up to the terms and including them is within."""
    assert excess == beyond(TERMS, **asked)


@pytest.mark.parametrize(
    ("bounds", "excess"),
    [
        (["to=*@example.org"], None),
        (["to=*b@example.org", "to=bob@example.org", "amount"], None),
        (["to=*@example.com"], Excess("bounds", ("to=*@example.com",))),
        (["to=INV-2*"], Excess("unclear", ("to=INV-2*",))),
        (["to=INV-2*", "cc=*@example.org"], Excess("bounds", ("cc=*@example.org",))),
        (["to", "amount=5"], Excess("bounds", ("amount=5", "to"))),
    ],
)
def test_who_approves_may_let_texts_vary_less(bounds: list[str], excess: Excess | None) -> None:
    """A glob within the rule's is less; of one of which nobody can tell that it is said so."""
    assert excess == beyond(OF_TEXTS, scope="conversation", bounds=bounds)


@pytest.mark.parametrize(("asked", "excess"), CASES)
def test_approval_and_policy_refuse_the_same_grants(asked: dict[str, Any], excess: Excess | None) -> None:
    """What the one lets a person ask for the other keeps."""
    said = {name: asked[name] for name in asked.keys() - {"seconds"}}
    approval = an_approval(approval_rule=an_approval_rule(approvers=["group:finance"], grants=TERMS))
    wish = GrantWish(**said, expires_after_seconds=asked.get("seconds"))
    first = asking.problem(approval, claims_of(approval, "ada", "approve", grant=wish), a_directory())
    rulebook = rulebook_from(parse_yaml("rulebook.yaml", LIMITED.encode()))
    until = NOON + timedelta(seconds=asked.get("seconds", 1))
    request = a_grant_request(a_proposal(rulebook, "ship").call, **said, expires_at=until, key_id="key-1")
    second = keeping.refusal(request, rulebook, Directory(), NOON, {})
    assert [excess is None] * 2 == [first == "", second == ""]
