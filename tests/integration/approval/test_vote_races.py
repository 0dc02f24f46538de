"""Races of votes, edits and the clock on real PostgreSQL, two replicas at a time."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from placet.approval import worker
from placet.contracts.canonical import canonical_text
from placet.contracts.messages import ApprovalProgressed, EditProposed, ToolCallPermitted
from placet.contracts.signing import Signer
from tests.support.approval_builders import (
    Register,
    a_decision,
    a_directory,
    an_edit_judged,
    claims_of,
    some_claims,
)
from tests.support.approval_keys import add_keys, revoke
from tests.support.approval_races import (
    Replicas,
    answer_in,
    at_once,
    at_once_or_in_turn,
    check_invariants,
    end_states,
    in_any_order,
    some_cards,
)
from tests.support.races import LONG_ENOUGH, ROUNDS

pytestmark = LONG_ENOUGH

TWO_OF_FINANCE: dict[str, Any] = {"approvers": ["group:finance"], "approvals": 2, "edits": True}


async def test_both_votes_of_two_at_once_decide_once(replicas: Replicas, gateway: Signer) -> None:
    """Neither vote overlooks the other: one of the two finds itself the second and permits the call."""
    for card in await some_cards(replicas[0], ROUNDS, **TWO_OF_FINANCE):
        ada, bob = (a_decision(gateway, claims_of(card, name, "approve")) for name in ("ada", "bob"))
        sent = await at_once(partial(replicas[0].send, ada), partial(replicas[1].send, bob))
        answers = [answer_in(each) for each in sent]
        assert ["accepted", "accepted"] == [answer.outcome for answer in answers]
        assert ["approved", "pending"] == sorted(answer.state for answer in answers)
    assert {"approved"} == set((await end_states(replicas)).values())


async def test_one_person_at_two_replicas_at_once_counts_once(replicas: Replicas, gateway: Signer) -> None:
    """Two clicks of the same person, over two channels, are one approval of two."""
    cards = await some_cards(replicas[0], ROUNDS // 2, **TWO_OF_FINANCE)
    for card in cards:
        web, slack = (a_decision(gateway, claims_of(card, "ada", "approve", proof=by)) for by in ("api_key", "slack"))
        sent = await at_once(partial(replicas[0].send, web), partial(replicas[1].send, slack))
        assert ["pending", "pending"] == [answer_in(each).state for each in sent]
    assert [{"count": len(cards)}] == await replicas[0].rows(
        "SELECT count(*) FROM approval.approvals WHERE state = 'pending'"
    )
    await check_invariants(replicas)


async def test_the_last_vote_and_a_dismissal_at_once(replicas: Replicas, gateway: Signer, register: Register) -> None:
    """Ada voted and is disabled while bob decides: the call is permitted only where she was active at that moment.

    Where one of them ended before the other began, the order says which.
    """
    in_turn = {0: {"approved"}, 1: {"pending"}}
    for turn, card in enumerate(await some_cards(replicas[0], ROUNDS, **TWO_OF_FINANCE)):
        register.directory = a_directory()
        await replicas[0].send(a_decision(gateway, claims_of(card, "ada", "approve")))

        async def dismiss() -> None:
            register.directory = a_directory("ada")

        last = partial(replicas[1].send, a_decision(gateway, claims_of(card, "bob", "approve")))
        await at_once_or_in_turn(turn, last, dismiss)
        still = a_decision(gateway, claims_of(card, "bob", "approve"))
        assert answer_in(await replicas[0].send(still)).state in in_turn.get(turn % 10, {"pending", "approved"})
    states = await replicas[0].rows("SELECT DISTINCT state FROM approval.approvals ORDER BY state")
    assert [{"state": "approved"}, {"state": "pending"}] == states
    await check_quorums(replicas)


async def test_the_last_vote_and_a_revocation_at_once(replicas: Replicas, gateway: Signer) -> None:
    """Ada's key is revoked while bob decides: whoever decides after that approves nothing.

    A decision that was under way may count; the executor asks again before the call begins.
    """
    after = []
    for turn, card in enumerate(await some_cards(replicas[0], ROUNDS, **TWO_OF_FINANCE)):
        key = f"key-{turn}"
        await add_keys(replicas[0], key)
        await replicas[0].send(a_decision(gateway, claims_of(card, "ada", "approve", key_id=key)))
        last = partial(replicas[1].send, a_decision(gateway, claims_of(card, "bob", "approve")))
        await at_once_or_in_turn(turn, last, partial(revoke, replicas[0], key))
        after += [card.approval_id] if revoked_first(turn) else []
    states = await replicas[0].rows("SELECT DISTINCT state FROM approval.approvals ORDER BY state")
    assert [{"state": "approved"}, {"state": "pending"}] == states
    found = "SELECT DISTINCT state FROM approval.approvals WHERE approval_id = ANY (:ids)"
    assert [{"state": "pending"}] == await replicas[0].rows(found, ids=after)
    await check_quorums(replicas)


def revoked_first(turn: int) -> bool:
    """Tell whether the second of two actions had ended in this turn before the first began."""
    return turn % 10 == 1


async def check_quorums(replicas: Replicas) -> None:
    """Check by queries that each approved call had two different voters for the very arguments that were permitted."""
    await check_invariants(replicas)
    wrong = """
        SELECT approval_id FROM approval.approvals AS a WHERE state = 'approved' AND 2 > (
            SELECT count(DISTINCT person) FROM approval.decisions AS d
            WHERE d.approval_id = a.approval_id AND d.verb IN ('approve', 'edit') AND d.counted_revision IS NOT NULL
              AND d.arguments_revision = a.arguments_revision
        )
    """
    assert [] == await replicas[0].rows(wrong)


async def test_two_edits_at_once_make_one(replicas: Replicas, gateway: Signer) -> None:
    """Both were judged fine by policy; the first one settled is made, the other one is told to look again."""
    for turn, card in enumerate(await some_cards(replicas[0], ROUNDS // 2, **TWO_OF_FINANCE)):
        judged = []
        for amount, name in enumerate(("ada", "bob"), start=1):
            arguments = canonical_text({"amount": amount, "currency": "TRY"})
            sent = await replicas[0].send(a_decision(gateway, claims_of(card, name, "edit", arguments=arguments)))
            judged += [an_edit_judged(message) for message in sent if isinstance(message, EditProposed)]
        first, second = judged
        sent_by = await at_once_or_in_turn(turn, partial(replicas[0].send, first), partial(replicas[1].send, second))
        assert ["accepted", "stale"] == sorted(answer_in(each).outcome for each in sent_by)
    rows = await replicas[0].rows("SELECT DISTINCT arguments_revision, revision, state FROM approval.approvals")
    assert [{"arguments_revision": 2, "revision": 2, "state": "pending"}] == rows
    await check_invariants(replicas)


async def test_an_edit_and_a_vote_at_once_never_approve_what_was_not_seen(replicas: Replicas, gateway: Signer) -> None:
    """Bob saw the old arguments: his vote is void or stale, so that the edited call has its editor's approval only."""
    for turn, card in enumerate(await some_cards(replicas[0], ROUNDS // 2, **TWO_OF_FINANCE)):
        arguments = canonical_text({"amount": 1, "currency": "TRY"})
        sent = await replicas[0].send(a_decision(gateway, claims_of(card, "ada", "edit", arguments=arguments)))
        judged = next(an_edit_judged(message) for message in sent if isinstance(message, EditProposed))
        vote = a_decision(gateway, claims_of(card, "bob", "approve"))
        _, voted = await in_any_order(turn, partial(replicas[0].send, judged), partial(replicas[1].send, vote))
        assert answer_in(voted).outcome in {"accepted", "stale"}
    assert [] == [message for replica in replicas for message in replica.all_sent(ToolCallPermitted)]
    await check_quorums(replicas)


async def test_an_edit_that_crosses_a_decision_tells_of_no_state_that_has_ended(
    replicas: Replicas, gateway: Signer
) -> None:
    """An edit is asked while the approval waits, or its maker hears that it is over: nothing goes on from pending."""
    for turn, card in enumerate(await some_cards(replicas[0], ROUNDS, edits=True)):
        arguments = canonical_text({"amount": 1, "currency": "TRY"})
        edit = a_decision(gateway, some_claims(card, verb="edit", arguments=arguments))
        no = a_decision(gateway, some_claims(card, verb="deny"))
        asked, _ = await in_any_order(turn, partial(replicas[0].send, edit), partial(replicas[1].send, no))
        for proposed in [message for message in asked if isinstance(message, EditProposed)]:
            asked = await replicas[0].send(an_edit_judged(proposed))
        assert "already_decided" == answer_in(asked).outcome
    assert {"denied"} == set((await end_states(replicas)).values())


async def test_a_refused_decision_that_crosses_another_tells_of_no_state_that_has_ended(
    replicas: Replicas, gateway: Signer
) -> None:
    """Who may not decide hears so, and history has it where the approval was then: before its end or after."""
    for turn, card in enumerate(await some_cards(replicas[0], ROUNDS)):
        stranger = a_decision(gateway, some_claims(card, person="person:mallory", roles=[]))
        no = a_decision(gateway, some_claims(card, verb="deny"))
        refused, _ = await in_any_order(turn, partial(replicas[0].send, stranger), partial(replicas[1].send, no))
        assert "not_allowed" == answer_in(refused).outcome
    assert {"denied"} == set((await end_states(replicas)).values())


async def test_a_cancel_and_an_approval_at_once_have_one_winner(replicas: Replicas, gateway: Signer) -> None:
    """The call is permitted, and the canceller hears so, or it is withdrawn and the approver does."""
    cards = await some_cards(replicas[0], ROUNDS // 2)
    for turn, card in enumerate(cards):
        yes, stop = (a_decision(gateway, some_claims(card, verb=verb)) for verb in ("approve", "cancel"))
        sent = await at_once_or_in_turn(turn, partial(replicas[0].send, yes), partial(replicas[1].send, stop))
        assert ["accepted", "already_decided"] == sorted(answer_in(each).outcome for each in sent)
    assert {"approved", "withdrawn"} == set((await end_states(replicas)).values())
    asked = await replicas[0].rows(
        "SELECT DISTINCT state, cancel_asked_at IS NOT NULL AS asked FROM approval.approvals ORDER BY state"
    )
    assert [{"state": "approved", "asked": True}, {"state": "withdrawn", "asked": False}] == asked


async def test_each_step_is_taken_once_by_replicas_that_look_at_once(replicas: Replicas) -> None:
    """Both duties run at the same moment; together they send each reminder once."""
    cards = await some_cards(replicas[0], ROUNDS // 2, reminders_after_seconds=[60], approvers=["operators"])
    await replicas[0].execute("UPDATE approval.approvals SET next_step_at = clock_timestamp()")
    while any(await at_once(*[partial(worker.take_steps, replica.units, 7) for replica in replicas])):
        pass
    for replica in replicas:
        await replica.settle()
    reminded = Counter(message.approval_id for replica in replicas for message in replica.all_sent(ApprovalProgressed))
    assert Counter(card.approval_id for card in cards) == reminded
