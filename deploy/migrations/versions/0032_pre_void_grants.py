"""Grants whose tool has changed are void for good."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032_pre_void_grants"
down_revision = "0031_pre_seats"


def upgrade() -> None:
    op.add_column("grants", sa.Column("void_at", sa.TIMESTAMP(timezone=True), nullable=True), schema="policy")
    op.add_column("grants", sa.Column("void_reason", sa.Text(), nullable=True), schema="policy")
    op.create_check_constraint(
        op.f("ck_grants_void_with_reason"), "grants", "(void_at IS NULL) = (void_reason IS NULL)", schema="policy"
    )


def downgrade() -> None:
    op.drop_column("grants", "void_reason", schema="policy")
    op.drop_column("grants", "void_at", schema="policy")
