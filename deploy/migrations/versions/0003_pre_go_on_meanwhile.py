"""A turn may go on while people think: calls with an interim result, and late outcomes in the queue of messages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003_pre_go_on_meanwhile"
down_revision = "0002_pre_approval_gaps"

_MOMENT = sa.TIMESTAMP(timezone=True)
#: Checks of agent.tool_calls that come with it.
_CHECKS = {
    "ck_tool_calls_held_known": "held IN ('at_once', 'on_message')",
    "ck_tool_calls_no_interim_while_open": "state <> 'open' OR interim_at IS NULL",
    "ck_tool_calls_interim_when_continued": "state <> 'continued' OR interim_at IS NOT NULL",
}


def upgrade() -> None:
    op.add_column("tool_calls", sa.Column("held", sa.Text(), nullable=True), schema="agent")
    op.add_column("tool_calls", sa.Column("interim_at", _MOMENT, nullable=True), schema="agent")
    _know_states("state IN ('open', 'continued', 'answered')")
    for name, condition in _CHECKS.items():
        op.create_check_constraint(op.f(name), "tool_calls", condition, schema="agent")
    op.add_column("messages", sa.Column("call_id", sa.Text(), nullable=True), schema="agent")
    op.create_foreign_key(
        op.f("fk_messages_call_id"),
        "messages",
        "tool_calls",
        ["call_id"],
        ["call_id"],
        source_schema="agent",
        referent_schema="agent",
    )


def downgrade() -> None:
    op.drop_column("messages", "call_id", schema="agent")
    for name in _CHECKS:
        op.drop_constraint(op.f(name), "tool_calls", schema="agent", type_="check")
    _know_states("state IN ('open', 'answered')")
    op.drop_column("tool_calls", "interim_at", schema="agent")
    op.drop_column("tool_calls", "held", schema="agent")


def _know_states(condition: str) -> None:
    name = op.f("ck_tool_calls_state_known")
    op.drop_constraint(name, "tool_calls", schema="agent", type_="check")
    op.create_check_constraint(name, "tool_calls", condition, schema="agent")
