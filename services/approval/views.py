"""What others may read of approval: of arguments only what people may see."""

from __future__ import annotations

VIEWS = {
    "approvals": """
        SELECT approval_id, tenant, conversation_id, call_id, turn_id, tool, shown_arguments AS arguments, digest,
               schema_digest, revision, state, summary, rule, rulebook_digest, reason,
               approval_rule -> 'approvers' AS approvers, requester, agent, language, created_at, expires_at,
               decided_by, decision_reason, closed_at
        FROM approval.approvals
    """,
    "decisions": """
        SELECT decision_id, tenant, approval_id, person, verb, reason, digest, revision, proof, outcome, decided_at
        FROM approval.decisions
    """,
}
