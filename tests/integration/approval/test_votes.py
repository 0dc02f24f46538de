"""Votes, edits, delegations and the clock on real PostgreSQL: counted, kept, told to every surface, each once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

from placet.approval import store, worker
from placet.approval.views import VIEWS
from placet.contracts.canonical import canonical_text
from placet.contracts.messages import (
    ApprovalClosed,
    ApprovalOpened,
    ApprovalProgressed,
    DecisionAnswered,
    EditProposed,
    Escalation,
    GrantAsked,
    GrantTerms,
    GrantWish,
    Message,
    Panel,
    ShownCall,
    ToolCallPermitted,
    ToolCallRefused,
)
from placet.contracts.permit import verify_permit
from placet.contracts.signing import Signer, Verifier
from tests.builders import a_call, an_approval_rule
from tests.support.approval_builders import (
    Register,
    a_decision,
    a_directory,
    a_request,
    an_edit_judged,
    claims_of,
    some_claims,
)
from tests.support.approval_keys import add_keys, revoke
from tests.support.house import Replica

M = TypeVar("M", bound=Message)
TWO: dict[str, Any] = {"approvers": ["group:finance"], "approvals": 2}
CHEAPER = canonical_text({"amount": 199, "currency": "TRY"})


async def opened_by(replica: Replica, **rule: Any) -> ApprovalOpened:
    """Have a call held under a rule; return its card."""
    (card,) = await replica.send(a_request(approval=an_approval_rule(**rule)))
    assert isinstance(card, ApprovalOpened)
    return card


async def decide(replica: Replica, gateway: Signer, card: ApprovalOpened, name: str, verb: str, **more: Any) -> Any:
    """Have a named person decide; return everything that was sent because of it."""
    return await replica.send(a_decision(gateway, claims_of(card, name, verb, **more)))


def of(sent: Iterable[Message], kind: type[M]) -> M:
    """Return the one message of a type."""
    (found,) = [message for message in sent if isinstance(message, kind)]
    return found


async def test_two_of_two_approve_in_two_transactions(replicas: tuple[Replica, Replica], gateway: Signer) -> None:
    """The first vote redraws the card and the second permits the call, at another replica, from the card seen first."""
    card = await opened_by(replicas[0], **TWO)
    first = await decide(replicas[0], gateway, card, "ada", "approve")
    assert {ApprovalProgressed, DecisionAnswered} == {type(message) for message in first}
    news, told = of(first, ApprovalProgressed), of(first, DecisionAnswered)
    assert ("voted", 2, "person:ada") == (news.kind, news.revision, news.person)
    assert ("accepted", "pending", 2) == (told.outcome, told.state, told.revision)
    second = await decide(replicas[1], gateway, card, "bob", "approve")
    assert {ToolCallPermitted, ApprovalClosed, DecisionAnswered} == {type(message) for message in second}
    votes = await replicas[0].rows(
        "SELECT person, arguments_revision, counted_revision FROM approval.decisions ORDER BY decided_at"
    )
    assert [("person:ada", 1, 2), ("person:bob", 1, 2)] == [tuple(row.values()) for row in votes]


async def test_an_older_yes_that_comes_late_is_no_yes(replicas: tuple[Replica, Replica], gateway: Signer) -> None:
    """Ada's yes was held up while she changed her mind: her denial stands, and bob's approval is the first."""
    card = await opened_by(replicas[0], **TWO, denials=2)
    yes = claims_of(card, "ada", "approve", at=1.0)
    await decide(replicas[1], gateway, card, "ada", "deny", at=2.0)
    # On other arguments than those of now, as where edits bring them back: it counts no more, and was said.
    await replicas[0].execute("UPDATE approval.decisions SET arguments_revision = 0")
    late = of(await replicas[0].send(a_decision(gateway, yes)), DecisionAnswered)
    second = of(await decide(replicas[1], gateway, card, "bob", "approve", at=3.0), DecisionAnswered)
    assert ("stale", "accepted", "pending") == (late.outcome, second.outcome, second.state)


async def test_a_delegation_that_comes_late_gives_no_place(replicas: tuple[Replica, Replica], gateway: Signer) -> None:
    """Ada let carl decide, and then dora: the older of the two is held up and changes nothing."""
    card = await opened_by(replicas[0], **TWO)
    older = claims_of(card, "ada", "delegate", at=1.0, to="person:carl")
    await decide(replicas[1], gateway, card, "ada", "delegate", at=2.0, to="person:dora")
    late = of(await replicas[0].send(a_decision(gateway, older)), DecisionAnswered)
    given = await replicas[0].rows("SELECT delegations -> 0 ->> 'to' AS stand_in FROM approval.approvals")
    assert ("stale", [{"stand_in": "person:dora"}]) == (late.outcome, [dict(each) for each in given])


async def test_a_token_and_its_openers_key_are_one_vote(replicas: tuple[Replica, Replica], gateway: Signer) -> None:
    """Ada opened the conversation and votes with its token and with her key: one of two, and the last word counts."""
    card = await opened_by(replicas[0], approvers=["requester", "group:finance"], approvals=2, denials=2)
    token = {"person": card.call.requester, "roles": ["requester"], "proof": "conversation_token"}
    place = {"conversation_id": card.call.conversation_id, "opened_by": "person:ada"}
    first = some_claims(card, **token, **place)
    await replicas[0].send(a_decision(gateway, first))
    second = await decide(replicas[1], gateway, card, "ada", "deny", opened_by="person:ada")
    third = await decide(replicas[0], gateway, card, "bob", "approve", opened_by="person:ada")
    assert ["pending", "pending"] == [of(sent, DecisionAnswered).state for sent in (second, third)]
    assert "1 of 2 approvals" in of(third, DecisionAnswered).detail
    assert [] == replicas[0].all_sent(ToolCallPermitted)


async def test_a_changed_mind_stays_in_the_history(replica: Replica, gateway: Signer) -> None:
    """Both votes are kept; the last one counts."""
    card = await opened_by(replica, **TWO, denials=2)
    await decide(replica, gateway, card, "ada", "approve")
    await decide(replica, gateway, card, "ada", "deny", reason="on second thoughts")
    sent = await decide(replica, gateway, card, "bob", "deny")
    assert ("denied", "person:bob") == (of(sent, ApprovalClosed).state, of(sent, ApprovalClosed).decided_by)
    kept = await replica.rows("SELECT verb FROM approval.decisions WHERE person = 'person:ada' ORDER BY decided_at")
    assert ["approve", "deny"] == [row["verb"] for row in kept]


async def test_a_disabled_voter_is_not_counted(replica: Replica, gateway: Signer, register: Register) -> None:
    """Ada's vote went with her: bob's is the first of two again. When she is back she votes anew, and that decides."""
    card = await opened_by(replica, **TWO)
    await decide(replica, gateway, card, "ada", "approve")
    register.directory = a_directory("ada")
    sent = await decide(replica, gateway, card, "bob", "approve")
    assert ("accepted", "pending") == (of(sent, DecisionAnswered).outcome, of(sent, DecisionAnswered).state)
    assert [] == replica.all_sent(ToolCallPermitted)
    register.directory = a_directory()
    again = await decide(replica, gateway, card, "bob", "approve")
    assert "1 of 2 approvals" in of(again, DecisionAnswered).detail
    assert [{"seats": {"person:ada": [], "person:bob": [0]}}] == await replica.rows(
        "SELECT seats FROM approval.approvals"
    )
    sent = await decide(replica, gateway, card, "ada", "approve")
    assert ("approved", "person:ada") == (of(sent, ApprovalClosed).state, of(sent, ApprovalClosed).decided_by)


async def test_a_place_that_a_voter_gets_waits_for_a_vote_of_its_own(replica: Replica, gateway: Signer) -> None:
    """Carl of the leads, one of whom decides, lets ada do so, who has voted for finance: her next vote decides."""
    leads = [Panel(approvers=["group:leads"])]
    card = await opened_by(replica, **TWO, alternatives=leads)
    await decide(replica, gateway, card, "ada", "approve")
    await decide(replica, gateway, card, "carl", "delegate", to="person:ada")
    assert [] == replica.all_sent(ToolCallPermitted)
    sent = await decide(replica, gateway, card, "ada", "approve")
    assert ("approved", "person:ada") == (of(sent, ApprovalClosed).state, of(sent, ApprovalClosed).decided_by)


async def test_a_vote_given_with_a_revoked_key_is_not_counted(replica: Replica, gateway: Signer) -> None:
    """Ada's vote goes with the key that proved her; with a new key she votes again, and then it decides."""
    await add_keys(replica, "key-1", "key-2")
    card = await opened_by(replica, **TWO)
    await decide(replica, gateway, card, "ada", "approve", key_id="key-1")
    await revoke(replica, "key-1")
    sent = await decide(replica, gateway, card, "bob", "approve", key_id="key-2")
    assert ("accepted", "pending") == (of(sent, DecisionAnswered).outcome, of(sent, DecisionAnswered).state)
    assert [] == replica.all_sent(ToolCallPermitted)
    await add_keys(replica, "key-3")
    sent = await decide(replica, gateway, card, "ada", "approve", key_id="key-3")
    assert "approved" == of(sent, ApprovalClosed).state


