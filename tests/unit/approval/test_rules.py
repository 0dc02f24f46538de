"""Who may decide, and what a decision comes to: tables first, then properties over all of them at once."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.approval import notices, rules
from placet.approval.rules import Answer, Approval, Withdrawal
from placet.approval.states import FINAL, MACHINE, Event, State
from placet.contracts.errors import SecurityAlert
from placet.contracts.messages import DecideApproval, DecisionClaims
from placet.contracts.messages.tool_calls import Edited
from placet.contracts.transitions import ExpectedRace
from placet.domain.deciders import Voter, may_approve
from placet.domain.directory import Directory
from tests.builders import NOON, a_call, an_approval_rule
from tests.support.approval_builders import LATER, a_request, an_approval, closed_as, some_claims

#: A directory without anybody: people are known by their keys alone.
NOBODY = Directory()
SECOND = timedelta(seconds=1)
OTHER_DIGEST = "f" * 64
VISITOR = {"person": "visitor-1", "roles": ["requester"], "proof": "conversation_token"}
HERE, ELSEWHERE = {"conversation_id": "conversation-1"}, {"conversation_id": "conversation-2"}

approvers = st.lists(st.sampled_from(["requester", "operators", "person:ada"]), min_size=1, unique=True)
people = st.fixed_dictionaries(
    {
        "person": st.sampled_from(["visitor-1", "visitor-2", "person:ada", "person:bob"]),
        "roles": st.lists(st.sampled_from(["requester", "operators"]), unique=True),
        "proof": st.sampled_from(["api_key", "conversation_token", "web_session"]),
        "conversation_id": st.sampled_from([None, "conversation-1", "conversation-2"]),
        "key_id": st.sampled_from([None, "key-1"]),
    }
)
cards = st.fixed_dictionaries(
    {
        "verb": st.sampled_from(["approve", "deny"]),
        "digest": st.sampled_from([a_call().digest, OTHER_DIGEST]),
        "revision": st.sampled_from([None, 1, 2]),
    }
)
moments = st.sampled_from([NOON, LATER - SECOND, LATER, LATER + SECOND])


def an_unread_decision(claims: DecisionClaims) -> DecideApproval:
    """Return the message around some claims; nobody looks at its signature here."""
    names = ("tenant", "approval_id", "decision_id")
    return DecideApproval(answer_to="gateway-1", decision="-", **{name: getattr(claims, name) for name in names})


def decide(approval: Approval | None, claims: DecisionClaims, now: datetime) -> Answer:
    """Return what a decision comes to where nobody else voted and nobody is listed."""
    return rules.decide(approval, claims, now, NOBODY)


def a_waiting_approval(*approvers: str) -> Approval:
    """Return a pending approval that these approvers may decide."""
    return an_approval(approval_rule=an_approval_rule(approvers=list(approvers)))


@pytest.mark.parametrize(
    ("approver", "who", "allowed"),
    [
        ("requester", VISITOR | HERE, True),
        ("requester", VISITOR | ELSEWHERE, False),
        ("requester", VISITOR, False),
        ("requester", VISITOR | HERE | {"person": "visitor-2"}, False),
        ("requester", VISITOR | HERE | {"roles": []}, False),
        ("requester", {"person": "visitor-1", "roles": ["requester"], "proof": "api_key"}, True),
        ("requester", {"person": "person:bob", "roles": ["operators"], "proof": "api_key"}, False),
        ("operators", {"person": "person:bob", "roles": ["operators"], "proof": "api_key"}, True),
        ("operators", {"person": "person:bob", "roles": ["operators"], "proof": "web_session", "key_id": "k"}, True),
        ("operators", {"person": "person:bob", "roles": ["operators"], "proof": "web_session"}, False),
        ("operators", {"person": "person:bob", "roles": ["operators"], "proof": "slack"}, False),
        ("operators", {"person": "person:bob", "roles": [], "proof": "api_key"}, False),
        ("operators", VISITOR | HERE, False),
        ("operators", VISITOR | HERE | {"roles": ["operators"]}, False),
        ("person:ada", {"person": "person:ada", "roles": [], "proof": "api_key"}, True),
        ("person:ada", {"person": "person:bob", "roles": ["operators"], "proof": "api_key"}, False),
        ("person:ada", {"person": "ada", "roles": ["operators"], "proof": "api_key"}, False),
        ("person:ada", VISITOR | HERE | {"person": "person:ada"}, False),
        ("person:ada", {"person": "person:ada", "roles": [], "proof": "web_session"} | ELSEWHERE, False),
    ],
)
def test_only_a_named_approver_may_decide(approver: str, who: dict[str, Any], *, allowed: bool) -> None:
    """A person counts only as what the gateway proved, and a conversation's token only in its conversation."""
    approval = a_waiting_approval(approver)
    claims = some_claims(approval, **who)
    found = may_approve(approval, Voter.of(claims), NOBODY), decide(approval, claims, NOON).outcome
    assert (allowed, "accepted" if allowed else "not_allowed") == found


