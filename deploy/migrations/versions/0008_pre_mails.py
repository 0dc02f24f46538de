"""Mails: their links, how links were used, and digests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008_pre_mails"
down_revision = "0007_pre_slack"


def upgrade() -> None:
    op.create_table(
        "link_uses",
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("decision_id", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("used_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("outcome IN ('sent', 'counted', 'refused')", name=op.f("ck_link_uses_outcome_known")),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_link_uses")),
        sa.UniqueConstraint("decision_id", name=op.f("uq_link_uses_decision_id")),
        schema="gateway",
    )
    op.create_table(
        "digest_items",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("recipient", sa.Text(), nullable=False),
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("card", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("told_version", sa.Integer(), nullable=False),
        sa.Column("changed_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.CheckConstraint("told_version <= version", name=op.f("ck_digest_items_told_not_ahead")),
        sa.PrimaryKeyConstraint("tenant", "recipient", "approval_id", name=op.f("pk_digest_items")),
        schema="notifier",
    )
    op.create_index(
        "ix_digest_items_untold",
        "digest_items",
        ["tenant", "recipient"],
        unique=False,
        schema="notifier",
        postgresql_where=sa.text("told_version < version"),
    )
    op.create_table(
        "digests",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("recipient", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "recipient", name=op.f("pk_digests")),
        schema="notifier",
    )
    op.create_index("ix_digests_due", "digests", ["due_at"], unique=False, schema="notifier")
    op.create_table(
        "links",
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("mail_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("expires_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.CheckConstraint("starts_with(person, 'person:')", name=op.f("ck_links_of_a_person")),
        sa.CheckConstraint("length(token_hash) = 64", name=op.f("ck_links_token_hashed")),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_links")),
        schema="notifier",
    )
    op.create_index("ix_links_expires", "links", ["expires_at"], unique=False, schema="notifier")
    op.create_index("ix_links_mail", "links", ["mail_id"], unique=False, schema="notifier")
    op.create_table(
        "mails",
        sa.Column("mail_id", sa.Text(), nullable=False),
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("recipient", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("asked", sa.Boolean(), nullable=False),
        sa.Column("made_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("mail_id", "approval_id", name=op.f("pk_mails")),
        schema="notifier",
    )
    op.create_index("ix_mails_recipient", "mails", ["tenant", "recipient", "made_at"], unique=False, schema="notifier")


def downgrade() -> None:
    op.drop_index("ix_mails_recipient", table_name="mails", schema="notifier")
    op.drop_table("mails", schema="notifier")
    op.drop_index("ix_links_mail", table_name="links", schema="notifier")
    op.drop_index("ix_links_expires", table_name="links", schema="notifier")
    op.drop_table("links", schema="notifier")
    op.drop_index("ix_digests_due", table_name="digests", schema="notifier")
    op.drop_table("digests", schema="notifier")
    op.drop_index(
        "ix_digest_items_untold",
        table_name="digest_items",
        schema="notifier",
        postgresql_where=sa.text("told_version < version"),
    )
    op.drop_table("digest_items", schema="notifier")
    op.drop_table("link_uses", schema="gateway")
