"""Cards have a moment from which nothing holds them up."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025_pre_tell_by"
down_revision = "0021_pre_pseudonyms"


def upgrade() -> None:
    op.add_column("deliveries", sa.Column("tell_by", sa.TIMESTAMP(timezone=True), nullable=True), schema="notifier")
    op.execute(
        "UPDATE notifier.deliveries SET tell_by = (card->>'deadline')::timestamptz - least("
        " greatest((card->>'deadline')::timestamptz - now(), interval '0') / 4, interval '30 minutes')"
        " WHERE pending AND sent_version = 0 AND NOT alerted AND card->>'deadline' IS NOT NULL"
    )
    op.create_index(
        "ix_deliveries_late",
        "deliveries",
        ["tell_by"],
        schema="notifier",
        postgresql_where=sa.text("pending AND sent_version = 0 AND tell_by IS NOT NULL AND state IN ('due', 'kept')"),
    )


def downgrade() -> None:
    op.drop_index("ix_deliveries_late", table_name="deliveries", schema="notifier")
    op.drop_column("deliveries", "tell_by", schema="notifier")