async def test_an_earlier_vote_does_not_come_back_with_a_revoked_key(replica: Replica, gateway: Signer) -> None:
    """Ada took her yes back with a key that was revoked then: neither word of hers counts."""
    await add_keys(replica, "key-1", "key-2")
    card = await opened_by(replica, **TWO)
    await decide(replica, gateway, card, "ada", "approve", key_id="key-1")
    await decide(replica, gateway, card, "ada", "abstain", key_id="key-2")
    await revoke(replica, "key-2")
    sent = await decide(replica, gateway, card, "bob", "approve")
    assert ("accepted", "pending") == (of(sent, DecisionAnswered).outcome, of(sent, DecisionAnswered).state)


@pytest.mark.parametrize("verb", ["approve", "deny", "delegate", "claim", "cancel"])
@pytest.mark.parametrize("key_id", ["revoked", "unknown"])
async def test_a_key_that_does_not_work_decides_nothing(
    replica: Replica, gateway: Signer, key_id: str, verb: str
) -> None:
    """The gateway signed it a moment before the revocation, or somebody signed what no key stands behind."""
    await add_keys(replica, "revoked")
    await revoke(replica, "revoked")
    card = await opened_by(replica, approvers=["operators"])
    claims = some_claims(card, verb=verb, key_id=key_id, to="person:ada", seconds=60)
    assert "not_allowed" == of(await replica.send(a_decision(gateway, claims)), DecisionAnswered).outcome


