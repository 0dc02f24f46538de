"""Conversations that people take over from the agent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014_pre_operators"
down_revision = "0013_pre_told_clients"

_SCOPES = "ck_api_keys_scopes_known"
_QUEUED = "ck_conversations_queued_behind_turn"
_HELD = sa.text("held_since IS NOT NULL AND ended_at IS NULL")


def upgrade() -> None:
    op.drop_constraint(op.f(_SCOPES), "api_keys", schema="gateway", type_="check")
    op.create_check_constraint(
        op.f(_SCOPES), "api_keys", "scopes <@ ARRAY['chat', 'decide', 'operate', 'admin']", schema="gateway"
    )
    for column in (
        sa.Column("holder", sa.Text(), server_default="agent", nullable=False),
        sa.Column("holder_revision", sa.Integer(), server_default="0", nullable=False),
        sa.Column("operator", sa.Text(), server_default="", nullable=False),
        sa.Column("held_since", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("held_reason", sa.Text(), server_default="", nullable=False),
        sa.Column("answered_seq", sa.BigInteger(), server_default="0", nullable=False),
    ):
        op.add_column("conversations", column, schema="gateway")
    for name, condition in (
        ("holder_known", "holder IN ('agent', 'waiting', 'operator')"),
        ("operator_iff_held", "(holder = 'operator') = (operator <> '')"),
        ("held_since_iff_held", "(holder = 'agent') = (held_since IS NULL)"),
    ):
        op.create_check_constraint(op.f(f"ck_conversations_{name}"), "conversations", condition, schema="gateway")
    op.create_index(
        "ix_conversations_held",
        "conversations",
        ["tenant", sa.text("held_since DESC"), sa.text("conversation_id DESC")],
        schema="gateway",
        postgresql_where=_HELD,
    )
    held: sa.Column[bool] = sa.Column("held", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    op.add_column("conversations", held, schema="agent")
    op.add_column(
        "conversations", sa.Column("holder_revision", sa.Integer(), server_default="0", nullable=False), schema="agent"
    )
    op.drop_constraint(op.f(_QUEUED), "conversations", schema="agent", type_="check")
    op.create_check_constraint(
        op.f(_QUEUED), "conversations", "queued = 0 OR turn_id IS NOT NULL OR held", schema="agent"
    )
    by_operator: sa.Column[bool] = sa.Column(
        "by_operator", sa.Boolean(), server_default=sa.text("false"), nullable=False
    )
    op.add_column("messages", by_operator, schema="agent")
    op.create_check_constraint(
        op.f("ck_messages_no_turn_by_operator"), "messages", "NOT by_operator OR turn_id IS NULL", schema="agent"
    )
    op.create_index(
        "ix_messages_by_operator",
        "messages",
        ["conversation_id"],
        schema="agent",
        postgresql_where=sa.text("by_operator"),
    )


def downgrade() -> None:
    op.drop_index("ix_messages_by_operator", table_name="messages", schema="agent")
    op.drop_constraint(op.f("ck_messages_no_turn_by_operator"), "messages", schema="agent", type_="check")
    op.execute("DELETE FROM agent.messages WHERE by_operator")
    op.drop_column("messages", "by_operator", schema="agent")
    op.drop_constraint(op.f(_QUEUED), "conversations", schema="agent", type_="check")
    # What waits for people waits for nobody afterwards; it stays in the history of the gateway.
    op.execute(
        "DELETE FROM agent.messages AS m USING agent.conversations AS c WHERE m.conversation_id = c.conversation_id"
        " AND c.turn_id IS NULL AND m.turn_id IS NULL"
    )
    op.execute("UPDATE agent.conversations SET queued = 0 WHERE turn_id IS NULL")
    op.create_check_constraint(op.f(_QUEUED), "conversations", "queued = 0 OR turn_id IS NOT NULL", schema="agent")
    op.drop_column("conversations", "holder_revision", schema="agent")
    op.drop_column("conversations", "held", schema="agent")
    op.drop_index("ix_conversations_held", table_name="conversations", schema="gateway", postgresql_where=_HELD)
    for name in ("holder_known", "operator_iff_held", "held_since_iff_held"):
        op.drop_constraint(op.f(f"ck_conversations_{name}"), "conversations", schema="gateway", type_="check")
    for name in ("answered_seq", "held_reason", "held_since", "operator", "holder_revision", "holder"):
        op.drop_column("conversations", name, schema="gateway")
    op.drop_constraint(op.f(_SCOPES), "api_keys", schema="gateway", type_="check")
    op.execute("UPDATE gateway.api_keys SET scopes = array_remove(scopes, 'operate') WHERE scopes <> ARRAY['operate']")
    op.execute("DELETE FROM gateway.api_keys WHERE scopes = ARRAY['operate']")
    op.create_check_constraint(
        op.f(_SCOPES), "api_keys", "scopes <@ ARRAY['chat', 'decide', 'admin']", schema="gateway"
    )
