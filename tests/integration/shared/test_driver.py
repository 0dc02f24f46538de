"""Connections to real PostgreSQL: what they say of errors, and in which state they leave what went wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from decimal import Decimal
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.runtime import database as module
from placet.runtime.database import Database
from placet.runtime.driver import DatabaseError, Outage
from placet.runtime.queries import query
from placet.runtime.sql import Connection
from tests.support.system import until


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[Database]:
    """At most two connections of the test's own."""
    database = Database(postgres_url, service="agent", pool_size=1)
    yield database
    await database.close()


async def run(connection: Connection, text: str, /, **values: Any) -> list[Any]:
    """Run a statement."""
    return await connection.run(query("q", text), **values)


async def process_of(database: Database) -> int:
    """Return the server's process behind the connection that comes next."""
    async with database.single() as connection:
        return int((await run(connection, "SELECT pg_backend_pid()"))[0][0])


async def test_a_statement_from_before_a_migration_is_done_again(database: Database) -> None:
    """A connection has a plan of a table that is not so any more: in a transaction that is an outage, and no second."""
    async with database.single() as connection:
        await run(connection, "CREATE TEMPORARY TABLE grown (n int)")
    async with database.transaction() as connection:
        await run(connection, "SELECT * FROM grown")
    async with database.single() as connection:
        await run(connection, "ALTER TABLE grown ADD COLUMN m int")
    with pytest.raises(Outage):
        async with database.transaction() as connection:
            await run(connection, "SELECT * FROM grown")
    async with database.transaction() as connection:
        assert [] == await run(connection, "SELECT * FROM grown")


@pytest.mark.parametrize(
    ("statement", "code"),
    [("SELECT 1 / 0", "22012"), ("SELECT * FROM nobody_made_this", "42P01"), ("SELECT broken(", "42601")],
)
async def test_a_bug_is_no_outage(database: Database, statement: str, code: str) -> None:
    """It would be tried for ever."""
    with pytest.raises(DatabaseError) as caught:
        async with database.transaction() as connection:
            await run(connection, statement)
    assert (code, False) == (caught.value.sqlstate, isinstance(caught.value, Outage))


@pytest.mark.parametrize(
    "statement", ["SELECT pg_terminate_backend(pg_backend_pid())", "SELECT pg_cancel_backend(pg_backend_pid())"]
)
async def test_a_server_that_stops_a_statement_is_an_outage(database: Database, statement: str) -> None:
    """And the next caller has a connection that is good."""
    with pytest.raises(Outage):
        async with database.transaction() as connection:
            await run(connection, statement)
    assert await process_of(database)


async def test_a_server_that_takes_no_writes_is_an_outage(database: Database) -> None:
    """A standby, or a server that an operator protects: what waits must not become a dead letter."""
    async with database.transaction() as connection:
        await run(connection, "SET TRANSACTION READ ONLY")
        with pytest.raises(Outage) as caught:
            await run(connection, "CREATE TABLE refused (n int)")
    assert "25006" == caught.value.sqlstate


async def test_an_error_of_the_caller_stays_as_it_is(database: Database) -> None:
    """Only what the database says is told as the database's."""
    with pytest.raises(ConnectionResetError):
        async with database.transaction():
            raise ConnectionResetError


async def test_a_value_of_the_wrong_kind_is_not_quoted(database: Database) -> None:
    """Errors go to logs, and what people wrote does not."""
    with pytest.raises(DatabaseError) as caught:
        async with database.single() as connection:
            await run(connection, "SELECT :n::int", n="hunter2")
    assert (False, False, True) == (
        "hunter2" in str(caught.value),
        isinstance(caught.value, Outage),
        caught.value.__suppress_context__,
    )


async def test_a_statement_that_fails_takes_its_transaction_along(database: Database) -> None:
    """And the next caller is outside any transaction, on the connection that was used last."""
    before = await process_of(database)
    with suppress(DatabaseError):
        async with database.transaction() as connection:
            await run(connection, "CREATE TEMPORARY TABLE half_done (n int)")
            await run(connection, "SELECT 1 / 0")
    async with database.single() as connection:
        found = await run(connection, "SELECT pg_backend_pid(), to_regclass('half_done')")
    assert [(before, None)] == [tuple(row) for row in found]


async def test_a_cancelled_statement_costs_no_connection(database: Database, postgres_url: str) -> None:
    """The statement is stopped on the server too, and the connection serves the next caller."""
    process = await process_of(database)

    async def sleep() -> None:
        async with database.transaction() as connection:
            await run(connection, "SELECT pg_sleep(60)")

    sleeping = asyncio.create_task(sleep())
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as watcher:
        text = "SELECT state = 'active' AND query LIKE '%%pg_sleep%%' FROM pg_stat_activity WHERE pid = %s"
        async with asyncio.timeout(30):
            while (await (await watcher.execute(text, [process])).fetchone()) != (True,):
                pass
    sleeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeping
    async with database.single() as connection:
        found = await run(connection, "SELECT pg_backend_pid(), pg_current_xact_id_if_assigned()::text")
    assert [(process, None)] == [tuple(row) for row in found]


