"""All SQL of the gateway: its own tables to read and write, other services' `read` views to read only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionFree
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.database import Database, is_outage

#: What SQL raises; the doors catch these and ask `is_away` what they mean.
DATABASE_ERRORS: tuple[type[Exception], ...] = (DBAPIError, NoConnectionFree)


def is_away(error: Exception) -> bool:
    """Tell whether an error says that the database is away or too busy, and not that the statement is wrong."""
    return isinstance(error, NoConnectionFree) or is_outage(error)


@asynccontextmanager
async def reading(database: Database) -> AsyncIterator[AsyncConnection]:
    """Yield a connection for SELECTs, each its own transaction: no BEGIN and no COMMIT to pay for."""
    async with database.engine.connect() as connection:
        yield await connection.execution_options(isolation_level="AUTOCOMMIT")
