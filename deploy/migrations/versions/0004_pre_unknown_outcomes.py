"""What is unknown can be verified by a tool's probe, and resolved by a person; the conversation learns of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004_pre_unknown_outcomes"
down_revision = "0003_pre_go_on_meanwhile"

_STATES = {
    "before": "'expired', 'failed', 'refused', 'running', 'succeeded', 'unknown'",
    "after": "'expired', 'failed', 'refused', 'resolved', 'running', 'succeeded', 'unknown', 'verifying'",
}
_ANSWERED = {
    "before": "'expired', 'failed', 'refused', 'succeeded', 'unknown'",
    "after": "'expired', 'failed', 'refused', 'resolved', 'succeeded', 'unknown'",
}


def upgrade() -> None:
    op.create_table(
        "facts",
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column(
            "learned_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(["call_id"], ["agent.tool_calls.call_id"], name=op.f("fk_facts_call_id")),
        sa.PrimaryKeyConstraint("call_id", name=op.f("pk_facts")),
        schema="agent",
    )
    op.create_index("ix_facts_conversation", "facts", ["conversation_id", "number"], unique=False, schema="agent")
    for name, kind in (("resolution", sa.Text()), ("resolved_by", sa.Text())):
        op.add_column("executions", sa.Column(name, kind, nullable=True), schema="executor")
    note = sa.Column("resolution_note", sa.Text(), server_default="", nullable=False)
    op.add_column("executions", note, schema="executor")
    op.add_column("executions", sa.Column("resolved_at", sa.TIMESTAMP(timezone=True), nullable=True), schema="executor")
    for name in ("state_known", "finished_iff_final", "lease_iff_running"):
        _drop_check(name)
    _check("state_known", f"state IN ({_STATES['after']})")
    _check("finished_iff_answered", f"(state IN ({_ANSWERED['after']})) = (finished_at IS NOT NULL)")
    _check("lease_iff_worked_on", "(state IN ('running', 'verifying')) = (lease_until IS NOT NULL)")
    _check("resolved_iff_resolved", "(state = 'resolved') = (resolved_at IS NOT NULL)")
    _check(
        "resolution_whole",
        "(resolved_at IS NULL) = (resolution IS NULL) AND (resolved_at IS NULL) = (resolved_by IS NULL)",
    )
    _check("resolution_known", "resolution IN ('ran', 'did_not_run')")
    _index_leases("state IN ('running', 'verifying')")


def downgrade() -> None:
    op.execute("UPDATE executor.executions SET state = 'running' WHERE state = 'verifying'")
    op.execute(
        "UPDATE executor.executions SET state = 'unknown', resolved_at = NULL, resolution = NULL,"
        " resolved_by = NULL WHERE state = 'resolved'"
    )
    for name in (
        "state_known",
        "finished_iff_answered",
        "lease_iff_worked_on",
        "resolved_iff_resolved",
        "resolution_whole",
        "resolution_known",
    ):
        _drop_check(name)
    _check("state_known", f"state IN ({_STATES['before']})")
    _check("finished_iff_final", f"(state IN ({_ANSWERED['before']})) = (finished_at IS NOT NULL)")
    _check("lease_iff_running", "(state = 'running') = (lease_until IS NOT NULL)")
    _index_leases("state = 'running'")
    for column in ("resolved_at", "resolution_note", "resolved_by", "resolution"):
        op.drop_column("executions", column, schema="executor")
    op.drop_index("ix_facts_conversation", table_name="facts", schema="agent")
    op.drop_table("facts", schema="agent")


def _check(name: str, condition: str) -> None:
    op.create_check_constraint(op.f(f"ck_executions_{name}"), "executions", condition, schema="executor")


def _drop_check(name: str) -> None:
    op.drop_constraint(op.f(f"ck_executions_{name}"), "executions", schema="executor", type_="check")


def _index_leases(condition: str) -> None:
    op.drop_index("ix_executions_leases", table_name="executions", schema="executor")
    op.create_index(
        "ix_executions_leases",
        "executions",
        ["pool", "lease_until"],
        unique=False,
        schema="executor",
        postgresql_where=sa.text(condition),
    )
