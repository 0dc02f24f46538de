"""Veto windows on real PostgreSQL: a denied call that is asked again is held, whatever would let it through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from placet.contracts.messages import ApprovalRequested, ToolCallProposed, ToolCallRefused
from placet.contracts.signing import Signer
from placet.policy.rulebook import load_rulebook
from placet.policy.rules import Rulebook
from placet.policy.settings import PolicySettings
from placet.runtime.driver import DatabaseError
from tests.integration.policy.conftest import settings_with, two_replicas
from tests.integration.policy.test_judging_again import an_approved
from tests.support.house import Replica
from tests.support.policy_builders import a_grant_request, a_proposal, a_refusal, an_edit, an_end, kinds
from tests.support.races import LONG_ENOUGH, ROUNDS

pytestmark = LONG_ENOUGH
PERMITTED, HELD = "ToolCallPermitted", "ApprovalRequested"
#: A payment is held in the first place because the conversation is marked, and free without the mark.
WATCHING = """\
tools:
  pay: &tool
    description: Pay somebody.
    category: unsafe_api
    parameters: {type: object, properties: {amount: {type: number}}}
  ship: *tool
  post: *tool
rules:
  - name: marked-post
    match: {tool: post, labels: {marked: "*"}}
    effect: require_approval
    reason: It is marked.
    approval: {approvers: ["person:ada"], veto_window_seconds: 600}
  - name: with-others
    match: {tool: post}
    effect: stage
    reason: They go together.
  - name: marked
    match: {tool: pay, labels: {marked: "*"}}
    effect: require_approval
    reason: It is marked.
    approval: {approvers: ["person:ada"], veto_window_seconds: 600}
  - name: wide
    match: {tool: pay, labels: {wide: "*"}}
    effect: require_approval
    reason: Whoever asks.
    approval: {approvers: ["person:ada"], veto_window_seconds: 600, veto_within: tenant}
  - name: theirs
    match: {tool: pay, labels: {theirs: "*"}}
    effect: require_approval
    reason: Whoever asks.
    approval: {approvers: ["person:ada"], veto_window_seconds: 600, veto_within: requester}
  - name: free
    match: {tool: pay}
    effect: allow
    reason: It is not.
    limits: [{count: 2, per: tenant, within: 1d}]
  - name: no-more
    match: {tool: pay}
    effect: deny
    reason: Enough.
  - name: shipping
    match: {tool: ship}
    effect: require_approval
    reason: It leaves the house.
    approval:
      approvers: [operators]
      veto_window_seconds: 600
      veto_on: tool
      grants: {scope: agent, bounds: [amount]}
