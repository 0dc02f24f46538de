"""Decisions that come together: one transaction for all, each judged as if it had come alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic_core import from_json

from placet.contracts.canonical import canonical_text
from placet.contracts.messages import (
    ApprovalClosed,
    ApprovalOpened,
    ApprovalProgressed,
    DecisionAnswered,
    EditProposed,
    Message,
    ToolCallPermitted,
    ToolCallRefused,
)
from placet.contracts.permit import comes_after
from placet.contracts.signing import Signer, create_keys, load_signer, payload_of
from tests.builders import a_call, an_approval_rule, an_event
from tests.support.approval_builders import a_decision, a_request, claims_of, some_claims
from tests.support.approval_races import Replicas, end_states, some_cards
from tests.support.house import Replica

TWO_OF_FINANCE: dict[str, Any] = {"approvers": ["group:finance"], "approvals": 2, "edits": True}
#: A row knows the transaction that wrote it.
TRANSACTIONS = "SELECT count(DISTINCT xmin::text) FROM approval.history WHERE event <> 'opened'"
HOLD = sa.text("SELECT FROM approval.approvals WHERE approval_id = :id FOR UPDATE")
FREE = "SELECT approval_id FROM approval.approvals FOR UPDATE SKIP LOCKED"


def answers_in(sent: Sequence[Message]) -> list[DecisionAnswered]:
    """Return the answers among messages, in their order."""
    return [message for message in sent if isinstance(message, DecisionAnswered)]


def outcomes(sent: Sequence[Message], *cards: ApprovalOpened) -> list[tuple[int, str, str]]:
    """Return of each answer the number of its card, the outcome and the state then."""
    numbers = {card.approval_id: number for number, card in enumerate(cards)}
    return [(numbers[each.approval_id], each.outcome, each.state) for each in answers_in(sent)]


async def test_decisions_of_one_envelope_are_made_in_one_transaction(replicas: Replicas, gateway: Signer) -> None:
    """Approvals, denials, claims and what does not count, each answered in its order."""
    cards = await some_cards(replicas[0], 5)
    changes: list[dict[str, Any]] = [{}, {"verb": "deny"}, {"verb": "claim"}, {"digest": "f" * 64}, {}]
    claims = [some_claims(card, **each) for card, each in zip(cards, changes, strict=True)]
    sent = await replicas[0].send(*[a_decision(gateway, each) for each in claims])
    expected = [("accepted", "approved"), ("accepted", "denied"), ("accepted", "pending"), ("stale", "pending")]
    expected.append(("accepted", "approved"))
    assert [(number, *each) for number, each in enumerate(expected)] == outcomes(sent, *cards)
    assert [{"count": 1}] == await replicas[0].rows(TRANSACTIONS)
    kinds = [type(message) for message in sent]
    assert [2, 1, 3, 1] == [
        kinds.count(kind) for kind in (ToolCallPermitted, ToolCallRefused, ApprovalClosed, ApprovalProgressed)
    ]
    kept = await replicas[0].rows("SELECT count(*) FROM approval.decisions")
    assert ([{"count": 5}], []) == (kept, replicas[0].dead)


async def test_votes_of_one_envelope_on_one_approval_see_each_other(replicas: Replicas, gateway: Signer) -> None:
    """Ada's vote is there when bob's is judged, which is the second of two and decides; carl's card goes on beside."""
    cards = await some_cards(replicas[0], 2, **TWO_OF_FINANCE)
    by = [(cards[0], "ada"), (cards[1], "bob"), (cards[0], "bob"), (cards[1], "bob"), (cards[0], "ada")]
    sent = await replicas[0].send(*[a_decision(gateway, claims_of(card, name, "approve")) for card, name in by])
    assert [
        (0, "accepted", "pending"),
        (0, "accepted", "approved"),
        (0, "already_decided", "approved"),
    ] == [each for each in outcomes(sent, *cards) if each[0] == 0]
    assert [(1, "accepted", "pending")] * 2 == [each for each in outcomes(sent, *cards) if each[0] == 1]
    assert [cards[0].call.call_id] == [each.call.call_id for each in sent if isinstance(each, ToolCallPermitted)]


