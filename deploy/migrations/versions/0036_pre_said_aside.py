"""The agent says which of the model's words are chatter about a call that waits; nobody looks for it in the feed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0036_pre_said_aside"
down_revision = "0035_pre_next_message"

_INDEX = "ix_feed_approval_turn_id"


def upgrade() -> None:
    op.drop_index(op.f(_INDEX), table_name="feed", schema="gateway")


def downgrade() -> None:
    place = ("tenant", "conversation_id", sa.text("(data ->> 'turn_id')"))
    where = sa.text("type = 'approval'")
    op.create_index(op.f(_INDEX), "feed", place, schema="gateway", postgresql_where=where)
