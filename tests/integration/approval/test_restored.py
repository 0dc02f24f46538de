"""After a restore: what was signed before it is void, whatever envelope it comes in; nobody knows what it led to."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from placet.contracts.messages import ApprovalOpened, DecisionAnswered, EditProposed, ToolCallPermitted
from placet.contracts.signed import signed
from placet.contracts.signing import Signer, load_signer
from tests.builders import NOON, an_approval_rule
from tests.integration.approval.test_handlers import opened_by
from tests.support.approval_builders import a_decision, a_request, an_edit_judged, claims_of, some_claims
from tests.support.house import Replica

VOID = "poison: sent before the restore of 2026-11-22T12:00:00+00:00, so what it asks for may have been done: ask again"
SINCE = NOON + timedelta(seconds=1)


@pytest.mark.parametrize("at", [NOON.timestamp(), 0])
async def test_a_decision_from_before_a_restore_counts_no_more(replica: Replica, gateway: Signer, at: float) -> None:
    """One without a time is from before, too."""
    card = await opened_by(replica)
    decision = a_decision(gateway, some_claims(card, at=at))
    assert ([], [VOID]) == (await replica.send_anew(decision, restored_at=NOON), replica.dead)
    assert [{"state": "pending"}] == await replica.rows("SELECT state FROM approval.approvals")


async def test_a_decision_of_since_then_counts(replica: Replica, gateway: Signer) -> None:
    """The call waits again, and who approves it is asked anew."""
    card = await opened_by(replica)
    decision = a_decision(gateway, some_claims(card, at=SINCE.timestamp()))
    sent = await replica.send_anew(decision, restored_at=NOON)
    assert [ToolCallPermitted] == [type(each) for each in sent if isinstance(each, ToolCallPermitted)]


async def test_a_decision_that_the_backup_knows_has_its_answer(replica: Replica, gateway: Signer) -> None:
    """Whoever sends it again hears the same, and nothing runs for it."""
    card = await opened_by(replica)
    decision = a_decision(gateway, some_claims(card, at=NOON.timestamp()))
    first = [each for each in await replica.send(decision) if isinstance(each, DecisionAnswered)]
    assert (first, []) == (await replica.send_anew(decision, restored_at=NOON), replica.dead)


async def test_nobody_is_asked_for_what_was_held_before_a_restore(replica: Replica, keys: Path) -> None:
    """The call may have run since, and its card would not say so."""
    held = signed(a_request(), load_signer(keys, "policy"), NOON)
    assert ([], [VOID]) == (await replica.send_anew(held, restored_at=NOON), replica.dead)
    since = signed(a_request(), load_signer(keys, "policy"), SINCE)
    assert [ApprovalOpened] == [type(each) for each in await replica.send_anew(since, restored_at=NOON)]


@pytest.mark.parametrize(("asked_at", "judged_at"), [(SINCE, NOON), (NOON, SINCE)])
async def test_an_edit_from_before_a_restore_is_not_made(
    replica: Replica, gateway: Signer, keys: Path, asked_at: datetime, judged_at: datetime
) -> None:
    """Neither policy's word of before counts, nor its word of since on what somebody wanted before."""
    card = await opened_by(replica, approval=an_approval_rule(approvers=["person:ada"], edits=True))
    wish = claims_of(card, "ada", "edit", arguments='{"amount":199,"currency":"TRY"}', at=asked_at.timestamp())
    (asked,) = [each for each in await replica.send(a_decision(gateway, wish)) if isinstance(each, EditProposed)]
    judged = signed(an_edit_judged(asked), load_signer(keys, "policy"), judged_at)
    assert ([], [VOID]) == (await replica.send_anew(judged, restored_at=NOON), replica.dead)
    assert [{"state": "asked"}] == await replica.rows("SELECT state FROM approval.edits")
