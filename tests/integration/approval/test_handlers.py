"""What approval does with each message, on real PostgreSQL: opened, decided, withdrawn, and each only once."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet.approval.store.values import PASSING
from placet.contracts.errors import PlacetError
from placet.contracts.ids import new_id
from placet.contracts.messages import (
    ApprovalClosed,
    ApprovalOpened,
    DecisionAnswered,
    Message,
    ShownCall,
    ToolCall,
    ToolCallPermitted,
    ToolCallRefused,
    WatchedCallClosed,
)
from placet.contracts.messages.tool_calls import Category
from placet.contracts.permit import verify_permit
from placet.contracts.signed import signed, verify_signed
from placet.contracts.signing import Signer, Verifier, create_keys, load_signer
from tests.builders import NOON, a_call, an_abandonment, an_approval_rule, an_event
from tests.support.approval_builders import REFUSED, a_decision, a_request, a_withdrawal, some_claims
from tests.support.house import Replica

VISITOR: dict[str, Any] = {
    "person": "visitor-1",
    "roles": ["requester"],
    "proof": "conversation_token",
    "conversation_id": "conversation-1",
}


async def opened_by(replica: Replica, call: ToolCall | None = None, **changes: Any) -> ApprovalOpened:
    """Have a call held; return its card."""
    sent = await replica.send(a_request(call, **changes))
    assert [ApprovalOpened] == [type(message) for message in sent]
    card = sent[0]
    assert isinstance(card, ApprovalOpened)
    return card


def by_type(sent: list[Message]) -> dict[type[Message], Any]:
    """Return messages by their type; one of each."""
    found = {type(message): message for message in sent}
    assert len(found) == len(sent)
    return found


async def history_of(replica: Replica, approval_id: str) -> list[tuple[str, str | None, str, str]]:
    """Return event, states and actor of each history row, oldest first."""
    rows = await replica.rows("SELECT * FROM approval.history WHERE subject_id = :id ORDER BY id", id=approval_id)
    return [(row["event"], row["from_state"], row["to_state"], row["actor"]) for row in rows]


async def test_a_held_call_is_opened_and_waits_by_the_database_clock(replica: Replica) -> None:
    """The row keeps the call as it came; its deadline is the rule's seconds after the database's now."""
    call = a_call(labels={"tier": "gold"}, language="tr", origins={"/to": ["tool:find"]}, asked="please")
    card = await opened_by(replica, call, approval=an_approval_rule(expires_after_seconds=60))
    row = (await replica.rows("SELECT *, clock_timestamp() AS clock FROM approval.approvals"))[0]
    kept = {**row, "shown_arguments": row["shown_arguments"] or row["arguments"]}
    assert call.model_dump(exclude=set(PASSING)) | {"base": None} == {
        name: kept[name] for name in ToolCall.model_fields.keys() - PASSING
    }
    shown = ShownCall.model_validate(call.model_dump())
    assert (shown, 1, "pending", card.approval_id) == (card.call, card.revision, row["state"], row["approval_id"])
    assert row["expires_at"] - row["created_at"] == timedelta(seconds=60) == card.expires_at - row["created_at"]
    assert row["created_at"] <= row["clock"]
    assert [("opened", None, "pending", "policy")] == await history_of(replica, card.approval_id)


async def test_a_second_request_for_the_call_has_no_effect(replicas: tuple[Replica, Replica]) -> None:
    """One approval per call, also when another replica gets policy's request in another event."""
    request = a_request()
    await opened_by(replicas[0], request.call)
    assert [] == await replicas[1].send(request)
    assert [] == replicas[1].dead
    assert [{"count": 1}] == await replicas[0].rows("SELECT count(*) FROM approval.approvals")


async def test_the_same_event_twice_opens_once(replicas: tuple[Replica, Replica]) -> None:
    """A delivery that comes again, to any replica, finds its id in the inbox."""
    event = an_event(replicas[0].as_sent(a_request()))
    sent = [*await replicas[0].send_events(event, event), *await replicas[1].send_events(event)]
    assert [ApprovalOpened] == [type(message) for message in sent]


async def test_a_request_with_a_wrong_digest_is_buried_as_an_attack(replica: Replica) -> None:
    """Nobody is asked to approve what the digest does not bind; its neighbour in the envelope is opened."""
    good, bad = a_request(), a_request(a_call(digest="0" * 64))
    assert [ApprovalOpened] == [type(message) for message in await replica.send(bad, good)]
    assert [True] == [reason.startswith("security:") for reason in replica.dead]


