"""A grant knows the API key that its owner was proved by, and covers nothing once that is revoked."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033_pre_grant_keys"
down_revision = "0032_pre_void_grants"


def upgrade() -> None:
    key_id: sa.Column[object] = sa.Column("key_id", sa.Text(), nullable=True)
    op.add_column("grants", key_id, schema="policy")


def downgrade() -> None:
    op.drop_column("grants", "key_id", schema="policy")