async def test_an_edit_judged_after_its_key_was_revoked_is_not_made(replica: Replica, gateway: Signer) -> None:
    """Policy took its time; everything about the maker is asked again, the key too."""
    await add_keys(replica, "key-1")
    card = await opened_by(replica, approvers=["group:finance"], edits=True)
    asked = await decide(replica, gateway, card, "ada", "edit", arguments=CHEAPER, key_id="key-1")
    await revoke(replica, "key-1")
    sent = await replica.send(an_edit_judged(of(asked, EditProposed)))
    assert "not_allowed" == of(sent, DecisionAnswered).outcome
    assert [] == replica.all_sent(ToolCallPermitted)


async def test_an_edit_of_a_redacted_call_tells_no_hidden_value(replica: Replica, gateway: Signer) -> None:
    """The permit has the kept value; history, the edit as people see it and every message to surfaces do not."""
    call = a_call(arguments={"amount": 299, "pin": "no-4929"}, shown_arguments='{"amount":299,"pin":"•••"}')
    rule = an_approval_rule(approvers=["group:finance"], edits=True)
    (card,) = await replica.send(a_request(call, approval=rule))
    assert isinstance(card, ApprovalOpened)
    wanted, shown = '{"amount":199,"pin":"•••"}', '{"amount":199,"pin":"•••"}'
    asked = of(await decide(replica, gateway, card, "ada", "edit", arguments=wanted), EditProposed)
    sent = await replica.send(an_edit_judged(asked, shown_arguments=shown))
    assert '{"amount":199,"pin":"no-4929"}' == of(sent, ToolCallPermitted).call.arguments
    told = [message.model_dump_json() for message in sent if not isinstance(message, ToolCallPermitted)]
    kept = await replica.rows("SELECT detail FROM approval.history")
    seen = await replica.rows(VIEWS["edits"])
    assert [] == [text for text in (*told, str(kept), str(seen)) if "no-4929" in text]
    assert [{"at": "/amount", "before": 299, "after": 199}] == seen[0]["differences"]