@pytest.mark.parametrize(
    "changes",
    [
        {"approval": an_approval_rule(approvers=["person:eve"])},
        {"pool": "other"},
        {"category": Category.SAFE_READ},
        {"summary": "Nothing to see."},
        {"permit_expires_after_seconds": 10**6},
        {"signature": ""},
        {"signature": "forged"},
    ],
    ids=lambda changes: "-".join(map(str, changes.values()))[:20],
)
async def test_a_forged_request_is_buried_as_an_attack(replica: Replica, changes: dict[str, Any]) -> None:
    """Whoever can write to the broker cannot say who decides: policy's word is signed as a whole."""
    good, bad = a_request(), replica.as_sent(a_request()).model_copy(update=changes)
    sent = await replica.send_events(an_event(bad), an_event(replica.as_sent(good)))
    assert [good.call.call_id] == [each.call.call_id for each in sent if isinstance(each, ApprovalOpened)]
    assert [True] == [reason.startswith("security:") for reason in replica.dead]
    assert [{"call_id": good.call.call_id}] == await replica.rows("SELECT call_id FROM approval.approvals")


async def test_only_policy_may_ask_for_an_approval(replica: Replica, keys: Path) -> None:
    """A signature of another service is none, also for the same words."""
    for issuer in ("approval", "gateway"):
        with pytest.raises(PlacetError):
            signed(a_request(), load_signer(keys, issuer), NOON)


async def test_an_approval_permits_exactly_the_call(replica: Replica, gateway: Signer, verifier: Verifier) -> None:
    """In one transaction: a permit that executors accept, the end of the card, and the answer to the person."""
    call = a_call()
    card = await opened_by(replica, call)
    claims = some_claims(card)
    sent = by_type(await replica.send(a_decision(gateway, claims)))
    assert {ToolCallPermitted, ApprovalClosed, DecisionAnswered} == set(sent)
    permitted, closed, answered = sent[ToolCallPermitted], sent[ApprovalClosed], sent[DecisionAnswered]
    permit = verify_permit(verifier, permitted.permit, call, pool="payments")
    assert ("approval", card.approval_id, 900) == (permit.iss, permit.reference, permit.exp - permit.iat)
    assert ("approved", "person:bob") == (closed.state, closed.decided_by)
    assert ("accepted", "approved", "person:bob") == (answered.outcome, answered.state, answered.decided_by)
    assert ("gateway-1", closed.closed_at) == (answered.answer_to, answered.decided_at)
    assert [("opened", None, "pending", "policy"), ("approve", "pending", "approved", "person:bob")] == (
        await history_of(replica, card.approval_id)
    )


async def test_a_denial_refuses_the_call_with_the_persons_words(replica: Replica, gateway: Signer) -> None:
    """The model is told who said no and why; no permit is issued."""
    card = await opened_by(replica)
    decision = a_decision(gateway, some_claims(card, verb="deny", reason="too much", **VISITOR))
    sent = by_type(await replica.send(decision))
    assert {*REFUSED, DecisionAnswered} == set(sent)
    refused = sent[ToolCallRefused]
    assert ("denied", "visitor-1", True) == (refused.kind, refused.decided_by, '"too much"' in refused.reason)
    assert ("denied", "too much") == (sent[ApprovalClosed].state, sent[ApprovalClosed].reason)


async def test_what_is_sent_goes_on_in_the_thread_of_the_call(replica: Replica, gateway: Signer) -> None:
    """Correlation and trace are those of the conversation; the cause is the decision; the answer is the gateway's."""
    asked = an_event(replica.as_sent(a_request()), correlation_id="thread-1")
    await replica.send_events(asked)
    card = replica.all_sent(ApprovalOpened)[0]
    decided = an_event(a_decision(gateway, some_claims(card)))
    await replica.send_events(decided)
    events = {type(event.message): event for event in replica.sent if event.causation_id == decided.id}
    for kind in (ToolCallPermitted, ApprovalClosed):
        event = events[kind]
        assert ("thread-1", asked.traceparent[:35]) == (event.correlation_id, event.traceparent[:35])
    answer = events[DecisionAnswered]
    assert (decided.correlation_id, decided.traceparent[:35]) == (answer.correlation_id, answer.traceparent[:35])