"""


@pytest.fixture(scope="session")
def watching(settings: PolicySettings) -> PolicySettings:
    """Settings that name the rulebook with veto windows."""
    return settings_with(settings, "watching", WATCHING)


@pytest.fixture
def book(watching: PolicySettings) -> Rulebook:
    """That rulebook."""
    return load_rulebook(watching.rulebook)


@pytest.fixture
async def policy(policy_url: str, watching: PolicySettings) -> AsyncIterator[Replica]:
    """Policy, judging by it."""
    async with two_replicas(policy_url, watching) as (replica, _):
        yield replica


def a_payment(book: Rulebook, amount: float = 5, *, marked: bool = False, **changes: Any) -> ToolCallProposed:
    """Return the proposal to pay something."""
    labels = {"marked": "yes"} if marked else {}
    return a_proposal(book, "pay", arguments={"amount": amount}, labels=labels, **changes)


async def a_denied_payment(policy: Replica, book: Rulebook, **changes: Any) -> ToolCallProposed:
    """Have a payment of 5 held and denied by bob."""
    proposed = a_payment(book, marked=True)
    assert [HELD] == kinds(await policy.send(proposed))
    await policy.send(an_end(proposed.call, **changes))
    return proposed


async def test_a_denied_call_is_held_although_a_rule_allows_it(policy: Replica, book: Rulebook) -> None:
    """The same people are asked, with the denial in the reason; the history links both calls."""
    first, again = await a_denied_payment(policy, book), a_payment(book)
    (held,) = await policy.send(again)
    assert isinstance(held, ApprovalRequested)
    assert ("veto-window", ["person:ada"]) == (held.rule, held.approval.approvers)
    assert (True, True) == (held.reason.startswith("Asked again: person:bob denied"), '"Too much."' in held.reason)
    rows = await policy.rows("SELECT subject_id, call_id, event, from_state FROM policy.history")
    linked = {"subject_id": first.call.call_id, "call_id": again.call.call_id}
    assert [{**linked, "event": "asked_again", "from_state": "denied"}] == rows
    assert [{"effect": "require_approval", "rule": "veto-window"}] == await policy.rows(
        "SELECT effect, rule FROM policy.verdicts WHERE call_id = :call_id", call_id=again.call.call_id
    )


async def test_what_a_window_held_is_judged_again_by_the_rule_that_let_it_through(
    policy: Replica, book: Rulebook, approver: Signer
) -> None:
    """A rule with limits had room for it, also where what stands below would deny it."""
    await a_denied_payment(policy, book)
    (held,) = await policy.send(a_payment(book))
    assert isinstance(held, ApprovalRequested)
    approved = an_approved(held.call, approver).model_copy(update={"rule": held.rule})
    assert [PERMITTED] == kinds(await policy.send(approved))


async def test_a_denied_call_does_not_come_back_staged(policy: Replica, book: Rulebook) -> None:
    """Its commit would ask others, or nobody: it is refused meanwhile, and the model is told why."""
    first = a_proposal(book, "post", labels={"marked": "yes"})
    assert [HELD] == kinds(await policy.send(first))
    await policy.send(an_end(first.call))
    (refused,) = await policy.send(a_proposal(book, "post"))
    assert isinstance(refused, ToolCallRefused)
    assert refused.reason.startswith("The call did not run: the same waits for people, or they denied it lately")


@pytest.mark.parametrize(
    ("label", "changes", "expected"),
    [
        ("marked", {"conversation_id": "other"}, PERMITTED),
        ("theirs", {"conversation_id": "other"}, HELD),
        ("theirs", {"conversation_id": "other", "requester": "visitor-2"}, PERMITTED),
        ("theirs", {"requester": "visitor-2"}, HELD),
        ("wide", {"conversation_id": "other", "requester": "visitor-2"}, HELD),
        ("wide", {"conversation_id": "other", "tenant": "globex"}, PERMITTED),
    ],
)
async def test_a_denial_reaches_as_far_as_its_rule_says(
    policy: Replica, book: Rulebook, label: str, changes: dict[str, Any], expected: str
) -> None:
    """Its own conversation, its requester wherever they ask, or the whole tenant; never another one."""
    first = a_proposal(book, "pay", arguments={"amount": 5}, labels={label: "yes"})
    assert [HELD] == kinds(await policy.send(first))
    await policy.send(an_end(first.call))
    assert [expected] == kinds(await policy.send(a_payment(book, **changes)))


@pytest.mark.parametrize("change", ["until = NULL", "denied_at = NULL"])
async def test_a_denial_without_its_window_is_refused(policy: Replica, book: Rulebook, change: str) -> None:
    """The database keeps both or neither: a denial that never ends, and an end of nothing, cannot be written."""
    await a_denied_payment(policy, book)
    with pytest.raises(DatabaseError, match='"ck_watched_calls_denied_until"'):
        await policy.execute(f"UPDATE policy.watched_calls SET {change}")  # noqa: S608


@pytest.mark.parametrize("amount", [5, 7, 9])
async def test_every_version_that_people_saw_is_held(
    policy: Replica, book: Rulebook, approver: Signer, amount: int
) -> None:
    """The proposed arguments, and those that approvers changed them to before the call was denied."""
    first = a_payment(book, marked=True)
    await policy.send(first)
    await policy.send(*(an_edit(first.call, changed, approver) for changed in (7, 9)))
    await policy.send(an_end(first.call))
    assert [HELD] == kinds(await policy.send(a_payment(book, amount)))
    assert [PERMITTED] == kinds(await policy.send(a_payment(book, 8)))


async def test_an_edited_call_that_was_approved_holds_nothing(
    policy: Replica, book: Rulebook, approver: Signer
) -> None:
    """Neither as it was proposed nor as it ran; an edit that comes after its end is not watched."""
    first = a_payment(book, marked=True)
    await policy.send(first)
    await policy.send(an_edit(first.call, 7, approver))
    await policy.send(an_end(first.call, "approved"))
    await policy.send(an_edit(first.call, 9, approver))
    assert [] == await policy.rows("SELECT call_id FROM policy.watched_calls")


async def test_an_edit_and_the_end_of_its_call_at_once_leave_nothing_behind(
    policy: Replica, book: Rulebook, approver: Signer
) -> None:
    """Whichever is first: what nobody waits for is not watched for ever."""
    for _ in range(ROUNDS):
        first = a_payment(book, marked=True)
        await policy.send(first)
        await asyncio.gather(policy.send(an_edit(first.call, 7, approver)), policy.send(an_end(first.call, "approved")))
        assert [] == await policy.rows("SELECT call_id FROM policy.watched_calls")


async def test_a_call_is_held_before_policy_hears_of_the_denial(policy: Replica, book: Rulebook) -> None:
    """The agent may hear of it first: what was held and is not known to have ended stands in the way already."""
    await policy.send(a_payment(book, marked=True))
    assert [HELD] == kinds(await policy.send(a_payment(book)))


@pytest.mark.parametrize("changes", [{"amount": 6}, {"conversation_id": "another"}, {"tenant": "another"}], ids=str)
async def test_another_call_is_not_held(policy: Replica, book: Rulebook, changes: dict[str, Any]) -> None:
    """Other arguments, another conversation, another tenant: nobody denied that."""
    await a_denied_payment(policy, book)
    assert [PERMITTED] == kinds(await policy.send(a_payment(book, **changes)))


@pytest.mark.parametrize("state", ["approved", "answered", "expired", "withdrawn"])
async def test_what_ended_without_a_denial_holds_nothing(policy: Replica, book: Rulebook, state: str) -> None:
    """Only people's no opens the window."""
    await a_denied_payment(policy, book, state=state)
    assert [PERMITTED] == kinds(await policy.send(a_payment(book)))


