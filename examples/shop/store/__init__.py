"""All SQL of the shop, as functions on a connection whose transaction the caller owns.

Every statement names the tenant. A repeated call is told by its key: a unique constraint, or a look under a
row lock.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from shop.tables import create_tables

DatabaseError = SQLAlchemyError
"""Whatever the database refused, or was not there to do."""
Outage = (OperationalError, InterfaceError, PoolTimeoutError)
"""It was not there, or went away."""


class ShopDatabase:
    """The database with the shop's tables; connects when first used, notices a server that came back."""

    def __init__(self, url: str, *, connections_max: int) -> None:
        self._engine = create_async_engine(
            url.replace("postgresql://", "postgresql+psycopg://", 1),
            pool_size=connections_max,
            max_overflow=0,
            pool_pre_ping=True,
            # What visitors say about themselves must not reach the logs by way of an error's parameters.
            hide_parameters=True,
            connect_args={"application_name": "placet-shop", "connect_timeout": 5},
        )
        self._made = False

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """Yield a connection inside one transaction; commit at the end, roll back on any error."""
        async with self._engine.begin() as connection:
            if not self._made:
                await connection.run_sync(create_tables)
            yield connection
        self._made = True

    async def close(self) -> None:
        """Close every connection."""
        await self._engine.dispose()
