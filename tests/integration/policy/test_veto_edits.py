"""Edits on real PostgreSQL: what people denied does not come back through one, and none passes a limit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from placet.contracts.canonical import canonical_text, parse_arguments
from placet.contracts.messages import ApprovalRequested, EditJudged, EditProposed, ToolCall, ToolCallProposed
from placet.contracts.messages.tool_calls import Edited
from placet.contracts.permit import digest_of
from placet.contracts.signed import signed
from placet.contracts.signing import Signer
from placet.policy.rulebook import load_rulebook
from placet.policy.rules import Rulebook
from placet.policy.settings import PolicySettings
from tests.builders import NOON
from tests.integration.policy.conftest import settings_with, two_replicas
from tests.integration.policy.test_judging_again import an_approved
from tests.integration.policy.test_staging import a_commit, staged
from tests.support.house import Replica
from tests.support.policy_builders import a_proposal, an_edit, an_end, kinds

#: A label says which rule holds a call first; what is left of `pay` is free, and of `send` as far as it has room.
EDITED = """\
tools:
  pay: &tool
    description: Pay somebody.
    category: unsafe_api
    parameters: {type: object, properties: {amount: {type: number}}}
  send: *tool
  book: *tool
rules:
  - name: marked-commits
    match: {tool: commit_changes, labels: {marked: "*"}}
    effect: require_approval
    reason: It is marked.
    approval: {approvers: ["person:ada"], veto_window_seconds: 600, veto_on: tool}
  - name: large-commits
    match: {tool: commit_changes}
    when: size(arguments.entries) > 1
    effect: require_approval
    reason: It is much.
    approval: {approvers: [requester], veto_window_seconds: 600}
  - name: commits
    match: {tool: commit_changes}
    effect: allow
    reason: It is little.
  - name: bookings
    match: {tool: book}
    effect: stage
    reason: They wait together.
  - name: marked
    match: {labels: {marked: "*"}}
    effect: require_approval
    reason: It is marked.
    approval: {approvers: ["person:ada"], edits: true, veto_window_seconds: 600, veto_within: tenant}
  - name: any-amount
    match: {tool: pay, labels: {watched: "*"}}
    when: arguments.amount > 100
    effect: require_approval
    reason: It is much.
    approval: {approvers: [requester], edits: true, veto_window_seconds: 600, veto_on: tool}
  - name: big
    match: {tool: pay}
    when: arguments.amount > 100
    effect: require_approval
    reason: It is much.
    approval: {approvers: [requester], edits: true}
  - name: free
    match: {tool: pay}
    effect: allow
    reason: It is little.
  - name: tiny
    match: {tool: send}
    when: arguments.amount < 2
    effect: allow
    reason: It is nothing.
  - name: little
    match: {tool: send}
    effect: allow
    reason: A hundred a day.
    limits: [{sum: {argument: amount, at_most: 100}, per: tenant, within: 1d}]
  - name: over
    match: {tool: send}
    effect: deny
    reason: More than a hundred a day.
"""


@pytest.fixture(scope="session")
def editing(settings: PolicySettings) -> PolicySettings:
    """Settings that name that rulebook."""
    return settings_with(settings, "editing", EDITED)


@pytest.fixture
def book(editing: PolicySettings) -> Rulebook:
    """That rulebook."""
    return load_rulebook(editing.rulebook)


@pytest.fixture
async def policy(policy_url: str, editing: PolicySettings) -> AsyncIterator[Replica]:
    """Policy, judging by it."""
    async with two_replicas(policy_url, editing) as (replica, _):
        yield replica


def a_call_of(book: Rulebook, tool: str, amount: float, label: str = "", **changes: Any) -> ToolCallProposed:
    """Return the proposal of a call, in a conversation with a label."""
    return a_proposal(book, tool, arguments={"amount": amount}, labels={label: "yes"} if label else {}, **changes)


async def denied(policy: Replica, book: Rulebook, tool: str, amount: float) -> None:
    """Have a call held for ada, and denied by bob, in a conversation of its own."""
    proposed = a_call_of(book, tool, amount, "marked", conversation_id="first")
    assert ["ApprovalRequested"] == kinds(await policy.send(proposed))
    await policy.send(an_end(proposed.call))


async def held(policy: Replica, proposed: ToolCallProposed, rule: str) -> ToolCall:
    """Have a call held by a rule; return it."""
    (sent,) = await policy.send(proposed)
    assert isinstance(sent, ApprovalRequested)
    assert rule == sent.rule
    return proposed.call


async def edited(policy: Replica, call: ToolCall, amount: float, signer: Signer, rule: str) -> EditJudged:
    """Return what policy says of a call with another amount."""
    (judged,) = await policy.send(an_edit(call, amount, signer, rule=rule))
    assert isinstance(judged, EditJudged)
    return judged


async def test_a_denied_call_does_not_come_back_through_an_edit(
    policy: Replica, book: Rulebook, approver: Signer
) -> None:
    """Whoever asks would decide alone about what ada's people denied, also in a second step; anything else is free."""
    await denied(policy, book, "pay", 5)
    call = await held(policy, a_call_of(book, "pay", 500), "big")
    answers = [await edited(policy, call, amount, approver, "big") for amount in (5, 6, 5)]
    assert [False, True, False] == [each.accepted for each in answers]
    assert ("people denied it lately" in answers[0].detail, "bob" in answers[0].detail) == (True, False)