async def test_who_finds_no_connection_free_is_told_so(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as an outage: to be tried again, by whoever asked."""
    async with database.single(), database.single():
        with monkeypatch.context() as patch:
            patch.setattr(module, "FREE_SECONDS", 0.05)
            with pytest.raises(Outage):
                await process_of(database)
    assert await process_of(database)


async def test_connections_that_were_lost_are_given_to_nobody(database: Database, postgres_url: str) -> None:
    """After a restart of the server callers get new ones."""
    async with database.single() as one, database.single() as other:
        lost = {(await run(each, "SELECT pg_backend_pid()"))[0][0] for each in (one, other)}
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as killer:
        for process in lost:
            await killer.execute("SELECT pg_terminate_backend(%s, 10000)", [process])
    # Whether the first one hears of it depends on whether this process has seen the connections end.
    with suppress(Outage):
        await process_of(database)
    assert await process_of(database) not in lost


async def test_a_connection_that_the_pool_took_back_is_an_outage(database: Database, postgres_url: str) -> None:
    """It was lost between two statements, and asyncpg raises before anybody waits: no event is to blame for it.

    Whoever asks first may hear that it is closed, before the pool has it back.
    """
    async with database.single() as connection:
        ((process,),) = await run(connection, "SELECT pg_backend_pid()")
        async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as killer:
            await killer.execute("SELECT pg_terminate_backend(%s, 10000)", [process])

        async def is_lost() -> bool:
            try:
                await run(connection, "SELECT 1")
            except Outage:
                return True
            return False

        await until(is_lost, "the connection is lost")
        with pytest.raises(Outage):
            await run(connection, "SELECT 1")


async def test_a_server_that_is_not_there_is_told_at_once() -> None:
    """No retries in the dark: whoever asks decides how long to wait."""
    database = Database("postgresql://postgres@127.0.0.1:1/none", service="agent")
    for _ in range(2):
        with pytest.raises(Outage):
            await process_of(database)
    await database.close()


async def test_values_come_back_as_they_went(database: Database) -> None:
    """JSON of any depth and script, exact amounts, arrays, texts."""
    values = {
        "json": {"größe": [1, 2.5, None, True, {"leer": {}}], "z": 10**30},
        "amount": Decimal("0.10"),
        "names": ["a", "b,c", '"'],
        "text": "\u200b'; --",
    }
    kinds: dict[str, Any] = {"json": pg.JSONB, "amount": sa.Numeric, "names": pg.ARRAY(pg.TEXT), "text": sa.Text}
    statement: sa.Select[Any] = sa.select(*(sa.bindparam(name, type_=kind).label(name) for name, kind in kinds.items()))
    async with database.single() as connection:
        row = (await connection.execute(statement, values)).mappings().one()
        (named,) = await run(
            connection, "SELECT :json::jsonb AS json, :amount::numeric, :names::text[], :text::text", **values
        )
    assert (values, list(values.values())) == (dict(row), list(named))


@pytest.mark.parametrize("number", ["nan", "inf"])
async def test_a_number_that_is_none_is_refused(database: Database, number: str) -> None:
    """It must not become null on its way."""
    async with database.single() as connection:
        with pytest.raises(DatabaseError):
            await connection.execute(sa.select(sa.bindparam("json", type_=pg.JSONB)), {"json": [float(number)]})
        with pytest.raises(DatabaseError):
            await run(connection, "SELECT :json::jsonb", json=[float(number)])


async def test_rows_are_counted(database: Database) -> None:
    """Those that were found or changed, and those that a changing statement returns."""
    table = sa.table("counted", sa.column("n", sa.Integer))
    async with database.single() as connection:
        await run(connection, "CREATE TEMPORARY TABLE counted AS SELECT generate_series(1, 2) AS n")
        statements: list[Any] = [
            sa.insert(table).values([{"n": 1}, {"n": 2}, {"n": 3}]),
            sa.update(table).values(n=table.c.n).where(table.c.n > 2),
            sa.delete(table).where(table.c.n == 1).returning(table.c.n),
            sa.select(table),
            sa.delete(table),
        ]
        counts = [(await connection.execute(statement)).rowcount for statement in statements]
    assert [3, 1, 2, 3, 3] == counts


async def test_options_reach_the_server(postgres_url: str) -> None:
    """And so does the name that the operator gave, which the service's own follows."""
    mark = "&" if "?" in postgres_url else "?"
    database = Database(f"{postgres_url}{mark}options=-c%20lock_timeout%3D7s&application_name=mine", service="agent")
    async with database.single() as connection:
        found = await run(connection, "SELECT current_setting('lock_timeout'), current_setting('application_name')")
    await database.close()
    assert [("7s", "placet-agent")] == [tuple(row) for row in found]
