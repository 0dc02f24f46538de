"""A connection on real PostgreSQL: what it says of errors, and in which state it leaves what went wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from shared.driver import PREPARED_MAX, Address, DatabaseError, Driver, Outage
from shared.sql import Connection


@pytest.fixture
async def driver(postgres_url: str) -> AsyncIterator[Driver]:
    """A connection of the test's own."""
    driver = await Address(postgres_url, application="placet-test").connect()
    yield driver
    await driver.close()


async def test_a_statement_from_before_a_migration_is_done_again_elsewhere(driver: Driver) -> None:
    """The connection has plans of tables that are not so any more: it ends, and the error is an outage."""
    await driver.run("CREATE TEMPORARY TABLE grown (n int) ON COMMIT PRESERVE ROWS")
    await driver.run("SELECT * FROM grown")
    await driver.run("ALTER TABLE grown ADD COLUMN m int")
    await driver.commit()
    with pytest.raises(Outage):
        await driver.run("SELECT * FROM grown")
    assert driver.closed


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("SELECT 1 / 0", "22012"),
        ("SELECT * FROM nobody_made_this", "42P01"),
        ("SELECT broken(", "42601"),
    ],
)
async def test_a_bug_is_no_outage(driver: Driver, statement: str, code: str) -> None:
    """It would be tried for ever."""
    with pytest.raises(DatabaseError) as caught:
        await driver.run(statement)
    assert (code, False, False) == (caught.value.sqlstate, isinstance(caught.value, Outage), driver.closed)


async def test_a_statement_that_the_server_stops_is_an_outage(driver: Driver) -> None:
    """The connection is as good as before."""
    await driver.run("SET LOCAL statement_timeout = '1ms'")
    with pytest.raises(Outage):
        await driver.run("SELECT pg_sleep(60)")
    assert not driver.closed


async def test_a_server_that_hangs_up_is_an_outage(driver: Driver) -> None:
    """And the connection is known to be gone."""
    with pytest.raises(Outage):
        await driver.run("SELECT pg_terminate_backend(pg_backend_pid())")
    assert driver.closed


async def test_a_value_of_the_wrong_kind_is_not_quoted(driver: Driver) -> None:
    """Errors go to logs, and what people wrote does not."""
    with pytest.raises(DatabaseError) as caught:
        await driver.run("SELECT $1::int", ["hunter2"])
    assert (False, False) == ("hunter2" in str(caught.value), isinstance(caught.value, Outage))
    assert caught.value.__suppress_context__


async def test_a_statement_that_fails_takes_its_transaction_along(driver: Driver) -> None:
    """And the next one begins anew."""
    await driver.run("CREATE TEMPORARY TABLE half_done (n int)")
    with pytest.raises(DatabaseError):
        await driver.run("SELECT 1 / 0")
    await driver.commit()
    assert [(None,)] == (await driver.run("SELECT to_regclass('half_done')")).rows


async def test_a_cancelled_beginning_is_no_transaction_of_the_next(driver: Driver) -> None:
    """Whoever comes next and wants no transaction has none."""
    beginning = asyncio.create_task(driver.run("SELECT 1"))
    await asyncio.sleep(0)
    beginning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    await driver.rollback()
    driver.autocommit = True
    await driver.run("SELECT 1")
    assert not driver.in_transaction


async def test_no_more_statements_than_a_few_stay_prepared(driver: Driver) -> None:
    """Those that are written anew each time must not fill the server's memory; the one that is used often stays."""
    often = "SELECT 'often'"
    for number in range(PREPARED_MAX + 20):
        await driver.run(f"SELECT {number}")
        await driver.run(often)
    kept = await driver.run("SELECT count(*), bool_or(statement = $1) FROM pg_prepared_statements", [often])
    assert kept.rows[0][0] <= PREPARED_MAX + 1
    assert kept.rows[0][1]


async def test_values_come_back_as_they_went(driver: Driver) -> None:
    """JSON of any depth and script, exact amounts, arrays, texts."""
    values = {
        "json": {"größe": [1, 2.5, None, True, {"leer": {}}], "z": 10**30},
        "amount": Decimal("0.10"),
        "names": ["a", "b,c", '"'],
        "text": "\u200b'; --",
    }
    kinds: dict[str, Any] = {"json": pg.JSONB, "amount": sa.Numeric, "names": pg.ARRAY(pg.TEXT), "text": sa.Text}
    statement: sa.Select[Any] = sa.select(*(sa.bindparam(name, type_=kind).label(name) for name, kind in kinds.items()))
    row = (await Connection(driver).execute(statement, values)).mappings().one()
    assert values == dict(row)


@pytest.mark.parametrize("number", ["nan", "inf"])
async def test_a_number_that_is_none_is_refused(driver: Driver, number: str) -> None:
    """It must not become null on its way."""
    statement = sa.select(sa.bindparam("json", type_=pg.JSONB))
    with pytest.raises(DatabaseError):
        await Connection(driver).execute(statement, {"json": [float(number)]})


@pytest.mark.parametrize(
    ("statement", "count"),
    [
        ("INSERT INTO counted VALUES (1), (2), (3)", 3),
        ("UPDATE counted SET n = n WHERE n > 1", 1),
        ("DELETE FROM counted", 2),
        ("SELECT * FROM counted", 2),
        ("SET LOCAL lock_timeout = 0", -1),
    ],
)
async def test_rows_are_counted(driver: Driver, statement: str, count: int) -> None:
    """Those that were found or changed."""
    await driver.run("CREATE TEMPORARY TABLE counted AS SELECT generate_series(1, 2) AS n")
    assert count == (await driver.run(statement)).rowcount


async def test_options_reach_the_server(postgres_url: str) -> None:
    """And so does the name that the operator gave, which the service's own follows."""
    mark = "&" if "?" in postgres_url else "?"
    url = f"{postgres_url}{mark}options=-c%20lock_timeout%3D7s&application_name=mine"
    driver = await Address(url, application="placet-test").connect()
    found = await driver.run("SELECT current_setting('lock_timeout'), current_setting('application_name')")
    await driver.close()
    assert [("7s", "placet-test")] == found.rows