async def test_what_waits_does_not_run_through_an_edit(policy: Replica, book: Rulebook, approver: Signer) -> None:
    """Nobody is faster than the news of the denial."""
    await policy.send(a_call_of(book, "pay", 5, "marked", conversation_id="first"))
    call = await held(policy, a_call_of(book, "pay", 500), "big")
    assert not (await edited(policy, call, 5, approver, "big")).accepted


async def test_the_people_of_a_denied_call_edit_into_it(policy: Replica, book: Rulebook, approver: Signer) -> None:
    """Ada is asked here and was asked there: nobody is got round."""
    for amount in (5, 7):
        await denied(policy, book, "pay", amount)
    call = await held(policy, a_call_of(book, "pay", 5), "veto-window")
    assert (await edited(policy, call, 7, approver, "veto-window")).accepted


async def test_a_call_does_not_stand_in_its_own_way(policy: Replica, book: Rulebook, approver: Signer) -> None:
    """With `veto_on: tool` each version of it is watched; another one that its people did not see yet is theirs too."""
    call = await held(policy, a_call_of(book, "pay", 500, "watched"), "any-amount")
    answers = [await edited(policy, call, amount, approver, "any-amount") for amount in (5, 6)]
    assert [True, True] == [each.accepted for each in answers]


@pytest.mark.parametrize("is_denied", [True, False])
async def test_a_denied_commit_does_not_come_back_by_leaving_out(
    policy: Replica, book: Rulebook, approver: Signer, *, is_denied: bool
) -> None:
    """What is left would run unasked, and so much is nobody's to decide but ada's people; each version is watched."""
    entries = [await staged(policy, book) for _ in range(2)]
    if is_denied:
        first = a_commit(entries, labels={"marked": "yes"})
        await policy.send(first)
        await policy.send(an_end(first.call))
    call = await held(policy, a_commit(entries), "large-commits")
    kept = {**parse_arguments(call.arguments), "entries": [entries[0].call_id]}
    proposed = Edited(person="person:eve", proposed=call.arguments, proposed_digest=call.digest)
    left = call.model_copy(update={"arguments": canonical_text(kept), "edited": proposed})
    left = left.model_copy(update={"digest": digest_of(left)})
    edit = EditProposed(tenant="acme", edit_id="e1", approval_id="a1", rule="large-commits", call=left)
    (judged,) = await policy.send(signed(edit, approver, NOON))
    assert isinstance(judged, EditJudged)
    versions = await policy.rows("SELECT * FROM policy.watched_calls WHERE call_id = :call", call=call.call_id)
    assert (not is_denied, 1 if is_denied else 2) == (judged.accepted, len(versions))


async def test_an_edit_takes_no_more_than_a_held_call_has(policy: Replica, book: Rulebook, approver: Signer) -> None:
    """A window holds what has room for 5: more than that is as if it had none, and less keeps what it has."""
    await denied(policy, book, "send", 5)
    call = await held(policy, a_call_of(book, "send", 5), "veto-window")
    answers = [await edited(policy, call, amount, approver, "veto-window") for amount in (5_000, 50, 3)]
    assert [False, False, True] == [each.accepted for each in answers]
    assert [{"amount": 5, "released_at": None}] == await policy.rows(
        "SELECT amount, released_at FROM policy.reservations"
    )


async def test_an_edit_of_what_needed_no_room_takes_none(policy: Replica, book: Rulebook, approver: Signer) -> None:
    """A rule without limits let it through; one with limits does not let the edited call run."""
    await denied(policy, book, "send", 1)
    call = await held(policy, a_call_of(book, "send", 1), "veto-window")
    assert not (await edited(policy, call, 50, approver, "veto-window")).accepted


@pytest.mark.parametrize(
    ("amount", "expected"), [(5, "ToolCallPermitted"), (3, "ToolCallPermitted"), (50, "ToolCallRefused")]
)
async def test_what_was_edited_is_judged_again_within_its_room(
    policy: Replica, book: Rulebook, approver: Signer, amount: int, expected: str
) -> None:
    """Approved under another rulebook, a call runs by a limited rule only as far as it has room there."""
    await denied(policy, book, "send", 5)
    call = await held(policy, a_call_of(book, "send", 5), "veto-window")
    approved = an_approved(an_edit(call, amount, approver).call, approver)
    sent = await policy.send(approved.model_copy(update={"rule": "veto-window"}))
    assert [expected] == kinds(sent)


async def test_what_gave_its_room_back_has_none(policy: Replica, book: Rulebook, approver: Signer) -> None:
    """A call that is said to be over, rightly or not, is not let through by a limit that counts it no more."""
    await denied(policy, book, "send", 5)
    call = await held(policy, a_call_of(book, "send", 5), "veto-window")
    await policy.execute("UPDATE policy.reservations SET released_at = now(), released_as = 'expired'")
    assert not (await edited(policy, call, 4, approver, "veto-window")).accepted