async def test_a_place_given_with_a_revoked_key_is_nobodys(replica: Replica, gateway: Signer) -> None:
    """Dora may decide in ada's place as long as the key works with which ada said so."""
    await add_keys(replica, "key-1")
    card = await opened_by(replica, approvers=["group:finance"])
    await decide(replica, gateway, card, "ada", "delegate", to="person:dora", key_id="key-1")
    await revoke(replica, "key-1")
    sent = await decide(replica, gateway, card, "dora", "approve")
    assert "not_allowed" == of(sent, DecisionAnswered).outcome


async def test_an_edit_is_judged_then_permitted_as_it_was_approved(
    replicas: tuple[Replica, Replica], gateway: Signer, verifier: Verifier
) -> None:
    """The permit is for the changed call, and what was proposed travels with it for the model."""
    card = await opened_by(replicas[0], approvers=["group:finance"], edits=True)
    asked = await decide(replicas[0], gateway, card, "ada", "edit", arguments=CHEAPER, reason="a discount")
    assert {EditProposed} == {type(message) for message in asked}
    sent = await replicas[1].send(an_edit_judged(of(asked, EditProposed)))
    permitted, news, told = of(sent, ToolCallPermitted), of(sent, ApprovalProgressed), of(sent, DecisionAnswered)
    verify_permit(verifier, permitted.permit, permitted.call, pool="payments")
    assert permitted.call.edited is not None
    assert (CHEAPER, card.call.shown_arguments, card.call.digest) == (
        permitted.call.arguments,
        permitted.call.edited.proposed,
        permitted.call.edited.proposed_digest,
    )
    assert news.call is not None
    assert ("edited", CHEAPER) == (news.kind, news.call.shown_arguments)
    # Nothing is shown any more of what comes behind an end.
    assert sent.index(news) < sent.index(of(sent, ApprovalClosed))
    assert news.revision > card.revision
    assert ("accepted", "approved", permitted.call.digest) == (told.outcome, told.state, told.digest)
    rows = await replicas[0].rows("SELECT state, before, arguments, differences FROM approval.edits")
    changes = [{"at": "/amount", "before": 299, "after": 199}]
    expected = {"state": "accepted", "before": card.call.shown_arguments, "arguments": CHEAPER, "differences": changes}
    assert [expected] == rows


async def test_an_edit_voids_votes_and_stales_cards(replica: Replica, gateway: Signer) -> None:
    """Bob approved other arguments: his vote is void, his card stale, and a look at the new one decides."""
    card = await opened_by(replica, **TWO, edits=True)
    await decide(replica, gateway, card, "bob", "approve")
    asked = await decide(replica, gateway, card, "ada", "edit", arguments=CHEAPER)
    edited = await replica.send(an_edit_judged(of(asked, EditProposed)))
    assert "pending" == of(edited, DecisionAnswered).state
    async with replica.units.database.single() as connection:
        (reading,) = await store.read_decisions(connection, [claims_of(card, "bob", "approve")])
    assert ["person:ada"] == [each.voter.person for each in reading.votes]
    stale = await decide(replica, gateway, card, "bob", "approve")
    assert "stale" == of(stale, DecisionAnswered).outcome
    seen = of(edited, ApprovalProgressed).call
    assert seen is not None
    sent = await decide(replica, gateway, card, "bob", "approve", digest=seen.digest)
    assert "approved" == of(sent, ApprovalClosed).state


async def test_a_judgement_that_comes_twice_edits_once(replicas: tuple[Replica, Replica], gateway: Signer) -> None:
    """Policy's answer in another event, at another replica, has no effect."""
    card = await opened_by(replicas[0], **TWO, edits=True)
    asked = of(await decide(replicas[0], gateway, card, "ada", "edit", arguments=CHEAPER), EditProposed)
    await replicas[0].send(an_edit_judged(asked))
    assert [] == await replicas[1].send(an_edit_judged(asked))
    assert [{"arguments_revision": 2}] == await replicas[0].rows("SELECT arguments_revision FROM approval.approvals")
    assert [] == replicas[1].dead


@pytest.mark.parametrize("change", [{"signature": "forged"}, {"accepted": True}, {"edit_id": "other"}], ids=str)
async def test_a_forged_judgement_of_an_edit_is_buried(
    replica: Replica, gateway: Signer, change: dict[str, Any]
) -> None:
    """Whoever can write to the broker cannot let an edit leave the rulebook: policy's word is signed as a whole."""
    card = await opened_by(replica, **TWO, edits=True)
    asked = of(await decide(replica, gateway, card, "ada", "edit", arguments=CHEAPER), EditProposed)
    verdict = an_edit_judged(asked, accepted=False, detail="Too cheap.")
    genuine = replica.as_sent(verdict)
    assert [] == await replica.send(genuine.model_copy(update=change))
    assert [True] == [reason.startswith("security:") for reason in replica.dead]
    assert [{"arguments_revision": 1}] == await replica.rows("SELECT arguments_revision FROM approval.approvals")


