"""The gateway keeps up to which feed item OpenAI clients were told, for the next request to tell the rest."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013_pre_told_clients"
down_revision = "0011_pre_watched_revisions"


def upgrade() -> None:
    op.add_column("conversations", sa.Column("told_seq", sa.BigInteger(), nullable=True), schema="gateway")


def downgrade() -> None:
    op.drop_column("conversations", "told_seq", schema="gateway")