async def test_a_call_that_was_given_up_holds_nothing(policy: Replica, book: Rulebook) -> None:
    """Its request never became an approval; approval signs its end all the same."""
    proposed = a_payment(book, marked=True)
    await policy.send(proposed)
    await policy.send(a_refusal(proposed.call, "failed"))
    await policy.send(an_end(proposed.call, "withdrawn", decided_by="", reason=""))
    assert [PERMITTED] == kinds(await policy.send(a_payment(book)))


@pytest.mark.parametrize("kind", ["failed", "cancelled", "denied"])
async def test_a_refusal_before_the_denial_closes_no_window(policy: Replica, book: Rulebook, kind: str) -> None:
    """Nobody signs refusals, so whoever can write one cannot make policy deaf to the denial that comes after it."""
    proposed = a_payment(book, marked=True)
    await policy.send(proposed)
    await policy.send(a_refusal(proposed.call, kind))
    await policy.send(an_end(proposed.call))
    (held,) = await policy.send(a_payment(book))
    assert isinstance(held, ApprovalRequested)
    assert "person:bob denied" in held.reason


async def test_a_window_ends(policy: Replica, book: Rulebook) -> None:
    """Ten minutes after the denial the rules decide alone."""
    await a_denied_payment(policy, book, closed_at=datetime.now(UTC) - timedelta(seconds=601))
    assert [PERMITTED] == kinds(await policy.send(a_payment(book)))


async def test_a_denial_stands_whatever_is_heard_later(policy: Replica, book: Rulebook) -> None:
    """A second copy does not make the window longer, and no other end or refusal closes it."""
    first = await a_denied_payment(policy, book)
    until = await policy.rows("SELECT until FROM policy.watched_calls")
    await policy.send(an_end(first.call), an_end(first.call, "approved"))
    await policy.send(a_refusal(first.call, "failed"))
    assert until == await policy.rows("SELECT until FROM policy.watched_calls")


async def test_nobody_ends_the_watch_of_another_tenant(policy: Replica, book: Rulebook) -> None:
    """A call id is not enough."""
    proposed = a_payment(book, marked=True)
    await policy.send(proposed)
    await policy.send(an_end(proposed.call, "approved", tenant="another"))
    assert [HELD] == kinds(await policy.send(a_payment(book)))


async def test_a_second_denial_opens_its_own_window(policy: Replica, book: Rulebook) -> None:
    """What the window held is watched too, so asking again and again does not wear it out."""
    await a_denied_payment(policy, book, closed_at=datetime.now(UTC) - timedelta(seconds=500))
    again = a_payment(book)
    assert [HELD] == kinds(await policy.send(again))
    await policy.send(an_end(again.call, reason="Still no."))
    (held,) = await policy.send(a_payment(book))
    assert isinstance(held, ApprovalRequested)
    assert '"Still no."' in held.reason


