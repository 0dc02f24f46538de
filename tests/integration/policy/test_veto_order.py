"""Several calls in the way of one, on real PostgreSQL: none of them is pushed aside by another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from placet.contracts.messages import ApprovalRequested, ToolCallProposed
from placet.contracts.messages.approvals import ApprovalRule, Panel
from placet.policy.rulebook import load_rulebook
from placet.policy.rules import Rulebook
from placet.policy.settings import PolicySettings
from tests.integration.policy.conftest import settings_with, two_replicas
from tests.support.house import Replica
from tests.support.policy_builders import a_proposal, an_end

ORDERED = """\
tools:
  pay:
    description: Pay somebody.
    category: unsafe_api
    parameters: {type: object, properties: {amount: {type: number}}}
rules:
  - name: strong
    match: {labels: {strong: "*"}}
    effect: require_approval
    reason: Whatever the amount.
    approval: {approvers: ["person:ada"], veto_window_seconds: 600, veto_on: tool}
  - name: weak
    match: {labels: {weak: "*"}}
    effect: require_approval
    reason: Whoever asks.
    approval: {approvers: [requester], veto_window_seconds: 900, veto_within: tenant}
  - name: free
    match: {tool: pay}
    effect: allow
    reason: It is free.
"""


@pytest.fixture(scope="session")
def ordering(settings: PolicySettings) -> PolicySettings:
    """Settings that name that rulebook."""
    return settings_with(settings, "ordering", ORDERED)


@pytest.fixture
def book(ordering: PolicySettings) -> Rulebook:
    """That rulebook."""
    return load_rulebook(ordering.rulebook)


@pytest.fixture
async def policy(policy_url: str, ordering: PolicySettings) -> AsyncIterator[Replica]:
    """Policy, judging by it."""
    async with two_replicas(policy_url, ordering) as (replica, _):
        yield replica


def a_payment(book: Rulebook, amount: float, label: str = "", **changes: Any) -> ToolCallProposed:
    """Return the proposal to pay something, in a conversation with a label."""
    return a_proposal(book, "pay", arguments={"amount": amount}, labels={label: "yes"} if label else {}, **changes)


async def asked(policy: Replica, proposed: ToolCallProposed) -> ApprovalRequested:
    """Return what people are asked about a call."""
    (held,) = await policy.send(proposed)
    assert isinstance(held, ApprovalRequested)
    return held


@pytest.mark.parametrize("order", [("strong", "weak"), ("weak", "strong")])
async def test_a_call_that_waits_pushes_no_denial_aside(policy: Replica, book: Rulebook, order: Sequence[str]) -> None:
    """What was denied for ada stays with ada, however the same waits elsewhere; both people are asked and told."""
    for label in order:
        proposed = a_payment(book, 500 if label == "strong" else 60, label)
        await policy.send(proposed)
        if label == "strong":
            await policy.send(an_end(proposed.call))
    held = await asked(policy, a_payment(book, 60))
    wanted: list[ApprovalRule | Panel] = [held.approval, *(each.panels[0] for each in held.approval.also)]
    assert [["person:ada"], ["requester"]] == [each.approvers for each in wanted]
    assert ("veto-window", True) == (held.rule, "person:bob denied it" in held.reason)
    assert {"strong", "weak"} == {
        row["rule"]
        for row in await policy.rows(
            "SELECT v.rule FROM policy.history h JOIN policy.verdicts v ON v.call_id = h.subject_id"
            " WHERE h.event = 'asked_again' AND h.call_id = :call_id",
            call_id=held.call.call_id,
        )
    }


async def test_windows_that_meet_make_no_larger_one(policy: Replica, book: Rulebook) -> None:
    """What several calls held is remembered as the first of them: its reach, its time and its people alone."""
    for label, amount in (("strong", 500), ("weak", 60)):
        await policy.send(a_payment(book, amount, label))
    held = await asked(policy, a_payment(book, 60))
    rows = await policy.rows("SELECT DISTINCT ON (call_id) * FROM policy.watched_calls ORDER BY call_id, asked_at")
    mine = next(each for each in rows if each["call_id"] == held.call.call_id)
    assert mine["approval"] in {each["approval"] for each in rows if each is not mine}
    found = held.approval
    assert (mine["veto_on"], mine["veto_within"]) == (found.veto_on, found.veto_within)
    assert mine["window_seconds"] == found.veto_window_seconds


async def test_denials_are_told_before_what_waits(policy: Replica, book: Rulebook) -> None:
    """Of calls whose rule asks the same people a denial goes before one that waits, whatever its arguments."""
    first = a_payment(book, 500, "strong")
    await policy.send(first)
    await policy.send(an_end(first.call), a_payment(book, 60, "strong"))
    assert "person:bob denied it" in (await asked(policy, a_payment(book, 60))).reason
