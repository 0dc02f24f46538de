"""Rules that look as if somebody could approve alone what they asked for, and do not let them."""

from __future__ import annotations

import pytest

from placet.domain.yaml_source import parse_yaml
from placet.policy.rulebook import rulebook_from

RULEBOOK = """
tools:
  pay: {description: Pay somebody., category: unsafe_api, parameters: {type: object}}
people: {ada: {}, bob: {}}
groups: {finance: [ada, bob]}
owners: {shop: [ada]}
rules:
  - name: payments
    match: MATCH
    effect: require_approval
    reason: It costs money.
    approval: {exclude: [EXCLUDE], APPROVAL}
"""


@pytest.mark.parametrize(
    ("match", "exclude", "approval"),
    [
        # Of those who have an account: whoever asks is the one for whom the condition is false.
        ('{requester: "person:*"}', "agent_owner", "approvers: [requester, operators], condition: CONDITION"),
        # No visitor is in a group, and nobody else asks.
        ('{requester: "visitor:*"}', "agent_owner", "approvers: [requester, operators], condition: IN_FINANCE"),
        # No visitor is known so surely.
        ('{requester: "visitor:*"}', "agent_owner", "approvers: [requester, operators], min_strength: slack"),
        # Ada owns the one agent whose calls these are, and is excluded as its owner.
        ('{requester: "person:ada", agent: shop}', "agent_owner", "approvers: [requester, operators]"),
        # Two must approve, also in the end.
        ("{}", "agent_owner", "approvers: [requester, operators], approvals: 2"),
        # Nobody but the owner asks, who is excluded then.
        ('{requester: "person:ada", agent: shop}', "requester", 'approvers: ["group:finance"]'),
        # The condition takes the owner out.
        ("{agent: shop}", "requester", "approvers: ['group:finance'], condition: NOT_ADA"),
        # The owner does not decide about another agent.
        ("{agent: other}", "requester", 'approvers: ["group:finance"]'),
        ("{agent: shop}", "requester, agent_owner", 'approvers: ["group:finance"]'),
    ],
)
def test_a_rule_that_keeps_four_eyes_is_right(match: str, exclude: str, approval: str) -> None:
    """Nothing is refused that conditions, strengths, quorums and the other half of four eyes rule out."""
    text = RULEBOOK.replace("MATCH", match).replace("EXCLUDE", exclude).replace("APPROVAL", approval)
    text = text.replace("CONDITION", "person.id != call.requester").replace("NOT_ADA", 'person.id != "person:ada"')
    text = text.replace("IN_FINANCE", "'\"finance\" in person.groups'")
    assert ["payments"] == [rule.name for rule in rulebook_from(parse_yaml("f", text.encode())).rules]
