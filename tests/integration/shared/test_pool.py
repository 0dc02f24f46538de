"""The pool on real PostgreSQL: warm connections first, none lost, none given out dead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import psycopg
import pytest

from shared.driver import Driver, Outage
from shared.pool import NoConnectionFree, Pool


@pytest.fixture
async def pool(postgres_url: str) -> AsyncIterator[Pool]:
    """A pool of three connections that keeps two."""
    pool = Pool(postgres_url, application="placet-test", size=3, keep=2, wait_seconds=0.05)
    yield pool
    await pool.close()


async def process_of(driver: Driver) -> int:
    """Return the server's process behind a connection."""
    return int((await driver.run("SELECT pg_backend_pid()")).rows[0][0])


async def test_the_connection_used_last_is_used_next(pool: Pool) -> None:
    """Two are made for two at once, and one of them does what comes one after the other."""
    async with pool.connection() as one, pool.connection() as other:
        assert await process_of(one) != await process_of(other)
        last = await process_of(one)
    seen = set()
    for _ in range(3):
        async with pool.connection() as driver:
            seen.add(await process_of(driver))
    assert {last} == seen


async def test_who_finds_none_free_is_told_so(pool: Pool) -> None:
    """It counts as an outage: to be tried again, by whoever asked."""
    async with pool.connection(), pool.connection(), pool.connection():
        with pytest.raises(NoConnectionFree):
            async with pool.connection():
                pass
    async with pool.connection() as driver:
        assert await process_of(driver)


async def test_a_crowd_leaves_no_more_connections_than_are_kept(pool: Pool) -> None:
    """What a burst needed goes when it is over: the server's connections are for everybody."""
    async with pool.connection() as first, pool.connection(), pool.connection():
        pass
    async with pool.connection() as one, pool.connection() as other:
        assert (False, False) == (one.closed, other.closed)
        assert (first.closed, first in {one, other}) == (True, False)


async def test_what_is_not_committed_is_rolled_back(pool: Pool) -> None:
    """The next caller gets a connection outside any transaction."""
    async with pool.connection() as driver:
        await driver.run("CREATE TEMPORARY TABLE half_done (n int)")
    async with pool.connection() as driver:
        assert [(None,)] == (await driver.run("SELECT to_regclass('half_done')")).rows


async def test_a_cancelled_statement_costs_no_connection(pool: Pool, postgres_url: str) -> None:
    """The statement is stopped on the server too, and the connection serves the next caller."""
    async with pool.connection() as driver:
        process = await process_of(driver)

    async def sleep() -> None:
        async with pool.connection() as driver:
            await driver.run("SELECT pg_sleep(60)")

    sleeping = asyncio.create_task(sleep())
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as watcher:
        await until_active(watcher, process)
    sleeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeping
    async with pool.connection() as driver:
        assert process == await process_of(driver)


async def until_active(watcher: psycopg.AsyncConnection, process: int) -> None:
    """Return when the server's process runs a statement."""
    query = "SELECT state = 'active' AND query LIKE '%%pg_sleep%%' FROM pg_stat_activity WHERE pid = %s"
    async with asyncio.timeout(30):
        while (await (await watcher.execute(query, [process])).fetchone()) != (True,):
            pass


async def test_one_loss_empties_the_pool(pool: Pool, postgres_url: str) -> None:
    """After a restart of the server one caller may hear of it, and no second one."""
    async with pool.connection() as one, pool.connection() as other:
        processes = [await process_of(one), await process_of(other)]
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as killer:
        for process in processes:
            await killer.execute("SELECT pg_terminate_backend(%s, 10000)", [process])
    # Whether the first one hears of it depends on whether this process has seen the connections end.
    with suppress(Outage):
        async with pool.connection() as driver:
            await process_of(driver)
    async with pool.connection() as one, pool.connection() as other:
        assert set(processes).isdisjoint({await process_of(one), await process_of(other)})


async def test_a_server_that_is_not_there_is_told_at_once() -> None:
    """No retries in the dark: whoever asks decides how long to wait."""
    pool = Pool("postgresql://postgres@127.0.0.1:1/none", application="placet-test", size=1, keep=1)
    for _ in range(2):
        with pytest.raises(Outage):
            async with pool.connection():
                pass
    await pool.close()
