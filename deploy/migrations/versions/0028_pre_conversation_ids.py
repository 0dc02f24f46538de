"""Whether another tenant has a conversation of an id can be asked: an index of the ids alone."""

from __future__ import annotations

from alembic import op

revision = "0028_pre_conversation_ids"
down_revision = "0026_pre_link_codes"


def upgrade() -> None:
    op.create_index("ix_conversations_id", "conversations", ["conversation_id"], unique=False, schema="gateway")


def downgrade() -> None:
    op.drop_index("ix_conversations_id", table_name="conversations", schema="gateway")