def test_an_unknown_approval_is_not_found() -> None:
    """Without an approval there is nothing to judge."""
    answer = decide(None, some_claims(an_approval()), NOON)
    assert Answer("not_found", "There is no such approval.", None) == answer


@pytest.mark.parametrize(("verb", "event"), [("approve", Event.APPROVE), ("deny", Event.DENY)])
def test_a_decision_in_time_on_the_right_card_is_accepted(verb: str, event: Event) -> None:
    """One approver is enough, up to the last moment before the deadline."""
    approval = an_approval()
    answer = decide(approval, some_claims(approval, verb=verb), LATER - timedelta(microseconds=1))
    assert ("accepted", event) == (answer.outcome, answer.event)


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        ({"digest": OTHER_DIGEST}, "its digest differs"),
        ({"revision": 2}, "You were shown revision 2, and it is now revision 1"),
        ({"digest": OTHER_DIGEST, "revision": 2}, "its digest differs"),
    ],
)
def test_a_decision_on_another_card_is_stale_and_says_how(seen: dict[str, Any], says: str) -> None:
    """What the person saw must be what would run."""
    approval = an_approval()
    answer = decide(approval, some_claims(approval, **seen), NOON)
    assert ("stale", None, True) == (answer.outcome, answer.event, says in answer.detail)


def test_a_decision_without_a_revision_is_bound_by_its_digest() -> None:
    """A client that sends no revision still says what it saw."""
    approval = an_approval(revision=3)
    assert decide(approval, some_claims(approval, revision=None), NOON).outcome == "accepted"


@pytest.mark.parametrize("verb", ["approve", "deny"])
@pytest.mark.parametrize(
    ("state", "says"),
    [
        (State.APPROVED, "It was approved by person:ada at 2026-11-22 12:00:00 UTC."),
        (State.DENIED, "It was denied by person:ada at 2026-11-22 12:00:00 UTC."),
        (State.ANSWERED, "It was answered by person:ada at 2026-11-22 12:00:00 UTC."),
        (State.EXPIRED, "It expired at 2026-11-22 12:00:00 UTC: nobody decided in time."),
        (State.WITHDRAWN, "It was withdrawn at 2026-11-22 12:00:00 UTC: the call is superseded."),
    ],
)
def test_a_decision_after_the_end_hears_how_it_ended(state: State, says: str, verb: str) -> None:
    """The second click changes nothing, whatever it says, and learns who decided and when."""
    approval = closed_as(state)
    answer = decide(approval, some_claims(approval, verb=verb), NOON)
    assert Answer("already_decided", says, approval) == answer


def test_a_decision_at_the_deadline_expires_the_approval() -> None:
    """The deadline itself is too late: the decision finds out before the duty does."""
    approval = an_approval()
    claims = some_claims(approval)
    answer = decide(approval, claims, LATER)
    after = answer.after
    assert ("already_decided", Event.TIME_OUT) == (answer.outcome, answer.event)
    assert after is not None
    assert (State.EXPIRED, "expired", None, LATER) == (
        after.state,
        after.result_kind,
        after.decided_by,
        after.closed_at,
    )


def test_a_denial_keeps_the_persons_words() -> None:
    """Who said no, and why, is what the model and the history get."""
    approval = an_approval()
    claims = some_claims(approval, verb="deny", reason="too much")
    after = decide(approval, claims, NOON).after
    assert after is not None
    assert ("denied", "person:bob", "too much") == (after.result_kind, after.decided_by, after.decision_reason)


@pytest.mark.parametrize("kind", ["cancelled", "superseded"])
def test_a_withdrawal_closes_what_waits(kind: Any) -> None:
    """The call ends in the kind that the agent named."""
    after = rules.withdrawn(an_approval(), Withdrawal(kind, "why"), NOON)
    assert (State.WITHDRAWN, kind, "why", None) == (
        after.state,
        after.result_kind,
        after.decision_reason,
        after.decided_by,
    )


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_withdrawal_after_the_end_is_an_expected_race(state: State) -> None:
    """What is decided, runs or not, and stays."""
    with pytest.raises(ExpectedRace):
        rules.withdrawn(closed_as(state), Withdrawal("cancelled", ""), NOON)


def test_parting_leaves_each_approval_on_one_side() -> None:
    """Waiting ones are moved, closed ones are late."""
    waiting, over = an_approval(), closed_as(State.APPROVED)
    assert ([waiting], [over]) == rules.part([over, waiting], Event.WITHDRAW)


@pytest.mark.parametrize(
    "changes",
    [
        {"digest": OTHER_DIGEST},
        {"digest": a_call(arguments={"amount": 1}).digest},
        {"digest": a_call(tenant="other").digest, "tenant": "other"},
    ],
)
def test_a_request_whose_digest_does_not_fit_is_an_alert(changes: dict[str, Any]) -> None:
    """What people would approve must be what the bytes say, for the tenant that the message names."""
    request = a_request().model_copy(update={"call": a_call().model_copy(update=changes)})
    with pytest.raises(SecurityAlert):
        rules.check_request(request)


