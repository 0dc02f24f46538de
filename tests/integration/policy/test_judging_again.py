"""A call that people approved under another rulebook: handed on, unless a rule denies it by now."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from placet.contracts.ids import new_id
from placet.contracts.messages import CallApproved, ToolCall, ToolCallPermitted, ToolCallRefused
from placet.contracts.permit import issue_permit
from placet.contracts.signing import Signer
from placet.policy.rulebook import load_rulebook
from placet.policy.rules import Rulebook
from placet.policy.service import build
from placet.policy.settings import PolicySettings
from tests.builders import NOON, an_abandonment
from tests.support.house import Replica, a_replica
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


_STAGED = "by now such calls are staged. Propose it again."
COUNTED = """\
tools:
  pay: {description: Pay., category: unsafe_api, parameters: {type: object, properties: {amount: {type: number}}}}
rules:
  - name: too-many
    match: {tool: pay}
    when: history.calls_last_day >= 2
    effect: deny
    reason: It is much.
    model_reason: Two a day.
  - name: payments
    match: {tool: pay}
    effect: require_approval
    reason: It costs.
    approval: {approvers: [operators]}
"""


@pytest.mark.parametrize(
    ("today", "answers"),
    [
        (COUNTED, ["", "", "Two a day."]),
        (COUNTED.replace("effect: require_approval", "effect: stage"), [_STAGED, _STAGED, "Two a day."]),
    ],
)
async def test_what_came_later_does_not_count_and_what_is_refused_hears_why(
    settings: PolicySettings, policy_url: str, tmp_path: Path, approver: Signer, today: str, answers: list[str]
) -> None:
    """The earlier calls of one that is judged again are those that were when it was judged first."""
    (path := tmp_path / "rulebook.yaml").write_text(COUNTED)
    by = settings.model_copy(update={"rulebook": path})
    calls, conversation_id = [], new_id()
    async with a_replica("policy", policy_url, partial(build, by), keys=by.keys) as replica:
        for _ in range(3):
            proposed = a_proposal(load_rulebook(path), "pay", conversation_id=conversation_id)
            await replica.send(proposed)
            calls.append(proposed.call)
    path.write_text(today + "# Changed.\n")
    async with a_replica("policy", policy_url, partial(build, by), keys=by.keys) as replica:
        sent = [(await replica.send(an_approved(call, approver)))[0] for call in calls]
    told = [
        one.reason.removeprefix("The call did not run: ") if isinstance(one, ToolCallRefused) else "" for one in sent
    ]
    assert answers == told


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
