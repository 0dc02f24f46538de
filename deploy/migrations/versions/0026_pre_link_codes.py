"""Mailed links have a code that is typed; links without one lapse."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026_pre_link_codes"
down_revision = "0025_pre_tell_by"


def upgrade() -> None:
    code = sa.Column("code_hash", sa.Text(), nullable=False, server_default="")
    op.add_column("links", code, schema="notifier")


def downgrade() -> None:
    op.drop_column("links", "code_hash", schema="notifier")
