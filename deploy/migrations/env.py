"""Alembic's entry: runs migrations on the connection that `migrate` hands over."""

from __future__ import annotations

from alembic import context

from placet.deploy.migrations.metadata import OPTIONS, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transaction_per_migration=True,
    **OPTIONS,
)
with context.begin_transaction():
    context.run_migrations()
