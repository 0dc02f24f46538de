"""Builders for tests of approval: requests, approvals and the decisions that the gateway signs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from placet.approval.rules import Approval, Edit, edits
from placet.approval.states import EDIT_MACHINE, State
from placet.contracts.ids import new_id
from placet.contracts.messages import (
    ApprovalClosed,
    ApprovalOpened,
    ApprovalRequested,
    CallsWithdrawn,
    DecideApproval,
    DecisionClaims,
    EditJudged,
    EditProposed,
    Message,
    ShownCall,
    ToolCall,
    ToolCallRefused,
)
from placet.contracts.signing import Purpose, Signer
from placet.domain.directory import Directory, Person
from tests.builders import NOON, a_call, an_approval_rule

RULEBOOK_DIGEST = "b" * 64
LATER = NOON + timedelta(hours=1)
#: What is sent of an approval that ends without a yes, in this order.
REFUSED: list[type[Message]] = [ToolCallRefused, ApprovalClosed]


def a_request(call: ToolCall | None = None, **changes: Any) -> ApprovalRequested:
    """Return policy's request to hold a call."""
    call = call or a_call()
    fields: dict[str, Any] = {
        "tenant": call.tenant,
        "call": call,
        "category": "unsafe_api",
        "pool": "payments",
        "permit_expires_after_seconds": 900,
        "summary": "Create a payment link over 299 TRY?",
        "rule": "payment-links",
        "rulebook_digest": RULEBOOK_DIGEST,
        "reason": "A payment link asks the customer for money.",
        "approval": an_approval_rule(approvers=["requester", "operators", "person:ada"]),
    }
    return ApprovalRequested(**(fields | changes))


def an_approval(**changes: Any) -> Approval:
    """Return a pending approval, opened at NOON, that waits until LATER."""
    request = a_request(changes.pop("call", None))
    fields: dict[str, Any] = {
        "approval_id": new_id(),
        "call": request.call,
        "category": request.category,
        "pool": request.pool,
        "permit_expires_after_seconds": request.permit_expires_after_seconds,
        "summary": request.summary,
        "rule": request.rule,
        "rulebook_digest": request.rulebook_digest,
        "directory_digest": request.directory_digest,
        "reason": request.reason,
        "approval_rule": request.approval,
        "state": State.PENDING,
        "revision": 1,
        "created_at": NOON,
        "expires_at": LATER,
        "correlation_id": "thread-1",
        "traceparent": "",
    }
    return Approval(**(fields | changes))


def closed_as(state: State, at: datetime = NOON, **changes: Any) -> Approval:
    """Return an approval that ended in `state`."""
    ends: dict[State, dict[str, Any]] = {
        State.APPROVED: {"decided_by": "person:ada", "decision_reason": ""},
        State.DENIED: {"decided_by": "person:ada", "decision_reason": "too much", "result_kind": "denied"},
        State.ANSWERED: {
            "decided_by": "person:ada",
            "decision_reason": "42",
            "result_kind": "answered",
            "answer_kind": "result",
        },
        State.EXPIRED: {"result_kind": "expired"},
        State.WITHDRAWN: {"result_kind": "superseded", "decision_reason": "Not run: the user wrote again."},
    }
    return an_approval(**({"state": state, "closed_at": at} | ends[state] | changes))


def some_claims(approval: Approval | ApprovalOpened, **changes: Any) -> DecisionClaims:
    """Return an operator's approval of exactly what is to be decided."""
    fields: dict[str, Any] = {
        "tenant": approval.call.tenant,
        "approval_id": approval.approval_id,
        "decision_id": new_id(),
        "verb": "approve",
        "digest": approval.call.digest,
        "revision": approval.revision,
        "person": "person:bob",
        "roles": ["operators"],
        "proof": "api_key",
    }
    return DecisionClaims(**(fields | changes))


def a_decision(signer: Signer, claims: DecisionClaims, **changes: Any) -> DecideApproval:
    """Return the message with which the gateway passes a decision on."""
    fields: dict[str, Any] = {
        "tenant": claims.tenant,
        "approval_id": claims.approval_id,
        "decision_id": claims.decision_id,
        "answer_to": "gateway-1",
        "decision": signer.sign(Purpose.DECISION, claims.model_dump()),
    }
    return DecideApproval(**(fields | changes))


def a_withdrawal(*calls: ShownCall, **changes: Any) -> CallsWithdrawn:
    """Return the agent's word that it does not want these calls any more."""
    fields: dict[str, Any] = {
        "tenant": calls[0].tenant,
        "conversation_id": calls[0].conversation_id,
        "call_ids": [call.call_id for call in calls],
        "kind": "superseded",
        "reason": "Not run: the user wrote again.",
    }
    return CallsWithdrawn(**(fields | changes))


class Counted(dict[str, Person]):
    """People, and how often somebody was looked up."""

    looked_up = 0

    def get(self, *wanted: Any) -> Any:
        """Return somebody, and count it."""
        self.looked_up += 1
        return super().get(*wanted)


def a_directory(*inactive: str, **changes: Any) -> Directory:
    """Return ada and bob of finance, carl the lead, and dora in no group; those named are not active any more."""
    people = {name: Person(name, name.title(), active=name not in inactive) for name in ("ada", "bob", "carl", "dora")}
    fields: dict[str, Any] = {
        "digest": "d" * 64,
        "people": people,
        "groups": {"finance": frozenset({"ada", "bob"}), "leads": frozenset({"carl"})},
        "owners": {"default": frozenset({"carl"})},
    }
    return Directory(**(fields | changes))


def claims_of(approval: Approval | ApprovalOpened, name: str, verb: str, **changes: Any) -> DecisionClaims:
    """Return what a named person decides, known by an API key of theirs that makes them no operator."""
    return some_claims(approval, person=f"person:{name}", roles=[], verb=verb, **changes)


def an_edit(approval: Approval, claims: DecisionClaims) -> Edit:
    """Return the edit that a decision asked for, as it is stored until policy has judged it."""
    call, problem = edits.revised(approval, claims)
    assert call is not None, problem
    return Edit(
        edit_id=claims.decision_id,
        approval_id=approval.approval_id,
        person=claims.person,
        state=EDIT_MACHINE.initial,
        base_revision=approval.arguments_revision,
        arguments=call.arguments,
        digest=call.digest,
        signed="-",
        answer_to="gateway-1",
    )


class Register:
    """Who is who, for every replica at once; a test changes it as an administrator would change the file."""

    def __init__(self) -> None:
        self.directory = a_directory()

    def __call__(self) -> Directory:
        """Return the directory as it is now."""
        return self.directory


def an_edit_judged(edit: Edit | EditProposed, **changes: Any) -> EditJudged:
    """Return policy's word that an edit stays within the rulebook."""
    fields: dict[str, Any] = {
        "tenant": "acme",
        "edit_id": edit.edit_id,
        "approval_id": edit.approval_id,
        "digest": edit.digest if isinstance(edit, Edit) else edit.call.digest,
        "accepted": True,
        "summary": "Create another payment link?",
        "shown_arguments": edit.arguments if isinstance(edit, Edit) else edit.call.arguments,
        "rulebook_digest": RULEBOOK_DIGEST,
    }
    return EditJudged(**(fields | changes))