async def test_two_decisions_of_one_envelope_on_one_approval_have_one_winner(
    replicas: Replicas, gateway: Signer
) -> None:
    """The first one counts, and the second one is told so."""
    (card,) = await some_cards(replicas[0], 1)
    no, yes = (some_claims(card, verb=verb, person=f"person:{verb}") for verb in ("deny", "approve"))
    sent = await replicas[0].send(a_decision(gateway, no), a_decision(gateway, yes))
    assert [(0, "accepted", "denied"), (0, "already_decided", "denied")] == outcomes(sent, card)
    assert ["person:deny"] * 2 == [answer.decided_by for answer in answers_in(sent)]
    assert {"denied"} == set((await end_states(replicas)).values())


async def test_a_decision_that_comes_twice_in_an_envelope_gets_one_answer_twice(
    replica: Replica, gateway: Signer
) -> None:
    """Two events with the same decision: it is made once, and both who asked hear the same."""
    ours, other = await some_cards(replica, 2)
    decision, neighbour = (a_decision(gateway, some_claims(card)) for card in (ours, other))
    repeated = decision.model_copy(update={"answer_to": "gateway-2"})
    sent = await replica.send(decision, repeated, neighbour)
    by_address = {each.answer_to: each for each in answers_in(sent) if each.approval_id == ours.approval_id}
    first, second = by_address["gateway-1"], by_address["gateway-2"]
    assert first.model_copy(update={"answer_to": "gateway-2"}) == second
    assert [{"count": 2}] == await replica.rows("SELECT count(*) FROM approval.decisions")


async def test_a_decision_id_for_two_approvals_of_an_envelope_is_buried_once(replica: Replica, gateway: Signer) -> None:
    """One id means one decision: the first stands, the second is neither made nor answered."""
    first, second, third = await some_cards(replica, 3)
    claims = some_claims(first)
    sent = await replica.send(
        a_decision(gateway, claims),
        a_decision(gateway, some_claims(second, decision_id=claims.decision_id)),
        a_decision(gateway, some_claims(third)),
    )
    assert [(0, "accepted", "approved"), (2, "accepted", "approved")] == outcomes(sent, first, second, third)
    assert [True] == ["used for another decision" in reason for reason in replica.dead]


async def test_a_forged_decision_among_others_of_its_approval_is_buried_alone(
    replica: Replica, gateway: Signer, tmp_path: Path
) -> None:
    """It is as if it had never come, for the genuine one behind it too."""
    create_keys(tmp_path)
    (card,) = await some_cards(replica, 1)
    forged = a_decision(load_signer(tmp_path, "gateway"), some_claims(card, verb="deny"))
    sent = await replica.send(forged, a_decision(gateway, some_claims(card)))
    assert [(0, "accepted", "approved")] == outcomes(sent, card)
    assert [True] == [reason.startswith("security: forged decision") for reason in replica.dead]


async def test_a_second_delivery_of_some_decisions_makes_the_others_only(replicas: Replicas, gateway: Signer) -> None:
    """Events that were handled before are left out, whichever replica gets them."""
    cards = await some_cards(replicas[0], 3)
    events = [an_event(a_decision(gateway, some_claims(card))) for card in cards]
    await replicas[0].send_events(*events[:2])
    sent = await replicas[1].send_events(*events)
    assert [(2, "accepted", "approved")] == outcomes(sent, *cards)
    assert {"approved"} == set((await end_states(replicas)).values())


