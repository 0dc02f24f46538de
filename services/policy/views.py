"""What others may read of policy."""

from __future__ import annotations

VIEWS = {
    "verdicts": """
        SELECT verdict_id, call_id, tenant, effect, rule, reason, rulebook_digest, judged_at
        FROM policy.verdicts
    """,
}
