"""Browsers that are signed in are rows of the gateway, so that they can be ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009_pre_sessions"
down_revision = "0008_pre_mails"


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("seen_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("expires_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("revoked_by", sa.Text(), nullable=True),
        sa.CheckConstraint("(method = 'oidc') = (key_id IS NULL)", name=op.f("ck_sessions_rights_from_somewhere")),
        sa.CheckConstraint("method IN ('key', 'link', 'oidc')", name=op.f("ck_sessions_method_known")),
        sa.CheckConstraint("(revoked_at IS NULL) = (revoked_by IS NULL)", name=op.f("ck_sessions_revoked_by_somebody")),
        sa.CheckConstraint("length(token_hash) = 64", name=op.f("ck_sessions_token_hashed")),
        sa.PrimaryKeyConstraint("session_id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_sessions_token_hash")),
        schema="gateway",
    )
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"], unique=False, schema="gateway")
    op.create_index("ix_sessions_tenant", "sessions", ["tenant", "created_at"], unique=False, schema="gateway")


def downgrade() -> None:
    op.drop_index("ix_sessions_tenant", table_name="sessions", schema="gateway")
    op.drop_index("ix_sessions_expires_at", table_name="sessions", schema="gateway")
    op.drop_table("sessions", schema="gateway")