async def test_a_limit_counts_what_a_window_holds(policy: Replica, book: Rulebook) -> None:
    """It took its place when it was judged, gives it back when it does not run, and nothing passes the limit."""
    await a_denied_payment(policy, book)
    held = [a_payment(book) for _ in range(2)]
    assert [[HELD], [HELD]] == [kinds(await policy.send(each)) for each in held]
    assert ["ToolCallRefused"] == kinds(await policy.send(a_payment(book)))
    await policy.send(a_refusal(held[0].call))
    assert [HELD] == kinds(await policy.send(a_payment(book)))


async def test_a_grant_does_not_outweigh_a_denial(policy: Replica, book: Rulebook, approver: Signer) -> None:
    """With `veto_on: tool` any call of the tool is held by its own rule, and the grant is not used up."""
    shipped = a_proposal(book, "ship", arguments={"amount": 100})
    await policy.send(shipped)
    await policy.send(an_end(shipped.call, "approved"))
    await policy.send(a_grant_request(shipped.call, approver))
    denied = a_proposal(book, "ship", arguments={"amount": 500})
    assert [HELD] == kinds(await policy.send(denied))
    await policy.send(an_end(denied.call))
    (held,) = await policy.send(a_proposal(book, "ship", arguments={"amount": 100}))
    assert isinstance(held, ApprovalRequested)
    assert ("shipping", True) == (held.rule, "person:bob denied it" in held.reason)
    assert [{"uses_left": 3}] == await policy.rows("SELECT uses_left FROM policy.grants")


@pytest.mark.parametrize("state", ["withdrawn", "denied"])
async def test_a_forged_end_opens_and_closes_no_window(policy: Replica, book: Rulebook, state: str) -> None:
    """Whoever can write to the broker cannot have a call watched no more, nor hold what nobody denied."""
    first = a_payment(book, marked=True)
    await policy.send(first)
    before = await policy.rows("SELECT * FROM policy.watched_calls")
    await policy.send(an_end(first.call, state, signature="forged"))
    assert [True] == [reason.startswith("security:") for reason in policy.dead]
    assert before == await policy.rows("SELECT * FROM policy.watched_calls")


async def test_a_denied_call_that_is_reworded_fifty_times_is_held_each_time(policy: Replica, book: Rulebook) -> None:
    """T16: with `veto_on: tool` no wording and no amount finds a way; each card names who denied it."""
    first = a_proposal(book, "ship", arguments={"amount": 50})
    await policy.send(first)
    await policy.send(an_end(first.call))
    reworded = [a_proposal(book, "ship", arguments={"amount": 50 + number / 100}) for number in range(50)]
    sent = await policy.send(*reworded)
    held = [each for each in sent if isinstance(each, ApprovalRequested)]
    assert (50, [HELD] * 50) == (len(sent), kinds(sent))
    assert {("shipping", True)} == {(each.rule, "person:bob denied" in each.reason) for each in held}


@pytest.mark.parametrize("change", ["unsigned", "changed", "moved", "replayed"])
async def test_a_forged_edit_is_judged_by_nobody(
    policy: Replica, book: Rulebook, approver: Signer, change: str
) -> None:
    """Whoever can write to the broker cannot have other arguments judged: approval's word is signed as a whole."""
    first, other = a_payment(book, marked=True), a_payment(book, marked=True)
    await policy.send(first, other)
    genuine = an_edit(first.call, 7, approver)
    forgeries: dict[str, dict[str, Any]] = {
        "unsigned": {"signature": "forged"},
        "changed": {"call": an_edit(first.call, 8, approver).call},
        "moved": {"approval_id": "another"},
        "replayed": {"call": an_edit(other.call, 7, approver).call, "edit_id": "another"},
    }
    before = await policy.rows("SELECT * FROM policy.watched_calls ORDER BY call_id")
    assert [] == await policy.send(genuine.model_copy(update=forgeries[change]))
    assert [True] == [reason.startswith("security:") for reason in policy.dead]
    assert before == await policy.rows("SELECT * FROM policy.watched_calls ORDER BY call_id")
