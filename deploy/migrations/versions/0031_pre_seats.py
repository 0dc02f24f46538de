"""What votes count for is kept from one count to the next: none comes to count for more by itself."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0031_pre_seats"
down_revision = "0030_pre_answers"


def upgrade() -> None:
    seats: sa.Column[object] = sa.Column("seats", postgresql.JSONB(), nullable=True)
    op.add_column("approvals", seats, schema="approval")


def downgrade() -> None:
    op.drop_column("approvals", "seats", schema="approval")