async def test_a_second_decision_is_told_who_decided_and_when(replica: Replica, gateway: Signer) -> None:
    """The first one stays; the late click stands in the history and in the decisions."""
    card = await opened_by(replica)
    first = by_type(await replica.send(a_decision(gateway, some_claims(card))))
    late = some_claims(card, verb="deny", person="person:ada", roles=[])
    answer = (await replica.send(a_decision(gateway, late)))[0]
    assert isinstance(answer, DecisionAnswered)
    assert ("already_decided", "approved", "person:bob") == (answer.outcome, answer.state, answer.decided_by)
    assert first[ApprovalClosed].closed_at == answer.decided_at
    assert ("deny", "approved", "approved", "person:ada") == (await history_of(replica, card.approval_id))[-1]
    kept = await replica.rows("SELECT person, verb, outcome FROM approval.decisions ORDER BY decided_at")
    assert [("person:bob", "approve", "accepted"), ("person:ada", "deny", "already_decided")] == [
        tuple(row.values()) for row in kept
    ]


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({"digest": "f" * 64}, "stale"),
        ({"revision": 7}, "stale"),
        ({"person": "person:eve", "roles": []}, "not_allowed"),
        (VISITOR | {"conversation_id": "conversation-2"}, "not_allowed"),
        ({"approval_id": "unknown"}, "not_found"),
        ({"tenant": "other"}, "not_found"),
    ],
    ids=["digest", "revision", "stranger", "other-conversation", "unknown", "other-tenant"],
)
async def test_a_decision_that_does_not_count_changes_nothing(
    replica: Replica, gateway: Signer, changes: dict[str, Any], outcome: str
) -> None:
    """It is answered and kept, and the approval still waits for the right person with the right card."""
    card = await opened_by(replica)
    sent = await replica.send(a_decision(gateway, some_claims(card, **changes)))
    assert [outcome] == [message.outcome for message in sent if isinstance(message, DecisionAnswered)]
    assert len(sent) == 1
    rows = await replica.rows("SELECT state, outcome FROM approval.approvals, approval.decisions")
    assert [{"state": "pending", "outcome": outcome}] == rows
    accepted = await replica.send(a_decision(gateway, some_claims(card)))
    assert ToolCallPermitted in by_type(accepted)


async def test_another_tenants_approval_looks_like_none(replica: Replica, gateway: Signer) -> None:
    """Nothing in the answer tells a foreign approval from an unknown one, decided or not."""
    card = await opened_by(replica)
    await replica.send(a_decision(gateway, some_claims(card)))
    answers = []
    for changes in ({"approval_id": "unknown"}, {"approval_id": card.approval_id}):
        claims = some_claims(card, tenant="other", **changes)
        answer = (await replica.send(a_decision(gateway, claims)))[0]
        answers.append(answer.model_dump(exclude={"approval_id", "decision_id"}))
    assert answers[0] == answers[1]


async def test_the_same_decision_again_gets_the_same_answer(replicas: tuple[Replica, Replica], gateway: Signer) -> None:
    """A client that repeats itself, at another gateway and replica, hears once more that it was accepted."""
    card = await opened_by(replicas[0])
    claims = some_claims(card)
    first = by_type(await replicas[0].send(a_decision(gateway, claims)))[DecisionAnswered]
    again = await replicas[1].send(a_decision(gateway, claims, answer_to="gateway-2"))
    assert [first.model_copy(update={"answer_to": "gateway-2"})] == again
    assert [{"count": 1}] == await replicas[0].rows("SELECT count(*) FROM approval.decisions")


async def test_a_refused_decision_again_is_not_judged_anew(replica: Replica, gateway: Signer) -> None:
    """An id answered with `stale` stays stale: only a new decision can count."""
    card = await opened_by(replica)
    decision = a_decision(gateway, some_claims(card, digest="f" * 64))
    first, second = await replica.send(decision), await replica.send(decision)
    assert first == second
    assert [{"state": "pending"}] == await replica.rows("SELECT state FROM approval.approvals")


async def test_a_decision_id_with_other_contents_is_buried(replica: Replica, gateway: Signer) -> None:
    """One id means one decision: the other one is neither counted nor answered with the first one's answer."""
    card = await opened_by(replica)
    claims = some_claims(card, digest="f" * 64)
    await replica.send(a_decision(gateway, claims))
    assert [] == await replica.send(a_decision(gateway, some_claims(card, decision_id=claims.decision_id)))
    assert [True] == ["used for another decision" in reason for reason in replica.dead]


async def test_a_forged_decision_is_buried_and_decides_nothing(replica: Replica, tmp_path: Path) -> None:
    """A signature by any other key is a security alert, and the card still waits."""
    create_keys(tmp_path)
    card = await opened_by(replica)
    forged = a_decision(load_signer(tmp_path, "gateway"), some_claims(card))
    assert [] == await replica.send(forged)
    assert [True] == [reason.startswith("security: forged decision") for reason in replica.dead]
    rows = await replica.rows("SELECT state, (SELECT count(*) FROM approval.decisions) AS kept FROM approval.approvals")
    assert [{"state": "pending", "kept": 0}] == rows


