"""Limits and grants of policy: counters, reservations, grants and their uses; who asked for each judged call."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005_pre_limits"
down_revision = "0003_pre_rulebook"


def upgrade() -> None:
    op.add_column("verdicts", sa.Column("requester", sa.Text(), server_default="", nullable=False), schema="policy")
    op.alter_column("verdicts", "requester", server_default=None, schema="policy")
    op.create_index(
        "ix_verdicts_conversation",
        "verdicts",
        ["tenant", "conversation_id", "tool", "judged_at"],
        unique=False,
        schema="policy",
    )
    op.create_index(
        "ix_verdicts_requester",
        "verdicts",
        ["tenant", "requester", "tool", "judged_at"],
        unique=False,
        schema="policy",
    )
    op.create_table(
        "counters",
        sa.Column("counter_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("measure", sa.Text(), nullable=False),
        sa.Column("per", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("touched_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.CheckConstraint(
            "per IN ('conversation', 'requester', 'agent', 'tenant')", name=op.f("ck_counters_per_known")
        ),
        sa.PrimaryKeyConstraint("counter_id", name=op.f("pk_counters")),
        schema="policy",
    )
    op.create_table(
        "reservations",
        sa.Column("counter_id", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("amount", sa.Numeric(), nullable=False),
        sa.Column("reserved_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("released_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("released_as", sa.Text(), nullable=True),
        sa.CheckConstraint("amount >= 0", name=op.f("ck_reservations_amount_not_negative")),
        sa.CheckConstraint(
            "(released_at IS NULL) = (released_as IS NULL)", name=op.f("ck_reservations_released_with_kind")
        ),
        sa.ForeignKeyConstraint(
            ["counter_id"], ["policy.counters.counter_id"], name=op.f("fk_reservations_counter_id")
        ),
        sa.PrimaryKeyConstraint("counter_id", "call_id", name=op.f("pk_reservations")),
        schema="policy",
    )
    op.create_index("ix_reservations_call", "reservations", ["call_id"], unique=False, schema="policy")
    op.create_index(
        "ix_reservations_window",
        "reservations",
        ["counter_id", "reserved_at"],
        unique=False,
        schema="policy",
        postgresql_include=["amount"],
        postgresql_where=sa.text("released_at IS NULL"),
    )
    _create_grants()


def _create_grants() -> None:
    op.create_table(
        "grants",
        sa.Column("grant_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("schema_digest", sa.Text(), nullable=False),
        sa.Column("tool_digest", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("shown_arguments", sa.Text(), nullable=False),
        sa.Column("bounds", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("rulebook_digest", sa.Text(), nullable=False),
        sa.Column("uses", sa.Integer(), nullable=False),
        sa.Column("uses_left", sa.Integer(), nullable=False),
        sa.Column("given_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("expires_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("revoked_by", sa.Text(), nullable=True),
        sa.CheckConstraint("scope IN ('conversation', 'agent', 'tenant')", name=op.f("ck_grants_scope_known")),
        sa.CheckConstraint("uses_left BETWEEN 0 AND uses", name=op.f("ck_grants_uses_left_in_range")),
        sa.CheckConstraint("(revoked_at IS NULL) = (revoked_by IS NULL)", name=op.f("ck_grants_revoked_by_somebody")),
        sa.CheckConstraint("expires_at > given_at", name=op.f("ck_grants_expires_later")),
        sa.PrimaryKeyConstraint("grant_id", name=op.f("pk_grants")),
        sa.UniqueConstraint("approval_id", name=op.f("uq_grants_approval_id")),
        schema="policy",
    )
    op.create_index(
        "ix_grants_newest",
        "grants",
        ["tenant", sa.text("given_at DESC"), sa.text("grant_id DESC")],
        unique=False,
        schema="policy",
    )
    op.create_index(
        "ix_grants_usable",
        "grants",
        ["tenant", "tool", "scope", "subject"],
        unique=False,
        schema="policy",
        postgresql_where=sa.text("uses_left > 0 AND revoked_at IS NULL"),
    )
    op.create_table(
        "grant_uses",
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("grant_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("used_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("returned_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["grant_id"], ["policy.grants.grant_id"], name=op.f("fk_grant_uses_grant_id")),
        sa.PrimaryKeyConstraint("call_id", name=op.f("pk_grant_uses")),
        schema="policy",
    )
    op.create_index("ix_grant_uses_grant", "grant_uses", ["grant_id"], unique=False, schema="policy")


def downgrade() -> None:
    for table in ("grant_uses", "grants", "reservations", "counters"):
        op.drop_table(table, schema="policy")
    op.drop_index("ix_verdicts_requester", "verdicts", schema="policy")
    op.drop_index("ix_verdicts_conversation", "verdicts", schema="policy")
    op.drop_column("verdicts", "requester", schema="policy")
