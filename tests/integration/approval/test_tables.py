"""The database refuses what the code forgot."""

from __future__ import annotations

import pytest

from placet.approval import store
from placet.approval.rules import Withdrawal
from placet.contracts.canonical import canonical_text
from placet.contracts.signing import Signer
from placet.runtime.driver import DatabaseError
from tests.support.approval_builders import a_decision, a_request, a_withdrawal, an_approval, claims_of
from tests.support.approval_races import some_cards
from tests.support.house import Replica

ADA = "decided_by = 'person:ada'"


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("category = 'nonsense'", "category_known"),
        ("state = 'expired', result_kind = 'expired'", "closed_iff_final"),
        ("closed_at = created_at", "closed_iff_final"),
        ("state = 'approved', closed_at = created_at", "decided_by_a_person"),
        (f"state = 'expired', closed_at = created_at, result_kind = 'expired', {ADA}", "decided_by_a_person"),
        (f"state = 'approved', closed_at = expires_at, {ADA}", "decided_in_time"),
        (f"state = 'approved', closed_at = created_at, {ADA}, result_kind = 'denied'", "kind_fits_state"),
        (f"state = 'denied', closed_at = created_at, {ADA}, result_kind = 'expired'", "kind_fits_state"),
        ("state = 'withdrawn', closed_at = created_at, result_kind = 'expired'", "kind_fits_state"),
        (f"state = 'denied', closed_at = created_at, {ADA}", "refused_with_kind"),
        ("revision = 0", "revision_positive"),
        ("edited = '{}'", "edited_with_original"),
        ("revision = 2, arguments_revision = 2", "edited_with_original"),
        ("claimed_by = 'person:ada'", "claimed_for_a_time"),
        ("claimed_until = created_at", "claimed_for_a_time"),
    ],
)
async def test_an_impossible_approval_is_refused(replica: Replica, change: str, name: str) -> None:
    """Each state has exactly its own facts: an end, a person, a kind, and an approval before its deadline."""
    await replica.send(a_request())
    with pytest.raises(DatabaseError, match=f'"ck_approvals_{name}"'):
        await replica.execute(f"UPDATE approval.approvals SET {change}")  # noqa: S608


async def test_a_state_that_nobody_knows_is_refused(replica: Replica) -> None:
    """The list of states refuses it by itself, without the facts that each of them must have."""
    await replica.send(a_request())
    facts = ("closed_iff_final", "kind_fits_state", "refused_with_kind")
    drops = ", ".join(f"DROP CONSTRAINT ck_approvals_{name}" for name in facts)
    change = f"ALTER TABLE approval.approvals {drops}; UPDATE approval.approvals SET state = 'nonsense'"  # noqa: S608
    with pytest.raises(DatabaseError, match='"ck_approvals_state_known"'):
        await replica.execute(f"DO $$ BEGIN {change}; END $$")


@pytest.mark.parametrize(
    "change", ["counted_revision = NULL", "arguments_revision = NULL", "outcome = 'stale'", "verb = 'claim'"]
)
async def test_a_decision_that_counts_is_an_accepted_vote_on_some_arguments(
    replica: Replica, gateway: Signer, change: str
) -> None:
    """What was refused, and what is no vote, can never be counted."""
    (card,) = await some_cards(replica, 1)
    await replica.send(a_decision(gateway, claims_of(card, "ada", "approve")))
    with pytest.raises(DatabaseError, match='"ck_decisions_counted_votes"'):
        await replica.execute(f"UPDATE approval.decisions SET {change}")  # noqa: S608


@pytest.mark.parametrize("change", ["state = 'accepted'", "judged_at = asked_at"])
async def test_an_edit_is_judged_when_it_is_over(replica: Replica, gateway: Signer, change: str) -> None:
    """Nothing is accepted at no time, and nothing that policy answered still waits for it."""
    (card,) = await some_cards(replica, 1, approvers=["person:ada"], edits=True)
    edit = claims_of(card, "ada", "edit", arguments=canonical_text({"amount": 199, "currency": "TRY"}))
    await replica.send(a_decision(gateway, edit))
    with pytest.raises(DatabaseError, match='"ck_edits_judged_iff_over"'):
        await replica.execute(f"UPDATE approval.edits SET {change}")  # noqa: S608


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("withdrawn_kind = 'expired', withdrawn_reason = ''", "withdrawn_kind_known"),
        ("withdrawn_kind = 'cancelled'", "withdrawn_with_reason"),
    ],
)
async def test_an_impossible_withdrawal_is_refused(replica: Replica, change: str, name: str) -> None:
    """A call is cancelled or superseded, with a reason."""
    await replica.send(a_request())
    with pytest.raises(DatabaseError, match=f'"ck_calls_{name}"'):
        await replica.execute(f"UPDATE approval.calls SET {change}")  # noqa: S608


async def test_closing_what_is_not_pending_is_refused(replica: Replica) -> None:
    """The UPDATE names the state it comes from, and a row that it misses is a bug that rolls everything back."""
    request = a_request()
    await replica.send(request)
    await replica.send(a_withdrawal(request.call))
    approval_id = (await replica.rows("SELECT approval_id FROM approval.approvals"))[0]["approval_id"]
    closed = an_approval(approval_id=approval_id)
    with pytest.raises(store.LostRow):
        async with replica.units.begin() as work:
            await store.save_withdrawn(work.connection, [closed], Withdrawal("cancelled", ""))
