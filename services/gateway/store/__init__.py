"""All SQL of the gateway: its own tables to read and write, other services' `read` views to read only."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from placet.runtime.database import Database
from placet.runtime.sql import Connection


def reading(database: Database) -> AbstractAsyncContextManager[Connection]:
    """Return a connection for SELECTs, each its own transaction."""
    return database.single()
