"""Commits of workspaces on real PostgreSQL: one decision, one permit for the commit and one for each staged call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import TypeAdapter

from placet.contracts.canonical import canonical_text
from placet.contracts.messages import (
    ApprovalOpened,
    ApprovalProgressed,
    Demand,
    EditProposed,
    Message,
    Panel,
    StagedCall,
    StagedCallPermitted,
    ToolCall,
    ToolCallPermitted,
    ToolCallRefused,
)
from placet.contracts.permit import Permit, verify_permit
from placet.contracts.signed import signed
from placet.contracts.signing import Purpose, Signer, Verifier, load_signer
from placet.domain.house_tools import COMMIT_SPEC
from tests.builders import NOON, a_call, an_approval_rule
from tests.support.approval_builders import a_decision, a_request, an_edit_judged, claims_of
from tests.support.house import Replica

FINANCE_AND_LEADS: dict[str, Any] = {
    "approvers": ["group:finance"],
    "also": [Demand(panels=[Panel(approvers=["group:leads"])])],
}


def tree_of(entries: Sequence[str], tree: str = "b") -> str:
    """Return the arguments of a commit of these entries, canonical."""
    return canonical_text({"workspace_id": "w1", "tree_digest": tree * 64, "entries": list(entries)})


def a_staged_call(call: ToolCall, on_failure: Any = "stop") -> StagedCall:
    """Return what policy says of a staged call."""
    named = {name: getattr(call, name) for name in ("call_id", "tool", "digest", "requester", "message_id")}
    return StagedCall(**named, pool="rooms", on_failure=on_failure)


async def opened(replica: Replica, keys: Any, staged: Sequence[ToolCall], **rule: Any) -> ApprovalOpened:
    """Have a commit of one change and of staged calls held; return its card."""
    entries = ["change-1", *(call.call_id for call in staged)]
    schema = COMMIT_SPEC.schema_digest
    call = a_call(tool=COMMIT_SPEC.name, schema_digest=schema, arguments=tree_of(entries), step=2, position=1)
    asked = an_approval_rule(**{"approvers": ["group:finance"], "edits": True} | rule)
    kept = [a_staged_call(each, "go_on") for each in staged]
    request = a_request(call, approval=asked, pool="files", staged=kept)
    (card,) = await replica.send(signed(request, load_signer(keys, "policy"), NOON))
    return TypeAdapter(ApprovalOpened).validate_python(card)


def permits(sent: Sequence[Message], verifier: Verifier) -> list[Permit]:
    """Return the permits that were sent, in order."""
    tokens = [each.permit for each in sent if isinstance(each, ToolCallPermitted | StagedCallPermitted)]
    return [Permit.model_validate(verifier.verify(Purpose.PERMIT, token)) for token in tokens]


@pytest.fixture
def calls() -> list[ToolCall]:
    """Two staged calls."""
    return [a_call(), a_call()]


async def test_an_approved_commit_permits_its_calls_in_order(
    replica: Replica, gateway: Signer, verifier: Verifier, keys: Any, calls: list[ToolCall]
) -> None:
    """Each comes after the one before it, the first after the commit, and none is good for anything else."""
    card = await opened(replica, keys, calls)
    sent = await replica.send(a_decision(gateway, claims_of(card, "ada", "approve")))
    first, *others = permits(sent, verifier)
    assert ("commit", card.call.call_id, "files") == (first.mode, first.sub, first.aud)
    assert [(calls[0].call_id, [card.call.call_id]), (calls[1].call_id, [calls[0].call_id])] == [
        (permit.sub, permit.after) for permit in others
    ]
    assert {("staged_call", "rooms", card.call.call_id, "go_on")} == {
        (permit.mode, permit.aud, permit.commit, permit.on_failure) for permit in others
    }
    tokens = [each for each in sent if isinstance(each, StagedCallPermitted)]
    verify_permit(verifier, tokens[0].permit, calls[0], pool="rooms", modes=("staged_call",))
    assert {"w1"} == {each.workspace_id for each in tokens}


async def test_a_commit_waits_until_every_demand_is_met(
    replica: Replica, gateway: Signer, verifier: Verifier, keys: Any, calls: list[ToolCall]
) -> None:
    """What another entry's rule asks is asked too: finance alone permits nothing."""
    card = await opened(replica, keys, calls, **FINANCE_AND_LEADS)
    first = await replica.send(a_decision(gateway, claims_of(card, "ada", "approve")))
    second = await replica.send(a_decision(gateway, claims_of(card, "carl", "approve")))
    assert ([], 3) == (permits(first, verifier), len(permits(second, verifier)))
    assert any(isinstance(each, ApprovalProgressed) for each in first)


async def test_a_denied_commit_permits_nothing(
    replica: Replica, gateway: Signer, verifier: Verifier, keys: Any, calls: list[ToolCall]
) -> None:
    """One refusal of the commit, and not a word about its calls."""
    card = await opened(replica, keys, calls)
    sent = await replica.send(a_decision(gateway, claims_of(card, "ada", "deny")))
    (refused,) = [each for each in sent if isinstance(each, ToolCallRefused)]
    assert ([], "denied", card.call.call_id) == (permits(sent, verifier), refused.kind, refused.call_id)


async def test_what_was_left_out_gets_no_permit(
    replica: Replica, gateway: Signer, verifier: Verifier, keys: Any, calls: list[ToolCall]
) -> None:
    """An edit to fewer entries is a revision with another digest, and only what is left is permitted."""
    card = await opened(replica, keys, calls)
    wanted = tree_of(["change-1", calls[1].call_id], "d")
    asked = await replica.send(a_decision(gateway, claims_of(card, "ada", "edit", arguments=wanted)))
    (edit,) = [each for each in asked if isinstance(each, EditProposed)]
    sent = await replica.send(signed(an_edit_judged(edit), load_signer(keys, "policy"), NOON))
    first, *others = permits(sent, verifier)
    assert [(calls[1].call_id, [card.call.call_id])] == [(permit.sub, permit.after) for permit in others]
    assert (False, "commit") == (first.digest == card.call.digest, first.mode)


async def test_votes_for_another_tree_are_void(
    replica: Replica, gateway: Signer, verifier: Verifier, keys: Any, calls: list[ToolCall]
) -> None:
    """Who approved the whole has not approved a part: after entries were left out, everybody votes anew."""
    card = await opened(replica, keys, calls, approvals=2)
    before = await replica.send(a_decision(gateway, claims_of(card, "ada", "approve")))
    wanted = tree_of(["change-1", calls[1].call_id], "d")
    asked = await replica.send(a_decision(gateway, claims_of(card, "bob", "edit", arguments=wanted)))
    (edit,) = [each for each in asked if isinstance(each, EditProposed)]
    sent = await replica.send(signed(an_edit_judged(edit), load_signer(keys, "policy"), NOON))
    stale = await replica.send(a_decision(gateway, claims_of(card, "ada", "approve")))
    assert [[], [], []] == [permits(each, verifier) for each in (before, sent, stale)]


async def test_a_call_that_stages_nothing_has_no_word_of_it(replica: Replica) -> None:
    """The column of an ordinary approval is NULL."""
    await replica.send(a_request())
    assert [None] == [row["staged"] for row in await replica.rows("SELECT staged FROM approval.approvals")]
