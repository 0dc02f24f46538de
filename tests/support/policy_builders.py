"""A rulebook with limits and grants, and the messages that ask for them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from placet.contracts.canonical import canonical_text, parse_arguments
from placet.contracts.ids import new_id
from placet.contracts.messages import (
    EditProposed,
    GrantAsked,
    Message,
    RevokeGrant,
    ToolCall,
    ToolCallFinished,
    ToolCallProposed,
    ToolCallRefused,
    WatchedCallClosed,
)
from placet.contracts.permit import digest_of
from placet.contracts.signed import signed
from placet.contracts.signing import Signer
from placet.policy.rules import Rulebook
from tests.builders import NOON, a_call

#: `small` lets 500 a day per tenant and 20 calls an hour per conversation through; what is more is held.
LIMITED = """\
tools:
  pay:
    description: Pay somebody.
    category: unsafe_api
    pool: payments
    redact: [/to]
    parameters: {type: object, properties: {amount: {type: number}, to: {type: string}}}
  look:
    description: Look something up.
    category: safe_read
    parameters: {type: object, properties: {text: {type: string}}}
  ship:
    description: Ship something.
    redact: [/to]
    category: unsafe_api
    parameters: {type: object, properties: {amount: {type: number}, to: {type: string}}}
rules:
  - name: small
    match: {tool: pay}
    effect: allow
    reason: Small.
    limits:
      - {sum: {argument: amount, at_most: 500}, per: tenant, within: 1d}
      - {count: 20, per: conversation, within: 3600}
  - name: payments
    match: {tool: pay}
    effect: require_approval
    reason: It costs money.
    approval: {approvers: [operators]}
  - name: looked-enough
    match: {tool: look}
    when: history.calls_last_day >= 3
    effect: deny
    reason: Three times a day is enough.
  - name: four-eyes
    match: {tool: ship, agent: careful}
    effect: require_approval
    reason: Two people look at it.
    approval:
      approvers: [operators]
      exclude: [requester]
      grants: {scope: agent, bounds: [amount], uses: 3, expires_after_seconds: 3600}
  - name: shipping
    match: {tool: ship}
    effect: require_approval
    reason: It leaves the house.
    approval:
      approvers: [requester, operators]
      grants: {scope: agent, bounds: [amount], uses: 3, expires_after_seconds: 3600}
"""


def a_proposal(rulebook: Rulebook, tool: str, **changes: Any) -> ToolCallProposed:
    """Return the agent's proposal of a call to a tool as the rulebook has it."""
    spec = rulebook.tools.get(tool)
    fields = {"tool": tool, "schema_digest": spec.schema_digest if spec else "a" * 64, "arguments": {"amount": 299}}
    call = a_call(**(fields | changes))
    return ToolCallProposed(tenant=call.tenant, call=call)


def a_refusal(call: ToolCall, kind: str = "denied") -> ToolCallRefused:
    """Return the news that a call will never run."""
    fields = {"conversation_id": call.conversation_id, "tool": call.tool, "reason": "It did not run."}
    return ToolCallRefused.model_validate({"tenant": call.tenant, "call_id": call.call_id, "kind": kind, **fields})


def a_failure(call: ToolCall) -> ToolCallFinished:
    """Return the news that a call ran and its tool said no."""
    fields = {"conversation_id": call.conversation_id, "tool": call.tool, "error": "No.", "attempt": 1}
    times = {"started_at": NOON, "finished_at": NOON}
    return ToolCallFinished.model_validate(
        {"tenant": call.tenant, "call_id": call.call_id, "kind": "failed", **fields, **times}
    )


def an_end(call: ToolCall, state: str = "denied", **changes: Any) -> WatchedCallClosed:
    """Return the news that the approval of a watched call is over: bob denied it just now."""
    fields: dict[str, Any] = {
        "tenant": call.tenant,
        "call_id": call.call_id,
        "state": state,
        "decided_by": "person:bob",
        "reason": "Too much.",
        "closed_at": datetime.now(UTC),
    }
    return WatchedCallClosed(**(fields | changes))


def an_edit(call: ToolCall, amount: float, signer: Signer, rule: str = "marked", at: datetime = NOON) -> EditProposed:
    """Return what approval asks when a person wants a held call to have another amount."""
    arguments = {**parse_arguments(call.arguments), "amount": amount}
    changed = call.model_copy(update={"arguments": canonical_text(arguments)})
    changed = changed.model_copy(update={"digest": digest_of(changed)})
    ids = {"edit_id": new_id(), "approval_id": new_id()}
    return signed(EditProposed(tenant=call.tenant, rule=rule, call=changed, **ids), signer, at)


def a_grant_request(call: ToolCall, signer: Signer | None = None, at: datetime = NOON, **changes: Any) -> GrantAsked:
    """Return what approval sends when a person wants such calls allowed from now on, signed by `signer`."""
    fields: dict[str, Any] = {
        "tenant": call.tenant,
        "grant_id": new_id(),
        "approval_id": new_id(),
        "owner": "person:ada",
        "call": call,
        "scope": "agent",
        "bounds": ["amount"],
        "uses": 3,
        "expires_at": datetime.now(UTC) + timedelta(minutes=30),
        "rule": "shipping",
        "rulebook_digest": "b" * 64,
    }
    asked = GrantAsked(**(fields | changes))
    return signed(asked, signer, at) if signer else asked


def a_revocation(grant_id: str, tenant: str = "acme", by: str = "person:ada") -> RevokeGrant:
    """Return somebody's wish to take a grant back."""
    return RevokeGrant(tenant=tenant, grant_id=grant_id, by=by)


def kinds(messages: list[Message]) -> list[str]:
    """Return the names of messages' types."""
    return [type(message).__name__ for message in messages]
