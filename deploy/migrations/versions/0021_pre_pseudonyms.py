"""A conversation's model reads pseudonyms, and the agent keeps what they mean."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021_pre_pseudonyms"
down_revision = "0020_pre_webhook_events"


def upgrade() -> None:
    op.create_table(
        "pseudonyms",
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("value_sha256", sa.Text(), nullable=False),
        sa.Column("pseudonym_sha256", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("pseudonym", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("canonical", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("made_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.ForeignKeyConstraint(["conversation_id"], ["agent.conversations.conversation_id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("conversation_id", "value_sha256"),
        sa.UniqueConstraint("conversation_id", "pseudonym_sha256"),
        schema="agent",
    )


def downgrade() -> None:
    op.drop_table("pseudonyms", schema="agent")
