"""What others may read of the notifier."""

from __future__ import annotations

VIEWS = {
    "deliveries": """
        SELECT delivery_id, tenant, approval_id, channel, recipient, person, state, pending, revision, sent_revision,
               attempt, error, due_at, updated_at
        FROM notifier.deliveries
        WHERE state NOT IN ('asleep', 'spared')
    """,
}
