"""A conversation knows whether who opened it may decide too, and it can end; changes of people are activations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010_pre_people"
down_revision = "0009_pre_sessions"


def upgrade() -> None:
    moment = sa.TIMESTAMP(timezone=True)
    decides: sa.Column[bool] = sa.Column(
        "opener_decides", sa.Boolean(), server_default=sa.text("false"), nullable=False
    )
    op.add_column("conversations", decides, schema="gateway")
    op.add_column("conversations", sa.Column("ended_at", moment, nullable=True), schema="gateway")
    op.add_column("conversations", sa.Column("ended_at", moment, nullable=True), schema="agent")
    op.add_column("conversations", sa.Column("ended_by", sa.Text(), nullable=True), schema="gateway")
    op.create_check_constraint(
        op.f("ck_conversations_ended_by_somebody"),
        "conversations",
        "(ended_at IS NULL) = (ended_by IS NULL)",
        schema="gateway",
    )
    kind = sa.Column("kind", sa.Text(), server_default="rulebook", nullable=False)
    op.add_column("activations", kind, schema="policy")
    known = "kind IN ('rulebook', 'directory')"
    op.create_check_constraint(op.f("ck_activations_kind_known"), "activations", known, schema="policy")
    # Which of a person's keys opened it was not kept: one that may decide counts, so that four eyes stay two people.
    op.execute(
        """
        UPDATE gateway.conversations AS c SET opener_decides = true
        FROM gateway.api_keys AS k
        WHERE k.tenant = c.tenant AND 'person:' || k.person = c.created_by AND 'decide' = ANY (k.scopes)
        """
    )


def downgrade() -> None:
    op.drop_column("conversations", "ended_at", schema="agent")
    op.drop_constraint(op.f("ck_activations_kind_known"), "activations", schema="policy")
    op.drop_column("activations", "kind", schema="policy")
    op.drop_constraint(op.f("ck_conversations_ended_by_somebody"), "conversations", schema="gateway")
    for name in ("ended_by", "ended_at", "opener_decides"):
        op.drop_column("conversations", name, schema="gateway")
