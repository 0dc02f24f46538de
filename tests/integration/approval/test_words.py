"""The words of approvals on real PostgreSQL: kept in the transaction of whatever opens, edits, closes or removes it."""

from __future__ import annotations

from typing import Any

import pytest

from services.approval import worker
from shared.canonical import canonical_text
from shared.messages import ApprovalOpened, EditProposed
from shared.signing import Signer
from shared.words import words_of
from tests.builders import a_call, an_approval_rule
from tests.support.approval_builders import a_decision, a_request, a_withdrawal, an_edit_judged, claims_of
from tests.support.house import Replica

SUMMARY = "Zahlung über 299 TRY, 299 Stück?"
WORDS = {"zahlung", "uber", "299", "try", "stuck"}


async def opened_by(replica: Replica, **changes: Any) -> ApprovalOpened:
    """Have a call held; return its card."""
    (card,) = await replica.send(a_request(**{"summary": SUMMARY} | changes))
    assert isinstance(card, ApprovalOpened)
    return card


async def kept(replica: Replica) -> dict[tuple[str, bool], set[str]]:
    """Return the words by approval and whether it is open; each stands once."""
    rows = await replica.rows(
        "SELECT approval_id, is_open, word FROM approval.words JOIN approval.approvals USING (tenant, approval_id)"
        " WHERE words.created_at = approvals.created_at"
    )
    assert [{"count": len(rows)}] == await replica.rows("SELECT count(*) FROM approval.words")
    found: dict[tuple[str, bool], set[str]] = {}
    for row in rows:
        found.setdefault((row["approval_id"], row["is_open"]), set()).add(row["word"])
    return found


async def test_what_opens_has_its_words(replica: Replica) -> None:
    """Several in one envelope, each with its own; one without a word has none."""
    await replica.send(a_request(summary=SUMMARY), a_request(summary="Refund?"), a_request(summary="…"))
    assert sorted([sorted(WORDS), ["refund"]]) == sorted(sorted(words) for words in (await kept(replica)).values())


@pytest.mark.parametrize("ending", ["approve", "deny", "withdrawn", "expired", "withdrawn before"])
async def test_what_closes_keeps_its_words_among_what_is_closed(replica: Replica, gateway: Signer, ending: str) -> None:
    """However it ends, nothing of it is left where what is open is looked for."""
    call = a_call()
    if ending == "withdrawn before":
        await replica.send(a_withdrawal(call))
        await replica.send(a_request(call, summary=SUMMARY))
    else:
        card = await opened_by(replica, call=call, approval=an_approval_rule(approvers=["person:ada"]))
    if ending in {"approve", "deny"}:
        await replica.send(a_decision(gateway, claims_of(card, "ada", ending)))
    elif ending == "withdrawn":
        await replica.send(a_withdrawal(call))
    elif ending == "expired":
        await replica.execute("UPDATE approval.approvals SET expires_at = clock_timestamp()")
        await worker.expire_overdue(replica.units, 10, replica.signer)
    (approval,) = await replica.rows("SELECT approval_id, state FROM approval.approvals")
    assert approval["state"] != "pending"
    assert {(approval["approval_id"], False): WORDS} == await kept(replica)


async def test_what_closes_together_moves_together_and_nothing_else(replica: Replica) -> None:
    """One statement ends two of three that share their words; the third stays among what is open."""
    cards = [await opened_by(replica) for _ in range(3)]
    first, second, third = (card.approval_id for card in cards)
    overdue = "UPDATE approval.approvals SET expires_at = clock_timestamp() WHERE approval_id = ANY (:ids)"
    await replica.execute(overdue, ids=[first, second])
    await worker.expire_overdue(replica.units, 10, replica.signer)
    assert {(first, False): WORDS, (second, False): WORDS, (third, True): WORDS} == await kept(replica)


async def test_an_edit_that_decides_has_its_new_words_among_what_is_closed(replica: Replica, gateway: Signer) -> None:
    """Words and state change in one statement."""
    card = await opened_by(replica, approval=an_approval_rule(approvers=["person:ada"], edits=True))
    cheaper = canonical_text({"amount": 199, "currency": "TRY"})
    sent = await replica.send(a_decision(gateway, claims_of(card, "ada", "edit", arguments=cheaper)))
    asked = next(each for each in sent if isinstance(each, EditProposed))
    await replica.send(an_edit_judged(asked, summary="Zahlung über 199 TRY?"))
    assert [{"state": "approved"}] == await replica.rows("SELECT state FROM approval.approvals")
    assert {(card.approval_id, False): {"zahlung", "uber", "199", "try"}} == await kept(replica)


async def test_an_edit_changes_the_words(replica: Replica, gateway: Signer) -> None:
    """What policy renders of the new arguments is found, and what is gone is not."""
    rule = an_approval_rule(approvers=["group:finance"], approvals=2, edits=True)
    card = await opened_by(replica, approval=rule)
    cheaper = canonical_text({"amount": 199, "currency": "TRY"})
    sent = await replica.send(a_decision(gateway, claims_of(card, "ada", "edit", arguments=cheaper)))
    asked = next(each for each in sent if isinstance(each, EditProposed))
    await replica.send(an_edit_judged(asked, summary="Zahlung über 199 TRY?"))
    assert {(card.approval_id, True): {"zahlung", "uber", "199", "try"}} == await kept(replica)


async def test_votes_and_claims_leave_the_words_alone(replica: Replica, gateway: Signer) -> None:
    """Only an end and an edit write them: the very rows stay."""
    card = await opened_by(replica, approval=an_approval_rule(approvers=["group:finance"], approvals=2))
    rows = "SELECT ctid::text, xmin::text FROM approval.words ORDER BY word"
    before = await replica.rows(rows)
    for verb in ("claim", "approve"):
        await replica.send(a_decision(gateway, claims_of(card, "ada", verb)))
    assert [{"revision": 3}] == await replica.rows("SELECT revision FROM approval.approvals")
    assert before == await replica.rows(rows)


async def test_what_is_deleted_leaves_no_word(replica: Replica) -> None:
    """Whoever purges approvals purges what is searched."""
    await opened_by(replica)
    await replica.execute("DELETE FROM approval.approvals")
    assert [] == await replica.rows("SELECT * FROM approval.words")


async def test_redacted_values_are_no_words(replica: Replica) -> None:
    """Only the summary is cut, as policy rendered it for people; nothing of the arguments is."""
    call = a_call(arguments=canonical_text({"to": "geheim"}), shown_arguments=canonical_text({"to": "•••"}))
    await opened_by(replica, call=call, summary="Zahlung an •••?")
    assert [{"zahlung", "an"}] == list((await kept(replica)).values())


async def test_the_clock_brings_the_words_of_what_was_there_before(replicas: tuple[Replica, Replica]) -> None:
    """Rows of before there were words are found after a look, newest first, and by one replica each."""
    replica = replicas[0]
    await replica.send(*[a_request(summary=f"Zahlung {number}") for number in range(3)])
    await replica.execute("UPDATE approval.approvals SET searched = NULL")
    assert {} == await kept(replica)
    done = [await worker.index_words(each.units, 2) for each in (*replicas, replica)]
    rows = await replica.rows("SELECT approval_id, summary FROM approval.approvals")
    assert {(row["approval_id"], True): set(words_of(row["summary"])) for row in rows} == await kept(replica)
    assert [2, 1, 0] == done