@pytest.mark.parametrize("shown", ['{"amount":1,"currency":"TRY"}', '{"currency":"TRY"}', "", "null"])
def test_a_request_that_shows_another_call_is_an_alert(shown: str) -> None:
    """People never see other arguments than those that would run."""
    with pytest.raises(SecurityAlert):
        rules.check_request(a_request(a_call(shown_arguments=shown)))


def test_a_request_that_says_it_was_edited_is_an_alert() -> None:
    """Nobody has seen it yet: an edit would stand in the history, and on the card, in somebody's name."""
    call = a_call()
    edited = Edited(person="person:ada", proposed=call.arguments, proposed_digest=call.digest)
    with pytest.raises(SecurityAlert):
        rules.check_request(a_request(call.model_copy(update={"edited": edited})))


@pytest.mark.parametrize("shown", ['{"amount":299,"currency":"TRY"}', '{"amount":"•••","currency":"TRY"}'])
def test_a_request_as_policy_sends_it_passes(shown: str) -> None:
    """A digest computed from the call's own fields fits, and values may be masked."""
    rules.check_request(a_request(a_call(shown_arguments=shown)))


def expected_outcome(approval: Approval, claims: DecisionClaims, *, late: bool) -> str:
    """Say what a decision should come to, in other words than the rules."""
    in_chat = claims.proof == "conversation_token"
    here = claims.conversation_id == "conversation-1" or (claims.conversation_id is None and not in_chat)
    names = set(approval.approval_rule.approvers)
    as_requester = "requester" in names and (claims.person, "requester" in claims.roles) == ("visitor-1", True)
    as_other = not in_chat and (("operators" in names and "operators" in claims.roles) or claims.person in names)
    # Nobody is in this directory, and who shows no key is known by it alone.
    known = claims.key_id is not None or claims.proof in {"api_key", "conversation_token"}
    if not (known and here and (as_requester or as_other)):
        return "not_allowed"
    if approval.state != "pending" or late:
        return "already_decided"
    return "accepted" if claims.digest != OTHER_DIGEST and claims.revision != 2 else "stale"


@given(approvers=approvers, who=people, card=cards, now=moments, state=st.sampled_from(State))
def test_any_decision_comes_to_what_a_plain_model_says(
    approvers: list[str], who: dict[str, Any], card: dict[str, Any], now: Any, state: State
) -> None:
    """Rights come first, then the state and the clock, then the card."""
    rule = an_approval_rule(approvers=approvers)
    approval = an_approval(approval_rule=rule) if state is State.PENDING else closed_as(state, approval_rule=rule)
    claims = some_claims(approval, **(who | card))
    answer = decide(approval, claims, now)
    assert expected_outcome(approval, claims, late=now >= LATER) == answer.outcome
    moves = answer.outcome == "accepted" or (answer.outcome == "already_decided" and state is State.PENDING)
    assert moves == (answer.event is not None)


@given(who=people, card=cards, now=moments, state=st.sampled_from(State))
def test_a_stranger_learns_nothing(who: dict[str, Any], card: dict[str, Any], now: Any, state: State) -> None:
    """To a person without rights every approval looks the same."""
    approval = an_approval() if state is State.PENDING else closed_as(state)
    claims = some_claims(approval, **(who | card))
    answer = decide(approval, claims, now)
    if answer.outcome == "not_allowed":
        told = notices.answered(an_unread_decision(claims), answer)
        assert ("", 0, "", "", None) == (told.state, told.revision, told.digest, told.decided_by, told.decided_at)


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["approve", "deny", "withdraw"]), st.integers(min_value=0, max_value=4_000)),
        min_size=1,
        max_size=8,
    )
)
def test_an_approval_ends_at_most_once(steps: list[tuple[str, int]]) -> None:
    """Whatever comes in which order, the first end stays, and nobody's approval counts after the deadline."""
    approval = an_approval()
    ends: list[Approval] = []
    for verb, seconds in sorted(steps, key=lambda step: step[1]):
        before, now = approval, NOON + timedelta(seconds=seconds)
        if verb == "withdraw":
            waiting, _ = rules.part([approval], Event.WITHDRAW)
            approval = rules.withdrawn(approval, Withdrawal("cancelled", ""), now) if waiting else approval
        else:
            claims = some_claims(approval, verb=verb)
            approval = decide(approval, claims, now).after or approval
        ends += [approval] if approval != before else []
    assert len(ends) <= 1
    assert all(end.state in MACHINE.final and end == approval for end in ends)
    assert approval.state is not State.APPROVED or (approval.closed_at is not None and approval.closed_at < LATER)
