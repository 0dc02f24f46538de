"""Activations of rulebooks, and what of a judged call is kept to judge it again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003_pre_rulebook"
down_revision = "0001_pre_foundation"


def upgrade() -> None:
    op.create_table(
        "activations",
        sa.Column("activation_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("activated_by", sa.Text(), nullable=False),
        sa.Column("activated_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("diff", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("activation_id", name=op.f("pk_activations")),
        schema="policy",
    )
    op.create_index(op.f("ix_activations_digest"), "activations", ["digest"], unique=False, schema="policy")
    op.create_index(
        "ix_activations_newest", "activations", [sa.text("activated_at DESC")], unique=False, schema="policy"
    )
    op.add_column("verdicts", sa.Column("facts", sa.Text(), nullable=True), schema="policy")
    op.add_column("verdicts", sa.Column("approval", sa.Text(), nullable=True), schema="policy")
    op.create_index(
        "ix_verdicts_newest",
        "verdicts",
        ["tenant", sa.text("judged_at DESC"), sa.text("verdict_id DESC")],
        unique=False,
        schema="policy",
    )


def downgrade() -> None:
    op.drop_index("ix_verdicts_newest", table_name="verdicts", schema="policy")
    op.drop_column("verdicts", "approval", schema="policy")
    op.drop_column("verdicts", "facts", schema="policy")
    op.drop_table("activations", schema="policy")
