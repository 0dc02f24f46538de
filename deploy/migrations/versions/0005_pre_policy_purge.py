"""What no window can count any more is found by its age."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005_pre_policy_purge"
down_revision = "0004_pre_unknown_outcomes"


def upgrade() -> None:
    op.create_index("ix_counters_oldest", "counters", ["touched_at"], unique=False, schema="policy")
    op.create_index("ix_reservations_oldest", "reservations", ["reserved_at"], unique=False, schema="policy")
    op.create_index(
        "ix_watched_calls_oldest",
        "watched_calls",
        ["until"],
        unique=False,
        schema="policy",
        postgresql_where=sa.text("until IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("ix_watched_calls_oldest", table_name="watched_calls", schema="policy")
    op.drop_index("ix_reservations_oldest", table_name="reservations", schema="policy")
    op.drop_index("ix_counters_oldest", table_name="counters", schema="policy")
