"""A person's answer to the model says what it is: a result, or an instruction."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030_pre_answers"
down_revision = "0028_pre_conversation_ids"

#: What was answered so far had a kind too, which only the decision kept, and only where it was not the default.
_KNOWN = """
    UPDATE approval.approvals
    SET answer_kind = coalesce(decisions.details ->> 'response_kind', 'instruction')
    FROM approval.decisions
    WHERE approvals.state = 'answered' AND decisions.approval_id = approvals.approval_id
        AND decisions.tenant = approvals.tenant AND decisions.verb = 'respond' AND decisions.outcome = 'accepted'
"""


def upgrade() -> None:
    op.add_column("approvals", sa.Column("answer_kind", sa.Text(), nullable=True), schema="approval")
    op.execute(_KNOWN)
    for name, condition in (
        ("answer_kind_known", "answer_kind IN ('result', 'instruction')"),
        ("answer_kind_of_answers", "answer_kind IS NULL OR state = 'answered'"),
    ):
        op.create_check_constraint(op.f(f"ck_approvals_{name}"), "approvals", condition, schema="approval")


def downgrade() -> None:
    op.drop_column("approvals", "answer_kind", schema="approval")
