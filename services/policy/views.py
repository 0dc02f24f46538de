"""What others may read of policy."""

from __future__ import annotations

VIEWS = {
    # What several calls are counted on together, and what each of them took of it and has not given back.
    "limit_counters": """
        SELECT counter_id, tenant, rule, measure, per, subject, touched_at FROM policy.counters
    """,
    "limit_reservations": """
        SELECT counter_id, amount, reserved_at FROM policy.reservations WHERE released_at IS NULL
    """,
    "activations": """
        SELECT activation_id, kind, digest, activated_by, activated_at, diff
        FROM policy.activations
    """,
    # Approval asks it when people have said yes: was the call held by the rules of today? And by the people of today,
    # if these stand in a file of their own, or stood in a rulebook that is refused?
    "active_rulebook": """
        SELECT rules.digest, people.digest AS directory_digest,
               people.activated_at > rules.activated_at AS people_since
        FROM (
            SELECT digest, activated_at FROM policy.activations
            WHERE kind = 'rulebook' ORDER BY activated_at DESC LIMIT 1
        ) AS rules
        LEFT JOIN (
            SELECT digest, activated_at FROM policy.activations
            WHERE kind = 'directory' ORDER BY activated_at DESC LIMIT 1
        ) AS people ON true
    """,
    "verdicts": """
        SELECT verdict_id, call_id, tenant, schema_digest, effect, rule, reason, rulebook_digest, judged_at
        FROM policy.verdicts
    """,
    # The approved call's arguments as people may see them; the real ones stay with policy. A time that may change
    # within a statement would have every row computed before the first is returned.
    "grants": """
        SELECT grant_id, tenant, approval_id, owner, rule, tool, scope, subject, shown_arguments AS arguments, bounds,
               uses, uses_left, given_at, expires_at, revoked_at, revoked_by, void_at, void_reason,
               CASE WHEN revoked_at IS NOT NULL THEN 'revoked'
                    WHEN void_at IS NOT NULL THEN 'void'
                    WHEN expires_at <= statement_timestamp() THEN 'expired'
                    WHEN uses_left = 0 THEN 'used_up'
                    ELSE 'active' END AS state
        FROM policy.grants
    """,
}
