"""Cards: one delivery per recipient, with what its channel needs to find it again, leases and paces."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006_pre_cards"
down_revision = "0005_pre_policy_purge"

#: New columns that every row has, each with what deliveries that are there already get.
_FILLED: dict[str, tuple[Any, str]] = {
    "call_id": (sa.Text, "''"),
    "recipient": (sa.Text, "''"),
    "person": (sa.Text, "''"),
    "pending": (sa.Boolean, "false"),
    "rank": (sa.Integer, "0"),
    "topic": (sa.Text, "''"),
    "urgent": (sa.Boolean, "false"),
    "version": (sa.Integer, "1"),
    "sent_version": (sa.Integer, "0"),
    "fence": (sa.Integer, "0"),
    "alerted": (sa.Boolean, "false"),
}
_STATES = "state IN ('asleep', 'due', 'kept', 'sent', 'given_up', 'spared')"


def upgrade() -> None:
    for name, (kind, filling) in _FILLED.items():
        op.add_column(
            "deliveries", sa.Column(name, kind(), nullable=False, server_default=sa.text(filling)), schema="notifier"
        )
        op.alter_column("deliveries", name, server_default=None, schema="notifier")
    op.add_column("deliveries", sa.Column("reference", postgresql.JSONB(), nullable=True), schema="notifier")
    op.add_column("deliveries", sa.Column("lease_until", sa.TIMESTAMP(timezone=True), nullable=True), schema="notifier")
    op.execute(
        "UPDATE notifier.deliveries SET pending = card->>'state' = 'pending',"
        " sent_version = CASE WHEN sent_revision > 0 THEN 1 ELSE 0 END,"
        " version = CASE WHEN sent_revision BETWEEN 1 AND revision - 1 THEN 2 ELSE 1 END"
    )
    op.drop_constraint("uq_deliveries_approval_id_channel", "deliveries", schema="notifier", type_="unique")
    op.create_unique_constraint(
        "uq_deliveries_approval_id_channel_recipient",
        "deliveries",
        ["approval_id", "channel", "recipient"],
        schema="notifier",
    )
    op.drop_constraint("state_known", "deliveries", schema="notifier", type_="check")
    op.create_check_constraint("state_known", "deliveries", _STATES, schema="notifier")
    op.create_check_constraint("sent_version_not_ahead", "deliveries", "sent_version <= version", schema="notifier")
    op.create_index("ix_deliveries_call", "deliveries", ["call_id"], schema="notifier")
    op.create_index(
        "ix_deliveries_given_up",
        "deliveries",
        ["tenant", "updated_at", "delivery_id"],
        schema="notifier",
        postgresql_where=sa.text("state = 'given_up'"),
    )
    op.create_index(
        "ix_deliveries_crowded",
        "deliveries",
        ["tenant", "channel", "recipient"],
        schema="notifier",
        postgresql_where=sa.text(
            "pending AND (state = 'kept' OR card->>'similar' <> '0' OR card->>'held_back' <> '0')"
        ),
    )
    op.create_index(
        "ix_deliveries_untold",
        "deliveries",
        ["approval_id"],
        schema="notifier",
        postgresql_where=sa.text("pending AND NOT alerted AND state = 'given_up'"),
    )
    op.create_index(
        "ix_deliveries_waiting",
        "deliveries",
        ["tenant", "channel", "recipient"],
        schema="notifier",
        postgresql_where=sa.text("pending AND state IN ('due', 'kept', 'sent')"),
    )
    op.create_table(
        "paces",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("free_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "channel", name=op.f("pk_paces")),
        schema="notifier",
    )
    op.create_table(
        "webhook_events",
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("webhook", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("lease_until", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("due_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.CheckConstraint("state IN ('due', 'sent', 'given_up')", name=op.f("ck_webhook_events_state_known")),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_webhook_events")),
        schema="notifier",
    )
    op.create_index(
        "ix_webhook_events_due",
        "webhook_events",
        ["due_at"],
        schema="notifier",
        postgresql_where=sa.text("state = 'due'"),
    )


def downgrade() -> None:
    op.drop_table("webhook_events", schema="notifier")
    op.drop_table("paces", schema="notifier")
    for name in ("waiting", "untold", "crowded", "given_up", "call"):
        op.drop_index(f"ix_deliveries_{name}", table_name="deliveries", schema="notifier")
    op.drop_constraint("sent_version_not_ahead", "deliveries", schema="notifier", type_="check")
    op.drop_constraint("state_known", "deliveries", schema="notifier", type_="check")
    op.execute("DELETE FROM notifier.deliveries WHERE state IN ('kept', 'spared') OR recipient <> ''")
    op.create_check_constraint(
        "state_known", "deliveries", "state IN ('asleep', 'due', 'sent', 'given_up')", schema="notifier"
    )
    op.drop_constraint("uq_deliveries_approval_id_channel_recipient", "deliveries", schema="notifier", type_="unique")
    op.create_unique_constraint(
        "uq_deliveries_approval_id_channel", "deliveries", ["approval_id", "channel"], schema="notifier"
    )
    for name in ("lease_until", "reference", *reversed(_FILLED)):
        op.drop_column("deliveries", name, schema="notifier")