async def test_a_forged_decision_does_not_spoil_its_envelope(replica: Replica, gateway: Signer, tmp_path: Path) -> None:
    """The genuine decisions around it are counted, each once."""
    create_keys(tmp_path)
    cards = [await opened_by(replica) for _ in range(3)]
    signers = [gateway, load_signer(tmp_path, "gateway"), gateway]
    decisions = [a_decision(signer, some_claims(card)) for signer, card in zip(signers, cards, strict=True)]
    sent = await replica.send(*decisions)
    permitted = [message.call.call_id for message in sent if isinstance(message, ToolCallPermitted)]
    assert ([cards[0].call.call_id, cards[2].call.call_id], 1) == (sorted(permitted), len(replica.dead))


async def test_a_withdrawal_closes_what_waits_and_nothing_else(replica: Replica, gateway: Signer) -> None:
    """Waiting calls get their typed result, a decided one runs on, an unknown one is remembered."""
    waiting, decided = [await opened_by(replica) for _ in range(2)]
    await replica.send(a_decision(gateway, some_claims(decided)))
    unknown = a_call()
    sent = await replica.send(a_withdrawal(waiting.call, decided.call, unknown))
    refused = by_type(sent)[ToolCallRefused]
    assert set(REFUSED) == set(by_type(sent))
    assert (waiting.call.call_id, "superseded", True) == (
        refused.call_id,
        refused.kind,
        "Not run: the user wrote again." in refused.reason,
    )
    assert ("withdraw", "pending", "withdrawn", "agent") == (await history_of(replica, waiting.approval_id))[-1]
    assert ("withdraw", "approved", "approved", "agent") == (await history_of(replica, decided.approval_id))[-1]
    remembered = await replica.rows("SELECT call_id FROM approval.calls WHERE withdrawn_kind IS NOT NULL")
    assert [{"call_id": unknown.call_id}] == remembered


@pytest.mark.parametrize(
    ("ruled", "by_default", "state"),
    [
        (None, "wait", "pending"),
        (None, "supersede", "withdrawn"),
        ("wait", "supersede", "pending"),
        ("supersede", "wait", "withdrawn"),
    ],
)
async def test_a_rule_says_whether_a_message_supersedes_its_call(
    replica: Replica, ruled: str | None, by_default: str, state: str
) -> None:
    """The rule goes before the agent's default; what stays says in its history that it was asked to go."""
    card = await opened_by(replica, approval=an_approval_rule(on_message_while_pending=ruled))
    withdrawal = a_withdrawal(card.call).model_copy(update={"by_default": by_default})
    sent = [type(message) for message in await replica.send(withdrawal)]
    assert ([] if state == "pending" else REFUSED) == sent
    assert [{"state": state}] == await replica.rows("SELECT state FROM approval.approvals")
    assert ("withdraw", "pending", state, "agent") == (await history_of(replica, card.approval_id))[-1]


async def test_a_cancelled_call_is_closed_whatever_its_rule_says(replica: Replica) -> None:
    """The rule is about messages of the user only."""
    card = await opened_by(replica, approval=an_approval_rule(on_message_while_pending="wait"))
    await replica.send(a_withdrawal(card.call, kind="cancelled"))
    assert [{"state": "withdrawn"}] == await replica.rows("SELECT state FROM approval.approvals")


async def test_a_message_by_default_leaves_alone_what_is_not_held_yet(replica: Replica) -> None:
    """Where the agent waits by default, a call that comes to people after the message is about what it said."""
    coming = a_request(approval=an_approval_rule(on_message_while_pending="supersede"))
    await replica.send(a_withdrawal(coming.call).model_copy(update={"by_default": "wait"}))
    assert [ApprovalOpened] == [type(message) for message in await replica.send(coming)]


async def test_a_call_withdrawn_before_it_was_held_is_closed_at_once(replicas: tuple[Replica, Replica]) -> None:
    """No card is shown for it, and the agent has its one result."""
    request = a_request()
    assert [] == await replicas[0].send(a_withdrawal(request.call, kind="cancelled", reason=""))
    sent = by_type(await replicas[1].send(request))
    assert set(REFUSED) == set(sent)
    assert ("cancelled", "withdrawn") == (sent[ToolCallRefused].kind, sent[ApprovalClosed].state)
    expected = [("opened", None, "pending", "policy"), ("withdraw", "pending", "withdrawn", "agent")]
    assert expected == await history_of(replicas[0], sent[ApprovalClosed].approval_id)
    assert [] == await replicas[0].send(request)


