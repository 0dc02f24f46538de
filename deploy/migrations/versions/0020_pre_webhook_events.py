"""The events that webhooks never took can be listed: an index that holds these rows alone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020_pre_webhook_events"
down_revision = "0019_pre_stopped_turns"


def upgrade() -> None:
    op.create_index(
        "ix_webhook_events_given_up",
        "webhook_events",
        ["tenant", "created_at", "event_id"],
        unique=False,
        schema="notifier",
        postgresql_where=sa.text("state = 'given_up'"),
    )


def downgrade() -> None:
    op.drop_index("ix_webhook_events_given_up", table_name="webhook_events", schema="notifier")
