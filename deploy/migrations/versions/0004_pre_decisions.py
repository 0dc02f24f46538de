"""Votes, edits, delegations, pauses and steps of the clock; a call may end as answered by a person."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004_pre_decisions"
down_revision = "0005_pre_limits"

_VERBS_BEFORE = "verb IN ('approve', 'deny')"
_VERBS = (
    "verb IN ('approve', 'deny', 'abstain', 'edit', 'respond', 'delegate', 'claim', 'release', 'extend', 'pause',"
    " 'resume', 'cancel')"
)
_OUTCOMES_BEFORE = "outcome IN ('accepted', 'already_decided', 'stale', 'not_allowed', 'not_found')"
_OUTCOMES = "outcome IN ('accepted', 'already_decided', 'stale', 'not_allowed', 'too_weak', 'invalid', 'not_found')"
_KINDS_BEFORE = (
    "result_kind IN ('succeeded', 'failed', 'refused', 'denied', 'expired', 'cancelled', 'superseded', 'invalid',"
    " 'staged', 'unknown')"
)
_KINDS = (
    "result_kind IN ('succeeded', 'failed', 'refused', 'denied', 'answered', 'expired', 'cancelled', 'superseded',"
    " 'invalid', 'staged', 'unknown')"
)
#: Check -> what it says before and after, on approval.approvals.
_APPROVALS = {
    "ck_approvals_decided_by_a_person": (
        "(state IN ('approved', 'denied')) = (decided_by IS NOT NULL)",
        "(state IN ('approved', 'denied', 'answered')) = (decided_by IS NOT NULL)",
    ),
    "ck_approvals_kind_fits_state": (
        "(state, result_kind) IN (('denied', 'denied'), ('expired', 'expired'), ('withdrawn', 'cancelled'), ('withdrawn', 'superseded')) OR result_kind IS NULL",
        "(state, result_kind) IN (('denied', 'denied'), ('answered', 'answered'), ('expired', 'expired'), ('withdrawn', 'cancelled'), ('withdrawn', 'superseded')) OR result_kind IS NULL",
    ),
    "ck_approvals_state_known": (
        "state IN ('pending', 'approved', 'denied', 'expired', 'withdrawn')",
        "state IN ('pending', 'approved', 'denied', 'answered', 'expired', 'withdrawn')",
    ),
    "ck_approvals_decided_in_time": (
        "state NOT IN ('approved', 'denied') OR closed_at < expires_at",
        "state NOT IN ('approved', 'denied', 'answered') OR closed_at < expires_at",
    ),
    "ck_approvals_revision_positive": (
        "revision >= 1",
        "revision >= arguments_revision AND arguments_revision >= 1",
    ),
}
_EMPTY_LIST, _EMPTY_OBJECT = sa.text("'[]'"), sa.text("'{}'")
_ADDED = {
    "approvals": (
        lambda: sa.Column("edited", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        lambda: sa.Column("arguments_revision", sa.Integer(), server_default="1", nullable=False),
        lambda: sa.Column("steps_done", sa.Integer(), server_default="0", nullable=False),
        lambda: sa.Column("next_step_at", sa.TIMESTAMP(timezone=True), nullable=True),
        lambda: sa.Column("claimed_by", sa.Text(), nullable=True),
        lambda: sa.Column("claimed_until", sa.TIMESTAMP(timezone=True), nullable=True),
        lambda: sa.Column(
            "delegations", postgresql.JSONB(astext_type=sa.Text()), server_default=_EMPTY_LIST, nullable=False
        ),
        lambda: sa.Column("paused_at", sa.TIMESTAMP(timezone=True), nullable=True),
        lambda: sa.Column("cancel_asked_by", sa.Text(), nullable=True),
        lambda: sa.Column("cancel_asked_at", sa.TIMESTAMP(timezone=True), nullable=True),
    ),
    "decisions": (
        lambda: sa.Column("roles", postgresql.JSONB(astext_type=sa.Text()), server_default=_EMPTY_LIST, nullable=False),
        lambda: sa.Column("conversation_id", sa.Text(), nullable=True),
        lambda: sa.Column(
            "details", postgresql.JSONB(astext_type=sa.Text()), server_default=_EMPTY_OBJECT, nullable=False
        ),
        lambda: sa.Column("arguments_revision", sa.Integer(), nullable=True),
        lambda: sa.Column("counted_revision", sa.Integer(), nullable=True),
    ),
}


def upgrade() -> None:
    for table, columns in _ADDED.items():
        for column in columns:
            op.add_column(table, column(), schema="approval")
    for name, (_, after) in _APPROVALS.items():
        _recheck("approvals", name, after)
    op.create_check_constraint(
        op.f("ck_approvals_edited_with_original"),
        "approvals",
        "(edited IS NOT NULL) = (arguments_revision > 1)",
        schema="approval",
    )
    op.create_check_constraint(
        op.f("ck_approvals_claimed_for_a_time"),
        "approvals",
        "(claimed_by IS NULL) = (claimed_until IS NULL)",
        schema="approval",
    )
    op.create_index(
        "ix_approvals_steps",
        "approvals",
        ["next_step_at"],
        unique=False,
        schema="approval",
        postgresql_where=sa.text("state = 'pending' AND next_step_at IS NOT NULL"),
    )
    _recheck("decisions", "ck_decisions_verb_known", _VERBS)
    _recheck("decisions", "ck_decisions_outcome_known", _OUTCOMES)
    op.create_check_constraint(
        op.f("ck_decisions_counted_votes"),
        "decisions",
        "(counted_revision IS NULL) = (arguments_revision IS NULL) AND (counted_revision IS NULL"
        " OR (outcome = 'accepted' AND verb IN ('approve', 'deny', 'abstain', 'edit')))",
        schema="approval",
    )
    _create_edits()
    _recheck("tool_calls", "ck_tool_calls_result_kind_known", _KINDS, schema="agent")


def downgrade() -> None:
    _recheck("tool_calls", "ck_tool_calls_result_kind_known", _KINDS_BEFORE, schema="agent")
    op.drop_table("edits", schema="approval")
    op.drop_constraint(op.f("ck_decisions_counted_votes"), "decisions", schema="approval")
    _recheck("decisions", "ck_decisions_outcome_known", _OUTCOMES_BEFORE)
    _recheck("decisions", "ck_decisions_verb_known", _VERBS_BEFORE)
    op.drop_index("ix_approvals_steps", "approvals", schema="approval")
    op.drop_constraint(op.f("ck_approvals_claimed_for_a_time"), "approvals", schema="approval")
    op.drop_constraint(op.f("ck_approvals_edited_with_original"), "approvals", schema="approval")
    for name, (before, _) in _APPROVALS.items():
        _recheck("approvals", name, before)
    for table, columns in _ADDED.items():
        for column in columns:
            op.drop_column(table, column().name, schema="approval")


def _create_edits() -> None:
    op.create_table(
        "edits",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("edit_id", sa.Text(), nullable=False),
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("base_revision", sa.Integer(), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("before_digest", sa.Text(), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("differences", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("signed", sa.Text(), nullable=False),
        sa.Column("answer_to", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), server_default="", nullable=False),
        sa.Column("rulebook_digest", sa.Text(), nullable=True),
        sa.Column("asked_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("judged_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint("state IN ('asked', 'accepted', 'refused')", name=op.f("ck_edits_state_known")),
        sa.CheckConstraint("(state = 'asked') = (judged_at IS NULL)", name=op.f("ck_edits_judged_iff_over")),
        sa.PrimaryKeyConstraint("tenant", "edit_id", name=op.f("pk_edits")),
        schema="approval",
    )
    op.create_index("ix_edits_approval", "edits", ["approval_id", "asked_at"], unique=False, schema="approval")


def _recheck(table: str, name: str, condition: str, *, schema: str = "approval") -> None:
    """Let a check say something else."""
    op.drop_constraint(op.f(name), table, schema=schema)
    op.create_check_constraint(op.f(name), table, condition, schema=schema)