async def test_an_edit_among_decisions_is_asked_of_policy(replica: Replica, gateway: Signer) -> None:
    """Its maker hears when policy has answered; the others are answered at once."""
    edited, voted = await some_cards(replica, 2, **TWO_OF_FINANCE)
    arguments = canonical_text({"amount": 1, "currency": "TRY"})
    edit = a_decision(gateway, claims_of(edited, "ada", "edit", arguments=arguments))
    cause = an_event(edit)
    sent = await replica.send_events(cause, an_event(a_decision(gateway, claims_of(voted, "ada", "approve"))))
    assert [(1, "accepted", "pending")] == outcomes(sent, edited, voted)
    (asked,) = [event for event in replica.sent if isinstance(event.message, EditProposed)]
    assert cause.id == asked.causation_id


async def test_each_answer_goes_back_to_its_own_decision(replica: Replica, gateway: Signer) -> None:
    """The cause and the thread of an answer are those of the decision that asked, not of a neighbour."""
    cards = await some_cards(replica, 3)
    events = [an_event(a_decision(gateway, some_claims(card))) for card in cards]
    await replica.send_events(*events)
    answered = [event for event in replica.sent if isinstance(event.message, DecisionAnswered)]
    assert [(event.id, event.correlation_id) for event in events] == [
        (event.causation_id, event.correlation_id) for event in answered
    ]
    moves = await replica.rows("SELECT subject_id, message_id FROM approval.history WHERE event = 'approve'")
    assert {card.approval_id: event.id for card, event in zip(cards, events, strict=True)} == {
        row["subject_id"]: row["message_id"] for row in moves
    }


async def test_approvals_are_locked_in_one_order(replicas: Replicas, gateway: Signer) -> None:
    """Decisions that wait for the first approval hold no later one, so two envelopes cannot lock each other out."""
    first, second = sorted(await some_cards(replicas[0], 2), key=lambda card: card.call.call_id)
    decisions = [a_decision(gateway, some_claims(card)) for card in (second, first)]
    async with replicas[1].units.database.transaction() as connection:
        await connection.execute(HOLD, {"id": first.approval_id})
        sending = asyncio.ensure_future(replicas[0].send(*decisions))
        await replicas[1].until_waiting(1)
        assert [{"approval_id": second.approval_id}] == await replicas[1].rows(FREE)
    assert [(1, "accepted", "approved"), (0, "accepted", "approved")] == outcomes(await sending, first, second)


@pytest.mark.parametrize("independent", [False, True])
async def test_calls_that_are_approved_together_run_in_the_order_of_the_model(
    replica: Replica, gateway: Signer, *, independent: bool
) -> None:
    """Each comes after those before it that were approved: with it, or however long ago; not if independent."""
    rule = an_approval_rule(independent=independent)
    calls = [a_call(turn_id="turn-9", step=2, position=number) for number in range(4)]
    other = a_call(turn_id="turn-9", step=3, position=0)
    for call in (*calls, other):
        await replica.send(a_request(call, approval=rule))
    cards = {card.call.call_id: card for card in replica.all_sent(ApprovalOpened)}
    one, two, three, four = (call.call_id for call in calls)
    await replica.send(a_decision(gateway, some_claims(cards[two])))
    await replica.execute("UPDATE approval.approvals SET closed_at = '2020-01-01Z' WHERE state = 'approved'")
    await replica.send(a_decision(gateway, some_claims(cards[one], verb="deny")))
    await replica.send(*[a_decision(gateway, some_claims(cards[each])) for each in (other.call_id, four, three)])
    permits = replica.all_sent(ToolCallPermitted)
    assert [two, three, four, other.call_id] == [each.call.call_id for each in permits]
    expected = [[], [], [], []] if independent else [[], [two], [two, three], []]
    assert expected == [comes_after(each.permit, "run") for each in permits]
    places = [("turn-9:2", 1), ("turn-9:2", 2), ("turn-9:2", 3), ("turn-9:3", 0)]
    claims = [from_json(payload_of(each.permit)) for each in permits]
    assert ([("", 0)] * 4 if independent else places) == [
        (each.get("answer", ""), each.get("position", 0)) for each in claims
    ]
