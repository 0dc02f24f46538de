"""What people may see of arguments and dead letters, beside what is real: read views give out nothing else."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002_pre_shown_arguments"
down_revision = "0001_pre_foundation"

COLUMNS = (
    ("agent", "tool_calls", "shown_arguments"),
    ("approval", "approvals", "shown_arguments"),
    ("audit", "dead_letters", "shown_body"),
)


def upgrade() -> None:
    for schema, table, name in COLUMNS:
        # Nothing is shown of what was stored before anybody said which of it people may see.
        column = sa.Column(name, sa.Text(), nullable=False, server_default="")
        op.add_column(table, column, schema=schema)
        op.alter_column(table, name, server_default=None, schema=schema)


def downgrade() -> None:
    # The views that read the columns go with them, and are made anew from their text by the next migration.
    op.execute('CREATE SCHEMA IF NOT EXISTS "read"')
    op.execute('COMMENT ON SCHEMA "read" IS NULL')
    for schema, table, name in reversed(COLUMNS):
        op.execute(f"ALTER TABLE {schema}.{table} DROP COLUMN {name} CASCADE")
