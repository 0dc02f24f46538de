"""Everything that the first release keeps."""

from __future__ import annotations

from alembic import op

from placet.deploy.migrations.baseline import revision_id, statements

revision = revision_id()
down_revision = None


def upgrade() -> None:
    for statement in statements():
        op.get_bind().exec_driver_sql(statement)
