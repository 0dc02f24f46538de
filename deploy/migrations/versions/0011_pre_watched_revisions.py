"""A watched call has a row for each version of its arguments that people saw."""

from __future__ import annotations

from alembic import op

revision = "0011_pre_watched_revisions"
down_revision = "0010_pre_people"


def upgrade() -> None:
    op.drop_constraint(op.f("pk_watched_calls"), "watched_calls", schema="policy", type_="primary")
    op.create_primary_key(op.f("pk_watched_calls"), "watched_calls", ["call_id", "arguments_digest"], schema="policy")


def downgrade() -> None:
    op.execute(
        "DELETE FROM policy.watched_calls AS one USING policy.watched_calls AS other"
        " WHERE one.call_id = other.call_id AND one.arguments_digest > other.arguments_digest"
    )
    op.drop_constraint(op.f("pk_watched_calls"), "watched_calls", schema="policy", type_="primary")
    op.create_primary_key(op.f("pk_watched_calls"), "watched_calls", ["call_id"], schema="policy")
