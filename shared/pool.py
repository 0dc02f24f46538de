"""A service's connections to PostgreSQL: the one used last is used next, and one loss empties the pool.

Few connections that stay warm cost PostgreSQL least, a refused connection must be told at once and not after a wait,
and after a restart of the server no second caller may be given a dead connection (see ADR 0012).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shared.driver import Address, DatabaseError, Driver, Outage


class NoConnectionFree(Outage):
    """Every connection stayed in use for as long as it is worth waiting."""


class Pool:
    """At most `size` connections, made when they are needed; of those that are idle, `keep` stay open."""

    def __init__(self, url: str, *, application: str, size: int, keep: int, wait_seconds: float = 30.0) -> None:
        """Raise BadDatabaseUrl where `url`, a libpq URL, has what cannot be followed."""
        self._address = Address(url, application=application)
        self._wait_seconds = wait_seconds
        self._free = asyncio.Semaphore(size)
        self._keep = keep
        self._idle: list[Driver] = []
        self._closed = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Driver]:
        """Yield a connection outside any transaction; what is not committed at the end is rolled back.

        Raises NoConnectionFree, and Outage where the server cannot be reached.
        """
        await self._take_place()
        try:
            driver = await self._give_out()
            try:
                yield driver
            finally:
                await self._take_back(driver)
        finally:
            self._free.release()

    async def close(self) -> None:
        """Close what is idle now, and the rest when it comes back."""
        self._closed = True
        while self._idle:
            await self._idle.pop().close()

    async def _take_place(self) -> None:
        if not self._free.locked():
            await self._free.acquire()
            return
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._free.acquire()
        except TimeoutError as error:
            raise NoConnectionFree(f"no connection was free for {self._wait_seconds:g} seconds") from error

    async def _give_out(self) -> Driver:
        if self._idle and self._idle[-1].closed:
            self._drop_idle()
        return self._idle.pop() if self._idle else await self._address.connect()

    async def _take_back(self, driver: Driver) -> None:
        """Keep a connection that is good for the next caller, whatever state the last one left it in."""
        try:
            await driver.rollback()
        except DatabaseError:
            driver.terminate()
        except BaseException:
            driver.terminate()
            raise
        driver.autocommit = False
        if driver.closed:
            self._drop_idle()
        elif self._closed or len(self._idle) >= self._keep:
            await driver.close()
        else:
            self._idle.append(driver)

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().terminate()
