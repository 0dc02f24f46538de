"""Turns that people stop."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019_pre_stopped_turns"
down_revision = "0017_pre_budgets"

_CHECKS = {
    "ck_turns_state_known": ("turns", "state IN ({turns})"),
    "ck_turns_ended_iff_final": ("turns", "(ended_at IS NOT NULL) = (state IN ({final}))"),
    "ck_tool_calls_state_known": ("tool_calls", "state IN ({calls})"),
}
_BEFORE = {
    "turns": "'thinking', 'waiting', 'finished', 'failed'",
    "final": "'failed', 'finished'",
    "calls": "'open', 'continued', 'answered'",
}
_AFTER = {
    "turns": "'thinking', 'waiting', 'finished', 'failed', 'stopped'",
    "final": "'failed', 'finished', 'stopped'",
    "calls": "'open', 'continued', 'stopped', 'answered'",
}


def upgrade() -> None:
    op.add_column("turns", sa.Column("stopped_number", sa.BigInteger(), nullable=True), schema="agent")
    op.add_column("tool_calls", sa.Column("told_number", sa.BigInteger(), nullable=True), schema="agent")
    _check(_AFTER)


def downgrade() -> None:
    op.execute("UPDATE agent.turns SET state = 'failed' WHERE state = 'stopped'")
    # What still runs is read as a late outcome, and begins a turn of its own.
    op.execute(
        "UPDATE agent.tool_calls SET state = 'continued', interim_at = coalesce(interim_at, now())"
        " WHERE state = 'stopped'"
    )
    op.execute("UPDATE agent.tool_calls SET interim_at = NULL WHERE told_number IS NOT NULL")
    _check(_BEFORE)
    op.drop_column("tool_calls", "told_number", schema="agent")
    op.drop_column("turns", "stopped_number", schema="agent")


def _check(states: dict[str, str]) -> None:
    for name, (table, condition) in _CHECKS.items():
        op.drop_constraint(op.f(name), table, schema="agent", type_="check")
        op.create_check_constraint(op.f(name), table, condition.format(**states), schema="agent")
