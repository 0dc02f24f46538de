"""All SQL of the gateway: its own tables to read and write, other services' `read` views to read only."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from shared.database import Database
from shared.sql import Connection


def reading(database: Database) -> AbstractAsyncContextManager[Connection]:
    """Return a connection for SELECTs, each its own transaction."""
    return database.single()
