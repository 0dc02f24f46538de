"""The agent keeps how it holds a call also where its turn waits for it: what stands nowhere it has not heard of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0035_pre_next_message"
down_revision = "0034_pre_closed_words"

_CHECKS = {
    "ck_tool_calls_next_message_known": "next_message IN ('wait', 'supersede')",
    "ck_tool_calls_held_one_way": "held IS NULL OR next_message IS NULL",
}


def upgrade() -> None:
    op.add_column("tool_calls", sa.Column("next_message", sa.Text(), nullable=True), schema="agent")
    for name, condition in _CHECKS.items():
        op.create_check_constraint(op.f(name), "tool_calls", condition, schema="agent")


def downgrade() -> None:
    for name in _CHECKS:
        op.drop_constraint(op.f(name), "tool_calls", schema="agent", type_="check")
    op.drop_column("tool_calls", "next_message", schema="agent")
