"""What others may read of approval: of arguments only what people may see."""

from __future__ import annotations

VIEWS = {
    "approvals": """
        SELECT approval_id, tenant, conversation_id, call_id, turn_id, tool, category,
               coalesce(shown_arguments, arguments) AS arguments, shown_arguments IS NOT NULL AS arguments_masked,
               origins, labels, digest, schema_digest, revision, arguments_revision, edited, state, summary, searched,
               rule, rulebook_digest, reason, approval_rule, approval_rule -> 'approvers' AS approvers, deciders,
               deciders_digest, closed_to, voters, requester, agent, language, created_at, expires_at, decided_by,
               decision_reason, answer_kind, closed_at, steps_done, next_step_at, claimed_by, claimed_until,
               delegations, seats, cancel_asked_by, cancel_asked_at
        FROM approval.approvals
    """,
    # For services that need no more than whether people are asked in a conversation.
    "card_times": "SELECT tenant, conversation_id, approval_id, created_at, closed_at FROM approval.approvals",
    # Calls that wait for others of the same answer, for those that come after them.
    "approved_calls": """
        SELECT call_id FROM approval.approvals
        WHERE state = 'approved' AND NOT coalesce(CAST(approval_rule ->> 'independent' AS boolean), false)
    """,
    "approval_words": "SELECT tenant, word, is_open, created_at, approval_id FROM approval.words",
    # What was signed for an edit has the arguments as they were typed: told where people may see all of them.
    "decisions": """
        SELECT decision_id, tenant, approval_id, person, roles, conversation_id, verb, reason, digest, revision, proof,
               details - 'arguments' AS details, key_id, outcome, arguments_revision, counted_revision, decided_at,
               CASE WHEN verb <> 'edit' OR EXISTS (
                   SELECT FROM approval.edits AS e
                   WHERE e.tenant = d.tenant AND e.edit_id = d.decision_id AND e.state = 'accepted'
                       AND coalesce(e.shown_arguments, e.arguments) = e.arguments
                       AND coalesce(e.shown_before, e.before) = e.before
               ) THEN signed END AS signed
        FROM approval.decisions AS d
    """,
    # An edit that policy refused may hold what nobody may see.
    "edits": """
        SELECT edit_id, tenant, approval_id, person, reason, state, base_revision,
               coalesce(shown_before, before) AS before, before_digest,
               CASE WHEN state = 'accepted' THEN coalesce(shown_arguments, arguments) END AS arguments, digest,
               CASE WHEN state = 'accepted' THEN differences END AS differences, detail AS refusal, rulebook_digest,
               asked_at, judged_at
        FROM approval.edits
    """,
}
