"""A call that people approved under another rulebook: handed on, unless a rule denies it by now."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from placet.contracts.messages import CallApproved, ToolCall, ToolCallPermitted, ToolCallRefused
from placet.contracts.permit import issue_permit
from placet.contracts.signing import Signer
from placet.policy.rules import Rulebook
from tests.builders import NOON, an_abandonment
from tests.support.house import Replica
from tests.support.policy_builders import a_proposal


def an_approved(call: ToolCall, signer: Signer, at: datetime = NOON, **changes: Any) -> CallApproved:
    """Return what approval sends of a call that people said yes to."""
    permitted, pool = changes.get("permitted", call), "payments"
    permit = issue_permit(signer, permitted, pool=pool, reference="approval-1", now=at, lifetime_seconds=60)
    return CallApproved(tenant=call.tenant, pool=pool, call=call, permit=permit, rule="payments")


async def test_what_no_rule_denies_runs_by_approvals_permit(
    replica: Replica, rulebook: Rulebook, approver: Signer
) -> None:
    """What holds it by now is no denial; the permit is handed on as it is."""
    approved = an_approved(a_proposal(rulebook, "pay").call, approver)
    (sent,) = await replica.send(approved)
    assert isinstance(sent, ToolCallPermitted)
    assert (approved.permit, approved.call, "payments") == (sent.permit, sent.call, sent.pool)


@pytest.mark.parametrize("tool", ["erase", "gone"])
async def test_what_a_rule_denies_by_now_never_runs(
    replica: Replica, rulebook: Rulebook, approver: Signer, tool: str
) -> None:
    """The conversation is told why, and the history says by which rule of which rulebook."""
    approved = an_approved(a_proposal(rulebook, tool).call, approver)
    (sent,) = await replica.send(approved)
    assert isinstance(sent, ToolCallRefused)
    (row,) = await replica.rows("SELECT event, to_state, detail FROM policy.history")
    reason = {"erase": "The call did not run: erasing is not possible here."}.get(tool, sent.reason)
    rule = {"erase": "never-erase"}.get(tool, "unknown-tool")
    assert ("refused", reason, "judged_again", "refused", rule, rulebook.digest) == (
        sent.kind,
        sent.reason,
        row["event"],
        row["to_state"],
        row["detail"]["rule"],
        row["detail"]["rulebook_digest"],
    )


async def test_a_permit_for_another_call_is_an_attack(replica: Replica, rulebook: Rulebook, approver: Signer) -> None:
    """Nothing is handed on that approval did not sign for exactly this call."""
    call = a_proposal(rulebook, "pay").call
    forged = an_approved(call, approver, permitted=a_proposal(rulebook, "pay", call_id="other").call)
    assert ([], ["security"]) == (
        await replica.send(forged),
        [reason.partition(":")[0] for reason in replica.dead],
    )


async def test_a_discarded_letter_ends_its_call(replica: Replica, rulebook: Rulebook) -> None:
    """The permit was in it, and nobody else has one."""
    call = a_proposal(rulebook, "pay").call
    (sent,) = await replica.send(an_abandonment("policy.approved-calls", call))
    assert isinstance(sent, ToolCallRefused)
    assert ("failed", call.call_id) == (sent.kind, sent.call_id)
