"""All SQL of the gateway: its own tables to read and write, other services' `read` views to read only."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import psycopg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionFree

from shared.database import Database, is_outage
from shared.sql import Connection

#: What SQL raises; the doors catch these and ask `is_away` what they mean.
DATABASE_ERRORS: tuple[type[Exception], ...] = (psycopg.Error, DBAPIError, NoConnectionFree)


def is_away(error: Exception) -> bool:
    """Tell whether an error says that the database is away or too busy, and not that the statement is wrong."""
    return isinstance(error, NoConnectionFree) or is_outage(error)


def reading(database: Database) -> AbstractAsyncContextManager[Connection]:
    """Return a connection for SELECTs, each its own transaction."""
    return database.single()
