"""Slack: which interactions came already, for every replica of the gateway."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007_pre_slack"
down_revision = "0006_pre_cards"


def upgrade() -> None:
    op.create_table(
        "slack_seen",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_slack_seen")),
        schema="gateway",
    )
    op.create_index("ix_slack_seen_at", "slack_seen", ["seen_at"], unique=False, schema="gateway")


def downgrade() -> None:
    op.drop_index("ix_slack_seen_at", table_name="slack_seen", schema="gateway")
    op.drop_table("slack_seen", schema="gateway")