async def test_an_edit_that_policy_refuses_is_answered_with_its_reason(replica: Replica, gateway: Signer) -> None:
    """The approval waits on, as it was."""
    card = await opened_by(replica, approvers=["group:finance"], edits=True)
    asked = of(await decide(replica, gateway, card, "ada", "edit", arguments=CHEAPER), EditProposed)
    told = of(await replica.send(an_edit_judged(asked, accepted=False, detail="Too cheap.")), DecisionAnswered)
    assert ("invalid", "pending", "Too cheap.", card.call.digest) == (
        told.outcome,
        told.state,
        told.detail,
        told.digest,
    )


async def test_an_edit_that_is_asked_again_behind_the_end_is_answered_once(replica: Replica, gateway: Signer) -> None:
    """The second copy is refused, as the approval is over; what policy says of the first one then changes nothing."""
    card = await opened_by(replica, approvers=["group:finance"], edits=True)
    wish = a_decision(gateway, claims_of(card, "ada", "edit", arguments=CHEAPER))
    asked = of(await replica.send(wish), EditProposed)
    await decide(replica, gateway, card, "bob", "deny")
    told = of(await replica.send(wish), DecisionAnswered)
    assert [] == await replica.send(an_edit_judged(asked))
    rows = await replica.rows("SELECT state, detail FROM approval.edits")
    assert ("already_decided", [{"state": "refused", "detail": told.detail}]) == (told.outcome, rows)


async def test_an_unknown_edit_is_buried(replica: Replica, gateway: Signer) -> None:
    """A judgement of what nobody asked is no message of ours."""
    card = await opened_by(replica, approvers=["group:finance"], edits=True)
    asked = of(await decide(replica, gateway, card, "ada", "edit", arguments=CHEAPER), EditProposed)
    assert [] == await replica.send(an_edit_judged(asked.model_copy(update={"edit_id": "unknown"})))
    assert [True] == ["was never asked" in reason for reason in replica.dead]


ANSWER_KINDS = """
    SELECT answer_kind AS of_card, details ->> 'response_kind' AS of_decision
    FROM approval.approvals JOIN approval.decisions USING (approval_id)
"""


@pytest.mark.parametrize(("said", "kind"), [({}, "instruction"), ({"response_kind": "result"}, "result")])
async def test_an_answer_instead_refuses_the_call_as_answered(
    replica: Replica, gateway: Signer, said: dict[str, Any], kind: str
) -> None:
    """The model gets the person's words under a kind of their own, and the call never runs; the kind is kept."""
    card = await opened_by(replica, approvers=["group:finance"])
    words = "Send an invoice instead."
    sent = await decide(replica, gateway, card, "ada", "respond", response=words, **said)
    refused, over = of(sent, ToolCallRefused), of(sent, ApprovalClosed)
    assert ("answered", "person:ada", kind, words) == (
        refused.kind,
        refused.decided_by,
        refused.answer_kind,
        refused.answer,
    )
    assert ("answered", kind, words) == (over.state, over.answer_kind, over.reason)
    assert [{"of_card": kind, "of_decision": kind}] == await replica.rows(ANSWER_KINDS)


async def test_a_delegation_outlives_its_transaction(replicas: tuple[Replica, Replica], gateway: Signer) -> None:
    """Dora decides in ada's place, at another replica."""
    card = await opened_by(replicas[0], approvers=["person:ada"])
    told = await decide(replicas[0], gateway, card, "ada", "delegate", to="person:dora")
    assert "delegated" == of(told, ApprovalProgressed).kind
    sent = await decide(replicas[1], gateway, card, "dora", "approve")
    assert ("approved", "person:dora") == (of(sent, ApprovalClosed).state, of(sent, ApprovalClosed).decided_by)


