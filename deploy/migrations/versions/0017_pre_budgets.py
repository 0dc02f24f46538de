"""What a tenant used today is summed from an index alone."""

from __future__ import annotations

from alembic import op

revision = "0017_pre_budgets"
down_revision = "0016_pre_words"


def upgrade() -> None:
    op.create_index(
        "ix_steps_day",
        "steps",
        ["tenant", "said_at"],
        unique=False,
        schema="agent",
        postgresql_include=["conversation_id", "model", "input_tokens", "output_tokens"],
    )


def downgrade() -> None:
    op.drop_index("ix_steps_day", table_name="steps", schema="agent")
