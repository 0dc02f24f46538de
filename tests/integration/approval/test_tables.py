"""The database refuses what the code forgot."""

from __future__ import annotations

import pytest
from psycopg.errors import IntegrityError

from services.approval import store
from services.approval.rules import Withdrawal
from tests.support.approval_builders import a_request, a_withdrawal, an_approval
from tests.support.house import Replica


@pytest.mark.parametrize(
    "change",
    [
        "state = 'nonsense'",
        "state = 'expired', result_kind = 'expired'",
        "closed_at = created_at",
        "state = 'approved', closed_at = created_at",
        "state = 'approved', closed_at = expires_at, decided_by = 'person:ada'",
        "state = 'approved', closed_at = created_at, decided_by = 'person:ada', result_kind = 'denied'",
        "state = 'denied', closed_at = created_at, decided_by = 'person:ada'",
        "state = 'denied', closed_at = created_at, decided_by = 'person:ada', result_kind = 'expired'",
        "state = 'expired', closed_at = created_at, result_kind = 'expired', decided_by = 'person:ada'",
        "state = 'withdrawn', closed_at = created_at, result_kind = 'expired'",
        "revision = 0",
    ],
)
async def test_an_impossible_approval_is_refused(replica: Replica, change: str) -> None:
    """Each state has exactly its own facts: an end, a person, a kind, and an approval before its deadline."""
    await replica.send(a_request())
    with pytest.raises(IntegrityError):
        await replica.execute(f"UPDATE approval.approvals SET {change}")  # noqa: S608


@pytest.mark.parametrize(
    "change", ["withdrawn_kind = 'expired', withdrawn_reason = ''", "withdrawn_kind = 'cancelled'"]
)
async def test_an_impossible_withdrawal_is_refused(replica: Replica, change: str) -> None:
    """A call is cancelled or superseded, with a reason."""
    await replica.send(a_request())
    with pytest.raises(IntegrityError):
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
