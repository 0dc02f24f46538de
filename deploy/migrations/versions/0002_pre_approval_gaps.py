"""Votes name the key behind them, edits what may be seen of them, and a set of deciders all that says who decides."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002_pre_approval_gaps"
down_revision = "0001_pre_foundation"

#: Any digest will do as long as rows that differ in who may decide have different ones.
_DIGESTS = """
    UPDATE approval.approvals SET deciders_digest = encode(sha256(convert_to(
        concat_ws('|', tool, deciders::text, approval_rule::text, steps_done, delegations::text), 'UTF8')), 'hex')
    WHERE state = 'pending'
"""


def upgrade() -> None:
    op.add_column("decisions", sa.Column("key_id", sa.Text(), nullable=True), schema="approval")
    op.add_column("edits", sa.Column("shown_before", sa.Text(), nullable=True), schema="approval")
    op.add_column("edits", sa.Column("shown_arguments", sa.Text(), nullable=True), schema="approval")
    op.execute(_DIGESTS)


def downgrade() -> None:
    op.drop_column("edits", "shown_arguments", schema="approval")
    op.drop_column("edits", "shown_before", schema="approval")
    op.drop_column("decisions", "key_id", schema="approval")
