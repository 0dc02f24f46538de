"""The words of approvals on real PostgreSQL: a duty writes them in bulk after whatever opens, edits or closes one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from placet.approval import store, worker
from placet.contracts.canonical import canonical_text
from placet.contracts.messages import ApprovalOpened, EditProposed
from placet.contracts.signing import Signer
from placet.domain.words import words_of
from placet.runtime.queries import query
from tests.builders import a_call, an_approval_rule
from tests.support.approval_builders import a_decision, a_request, a_withdrawal, an_edit_judged, claims_of
from tests.support.house import Replica

SLOW = query(
    "slow",
    "INSERT INTO approval.history (tenant, machine, subject_id, event, to_state, actor)"
    " VALUES ('acme', 'approval', 'slow', 'opened', 'pending', 'policy')",
)
SUMMARY = "Zahlung über 299 TRY, 299 Stück?"
#: Of the arguments of every call here.
ARGUMENTS = {"299", "try"}
WORDS = {"zahlung", "uber", "299", "try", "stuck"}


async def opened_by(replica: Replica, **changes: Any) -> ApprovalOpened:
    """Have a call held; return its card."""
    (card,) = await replica.send(a_request(**{"summary": SUMMARY} | changes))
    assert isinstance(card, ApprovalOpened)
    return card


async def kept(replica: Replica) -> dict[tuple[str, bool], set[str]]:
    """Let the duty catch up; return the words of texts by approval and whether it is open; each stands once."""
    while await worker.index_words(replica.units, 1_000):
        pass
    rows = await replica.rows(
        "SELECT approval_id, is_open, word FROM approval.words JOIN approval.approvals USING (tenant, approval_id)"
        " WHERE words.created_at = approvals.created_at"
    )
    assert [{"count": len(rows)}] == await replica.rows("SELECT count(*) FROM approval.words")
    found: dict[tuple[str, bool], set[str]] = {}
    for row in rows:
        if "=" in row["word"]:
            continue
        found.setdefault((row["approval_id"], row["is_open"]), set()).add(row["word"])
    return found


async def test_what_opens_has_its_words(replica: Replica) -> None:
    """Several in one envelope, each with its own; values of arguments that the summary does not say come behind it."""
    await replica.send(a_request(summary=SUMMARY), a_request(summary="Refund?"), a_request(summary="…"))
    told = [sorted(WORDS), ["299", "refund", "try"], ["299", "try"]]
    assert sorted(told) == sorted(sorted(words) for words in (await kept(replica)).values())


async def test_what_people_filter_by_is_kept_as_words_that_no_text_has(replica: Replica, gateway: Signer) -> None:
    """Requester and rule from the beginning, who decided from the end on."""
    card = await opened_by(replica, approval=an_approval_rule(approvers=["person:ada"]))
    facts = "SELECT word, is_open FROM approval.words WHERE word LIKE '%=%' ORDER BY word"
    await kept(replica)
    opened = [f"requester={card.call.requester}", f"rule={card.rule}"]
    assert [(each, True) for each in opened] == [tuple(row.values()) for row in await replica.rows(facts)]
    await replica.send(a_decision(gateway, claims_of(card, "ada", "approve")))
    await kept(replica)
    closed = ["decided_by=person:ada", *opened]
    assert [(each, False) for each in closed] == [tuple(row.values()) for row in await replica.rows(facts)]


@pytest.mark.parametrize("early", [True, False], ids=["indexed while open", "indexed when closed"])
@pytest.mark.parametrize("ending", ["approve", "deny", "withdrawn", "expired", "withdrawn before"])
async def test_what_closes_keeps_its_words_among_what_is_closed(
    replica: Replica, gateway: Signer, ending: str, *, early: bool
) -> None:
    """However it ends, nothing of it is left where what is open is looked for."""
    call = a_call()
    if ending == "withdrawn before":
        await replica.send(a_withdrawal(call))
        await replica.send(a_request(call, summary=SUMMARY))
    else:
        card = await opened_by(replica, call=call, approval=an_approval_rule(approvers=["person:ada"]))
    if early:
        await worker.index_words(replica.units, 1_000)
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
    assert 3 == len(await kept(replica))
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
    """What policy renders of the new arguments is found."""
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
    await kept(replica)
    rows = "SELECT ctid::text, xmin::text FROM approval.words ORDER BY word"
    before = await replica.rows(rows)
    for verb in ("claim", "approve"):
        await replica.send(a_decision(gateway, claims_of(card, "ada", verb)))
    assert [{"revision": 3}] == await replica.rows("SELECT revision FROM approval.approvals")
    await kept(replica)
    assert before == await replica.rows(rows)


async def test_redacted_values_are_no_words(replica: Replica) -> None:
    """Only the summary is cut, as policy rendered it for people; nothing of the arguments is."""
    call = a_call(arguments=canonical_text({"to": "geheim"}), shown_arguments=canonical_text({"to": "•••"}))
    await opened_by(replica, call=call, summary="Zahlung an •••?")
    assert [{"zahlung", "an"}] == list((await kept(replica)).values())


async def test_the_duty_takes_each_change_once(replicas: tuple[Replica, Replica]) -> None:
    """Some at a time, in their order, by whichever replica; none is passed over."""
    replica = replicas[0]
    await replica.send(*[a_request(summary=f"Zahlung {number}") for number in range(3)])
    done = [await worker.index_words(each.units, 2) for each in (*replicas, replica)]
    rows = await replica.rows("SELECT approval_id, summary FROM approval.approvals")
    assert {(row["approval_id"], True): {*words_of(row["summary"]), *ARGUMENTS} for row in rows} == await kept(replica)
    assert [2, 1, 0] == done


async def test_what_closes_before_its_words_are_written_is_written_once(replicas: tuple[Replica, Replica]) -> None:
    """A change waits until it is old enough; by then the card counts as what it has become."""
    replica = replicas[0]
    call = a_call()
    await replica.send(a_request(call, summary="Zahlung"))
    minute = timedelta(minutes=1)
    assert 0 == await worker.index_words(replica.units, 10, minute)
    await replica.send(a_withdrawal(call))
    await replica.execute("UPDATE approval.history SET at = at - interval '1 minute'")
    assert 2 == await worker.index_words(replica.units, 10, minute)
    (((_, is_open), words),) = (await kept(replica)).items()
    assert (False, {"zahlung", *ARGUMENTS}) == (is_open, words)


async def test_a_replica_leaves_the_words_to_the_one_that_writes_them(replicas: tuple[Replica, Replica]) -> None:
    """It neither waits nor does the same again."""
    one, other = replicas
    await one.send(a_request(summary=SUMMARY))
    await kept(one)
    await one.send(a_request(summary=SUMMARY))
    async with one.units.database.transaction() as connection:
        assert 1 == await store.index_words(connection, 10, timedelta(0))
        assert 0 == await worker.index_words(other.units, 10)


async def test_a_change_that_is_not_committed_holds_back_what_came_after_it(
    replicas: tuple[Replica, Replica],
) -> None:
    """Its row of history has a smaller number, and would never be looked at again; after a minute it is given up."""
    one, other = replicas
    await other.send(a_request(summary=SUMMARY))
    await kept(one)
    async with one.units.database.transaction() as connection:
        await connection.run(SLOW)
        await other.send(a_request(summary=SUMMARY))
        assert 0 == await worker.index_words(other.units, 10)
        await connection.run(query("back", "ROLLBACK"))
    assert 0 == await worker.index_words(other.units, 10)
    await one.execute("UPDATE approval.history SET at = at - interval '1 minute'")
    assert 1 == await worker.index_words(other.units, 10)