async def test_a_grant_is_asked_with_the_approval_and_only_then(replica: Replica, gateway: Signer) -> None:
    """In the same transaction as the permit, once, whatever comes again."""
    terms = GrantTerms(bounds=["amount"], uses=3)
    card = await opened_by(replica, approvers=["group:finance"], grants=terms)
    decision = a_decision(gateway, claims_of(card, "ada", "approve", grant=GrantWish(uses=2)))
    asked = of(await replica.send(decision), GrantAsked)
    assert (card.call, "person:ada", 2, ["amount"], card.approval_id) == (
        ShownCall.model_validate(asked.call.model_dump()),
        asked.owner,
        asked.uses,
        asked.bounds,
        asked.approval_id,
    )
    again = await replica.send(decision)
    assert {DecisionAnswered} == {type(message) for message in again}


async def test_a_cancel_after_the_approval_is_recorded_and_told_truthfully(replica: Replica, gateway: Signer) -> None:
    """The state stays approved; who wanted it cancelled, and when, stands beside it."""
    card = await opened_by(replica, approvers=["group:finance"])
    await decide(replica, gateway, card, "ada", "approve")
    told = of(await replica.send(a_decision(gateway, some_claims(card, verb="cancel"))), DecisionAnswered)
    assert ("already_decided", "approved", True) == (told.outcome, told.state, "may be running" in told.detail)
    row = (await replica.rows("SELECT state, cancel_asked_by, cancel_asked_at FROM approval.approvals"))[0]
    assert ("approved", "person:bob", True) == (
        row["state"],
        row["cancel_asked_by"],
        row["cancel_asked_at"] is not None,
    )


async def test_a_cancel_before_any_decision_ends_the_call(replica: Replica, gateway: Signer) -> None:
    """The model hears who cancelled it, and no permit is issued."""
    card = await opened_by(replica, approvers=["group:finance"])
    sent = await replica.send(a_decision(gateway, some_claims(card, verb="cancel", reason="wrong size")))
    assert ("cancelled", "withdrawn") == (of(sent, ToolCallRefused).kind, of(sent, ApprovalClosed).state)
    assert "person:bob cancelled it: wrong size" in of(sent, ToolCallRefused).reason


_OLDER = (
    "UPDATE approval.approvals SET created_at = created_at - :age * interval '1 s',"
    " next_step_at = next_step_at - :age * interval '1 s'"
)


async def test_each_step_is_done_once_by_any_number_of_replicas(replicas: tuple[Replica, Replica]) -> None:
    """A reminder and an escalation that are due are sent in their order, and a second look finds nothing."""
    steps = {
        "reminders_after_seconds": [60],
        "escalations": [Escalation(after_seconds=120, approvers=["group:leads"], channels=["log"])],
    }
    await opened_by(replicas[0], approvers=["group:finance"], **steps)
    assert 0 == await worker.take_steps(replicas[0].units, 10)
    await replicas[0].execute(_OLDER, age=130)
    done = [await worker.take_steps(replica.units, 10) for replica in (*replicas, *replicas)]
    assert [1, 1, 0, 0] == done
    for replica in replicas:
        await replica.settle()
    news = [message for replica in replicas for message in replica.all_sent(ApprovalProgressed)]
    assert [("reminded", 2, []), ("escalated", 3, ["group:leads"])] == [
        (each.kind, each.revision, each.approvers) for each in news
    ]


async def test_an_escalated_approver_may_decide(replica: Replica, gateway: Signer) -> None:
    """Carl, a lead, may not before his step and may after it."""
    steps = {"escalations": [Escalation(after_seconds=60, approvers=["group:leads"])]}
    card = await opened_by(replica, approvers=["group:finance"], **steps)
    early = of(await decide(replica, gateway, card, "carl", "approve"), DecisionAnswered)
    await replica.execute(_OLDER, age=61)
    await worker.take_steps(replica.units, 10)
    late = of(await decide(replica, gateway, card, "carl", "approve"), DecisionAnswered)
    assert ["not_allowed", "accepted"] == [early.outcome, late.outcome]


async def test_claims_are_shown_and_kept(replica: Replica, gateway: Signer) -> None:
    """A surface redraws its card with who did it; nobody's digest is stale because of it."""
    card = await opened_by(replica, approvers=["operators"])
    news = of(await replica.send(a_decision(gateway, some_claims(card, verb="claim", seconds=60))), ApprovalProgressed)
    assert ("claimed", "person:bob", 2) == (news.kind, news.person, news.revision)
    sent = await replica.send(a_decision(gateway, some_claims(card, revision=1)))
    assert "approved" == of(sent, ApprovalClosed).state