async def test_a_withdrawal_twice_refuses_once(replicas: tuple[Replica, Replica]) -> None:
    """The second one is an expected race with a history row."""
    card = await opened_by(replicas[0])
    await replicas[0].send(a_withdrawal(card.call))
    assert [] == await replicas[1].send(a_withdrawal(card.call, kind="cancelled"))
    assert ("withdraw", "withdrawn", "withdrawn", "agent") == (await history_of(replicas[0], card.approval_id))[-1]


async def test_another_tenant_cannot_withdraw_a_call(replica: Replica) -> None:
    """Neither an open approval nor one to come is touched by a withdrawal in another tenant's name."""
    card, coming = await opened_by(replica), a_request()
    assert [] == await replica.send(a_withdrawal(card.call, coming.call, tenant="other"))
    assert [{"state": "pending"}] == await replica.rows("SELECT state FROM approval.approvals")
    assert [ApprovalOpened] == [type(message) for message in await replica.send(coming)]


async def test_a_decision_on_a_withdrawn_call_is_too_late(replica: Replica, gateway: Signer) -> None:
    """The person is told that the conversation did not want it any more."""
    card = await opened_by(replica)
    await replica.send(a_withdrawal(card.call))
    answer = (await replica.send(a_decision(gateway, some_claims(card))))[0]
    assert isinstance(answer, DecisionAnswered)
    assert ("already_decided", "withdrawn", "") == (answer.outcome, answer.state, answer.decided_by)


async def test_an_envelope_of_everything_is_one_transaction(replica: Replica, gateway: Signer) -> None:
    """64 decisions in one envelope: each permitted once, with few round trips for each."""
    requests = [a_request(a_call(message_id=new_id())) for _ in range(64)]
    cards = [message for message in await replica.send(*requests) if isinstance(message, ApprovalOpened)]
    sent = await replica.send(*[a_decision(gateway, some_claims(card)) for card in cards])
    permitted = [message.call.call_id for message in sent if isinstance(message, ToolCallPermitted)]
    assert (64, 64, []) == (len(permitted), len(set(permitted)), replica.dead)


async def test_a_call_whose_request_was_given_up_fails_and_waits_for_nobody(replicas: tuple[Replica, Replica]) -> None:
    """Its one result comes from here, and a second copy of the request opens no card."""
    request = a_request()
    refused = by_type(await replicas[0].send(an_abandonment("approval.requests", request.call)))[ToolCallRefused]
    assert ("failed", request.call.call_id) == (refused.kind, refused.call_id)
    assert "The call did not run: people could not be asked, and an operator gave it up." == refused.reason
    sent = by_type(await replicas[1].send(request))
    assert set(REFUSED) == set(sent)
    assert "withdrawn" == sent[ApprovalClosed].state


async def test_a_request_given_up_after_all_was_held_withdraws_its_approval(replica: Replica, gateway: Signer) -> None:
    """Where a card waits, it says that it is over; where it was decided, that stands."""
    waiting, decided = a_call(), a_call()
    cards = [await opened_by(replica, call) for call in (waiting, decided)]
    await replica.send(a_decision(gateway, some_claims(cards[1])))
    sent = await replica.send(*(an_abandonment("approval.requests", call) for call in (waiting, decided)))
    refused = by_type(sent)[ToolCallRefused]
    assert set(REFUSED) == set(by_type(sent))
    assert (waiting.call_id, "cancelled") == (refused.call_id, refused.kind)
    last = [(await history_of(replica, card.approval_id))[-1] for card in cards]
    assert ("withdraw", "pending", "withdrawn", "person:grace") == last[0]
    assert ("withdraw", "approved", "approved", "person:grace") == last[1]


async def test_a_request_given_up_after_its_withdrawal_is_answered(replica: Replica) -> None:
    """The withdrawal waited for the request to answer it; nobody else would."""
    request = a_request()
    await replica.send(a_withdrawal(request.call))
    refused = by_type(await replica.send(an_abandonment("approval.requests", request.call)))[ToolCallRefused]
    assert ("failed", request.call.call_id) == (refused.kind, refused.call_id)


async def test_a_call_that_was_given_up_is_watched_no_more(replica: Replica, verifier: Verifier) -> None:
    """Policy believes approval's signature alone: the end of a call without an approval is signed like any other."""
    request = a_request()
    sent = by_type(await replica.send(an_abandonment("approval.requests", request.call)))
    assert {ToolCallRefused, WatchedCallClosed} == set(sent)
    end = sent[WatchedCallClosed]
    verify_signed(verifier, end, None)
    assert (request.call.call_id, "withdrawn", "") == (end.call_id, end.state, end.decided_by)
