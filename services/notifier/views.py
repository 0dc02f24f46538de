"""What others may read of the notifier."""

from __future__ import annotations

VIEWS = {
    "deliveries": """
        SELECT delivery_id, tenant, approval_id, channel, state, revision, sent_revision, attempt, error, updated_at
        FROM notifier.deliveries
        WHERE state <> 'asleep'
    """,
}
