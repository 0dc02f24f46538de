"""What an error of the database tells, and what it must not."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import psycopg
import pytest
import sqlalchemy as sa
import uvloop
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.engine import make_url
from structlog.testing import capture_logs

from placet.contracts.canonical import data_digest
from placet.deploy.migrations import migrate
from placet.runtime.database import FULL_SECONDS, Database
from placet.runtime.driver import DatabaseClosed, DatabaseError, Outage, Silence
from placet.runtime.logging import pass_over_lookups
from placet.runtime.sql import Connection
from tests.support.line import Line, to_postgres
from tests.support.postgres import Databases
from tests.support.system import until


async def test_an_error_names_the_rule_and_not_the_row(databases: Databases) -> None:
    """Logs and dead letters get the name of the constraint; what somebody wrote into the row stays out."""
    with databases.fresh(lambda _: None) as url:
        database = Database(url, service="dead_letters", pool_size=1)
        refused = sa.text("INSERT INTO once VALUES (:pin)")
        async with database.transaction() as connection:
            await connection.execute(sa.text("CREATE TABLE once (pin text CONSTRAINT short CHECK (length(pin) < 3))"))
        with pytest.raises(DatabaseError) as caught:
            async with database.transaction() as connection:
                await connection.execute(refused, {"pin": "no-4929\nDETAIL: x"})
        await database.close()
    told = str(caught.value)
    assert (True, False) == ("short" in told, "no-4929" in told)


async def test_a_database_that_was_never_migrated_is_not_ready(databases: Databases) -> None:
    """Nor does its service begin: it says what to run, and goes on by itself when that was done."""
    with databases.fresh(lambda _: None) as url:
        database = Database(url, service="dead_letters", pool_size=1)
        before, waiting = await database.ready(), asyncio.create_task(database.wait_ready())
        with capture_logs() as logs:

            async def was_told() -> bool:
                return bool(logs)

            await until(was_told, "it says why it waits")
        migrate(url)
        await waiting
        after = await database.ready()
        await database.close()
    assert (False, "it has no tables of this service: run `placet migrate`", True) == (before, logs[0]["reason"], after)


async def test_a_database_that_is_away_is_told_once(databases: Databases) -> None:
    """Not once for each request that it keeps from an answer: a line when it begins, and one when it is over."""
    with databases.fresh(lambda _: None) as url:
        database = Database(url, service="dead_letters", pool_size=1)
        with psycopg.connect(databases.url("postgres"), autocommit=True) as admin, capture_logs() as logs:
            name = make_url(url).database
            admin.execute(f'ALTER DATABASE "{name}" RENAME TO "{name}-away"')
            before = [await database.ready() for _ in range(3)]
            admin.execute(f'ALTER DATABASE "{name}-away" RENAME TO "{name}"')
            async with database.single():
                told = [(line["event"], line.get("missed")) for line in logs]
        await database.close()
    assert [False] * 3 == before
    assert [("database.away", None), ("database.back", 3)] == told


#: As the server says it that has no room left; it cannot be told to have none.
NO_ROOM = sa.text("DO $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$")


async def test_a_full_disk_is_told_once_and_is_not_ready(databases: Databases) -> None:
    """What only reads is answered, but nothing of what the service is for; that there is room again is told, too."""
    with databases.fresh(lambda _: None) as url, capture_logs() as logs:
        migrate(url)
        database = Database(url, service="dead_letters", pool_size=1)
        ready = [await database.ready()]
        for _ in range(2):
            with pytest.raises(Outage) as caught:
                async with database.transaction() as connection:
                    await connection.execute(NO_ROOM)
            database.tell_lost(error=type(caught.value).__name__)
        ready.append(await database.ready())
        database._full_at -= FULL_SECONDS
        ready.append(await database.ready())
        async with database.transaction() as connection:
            await connection.execute(sa.text("SELECT 1"))
        await database.close()
    assert (True, [True, False, True]) == (caught.value.is_full_disk, ready)
    assert ["database.full", "database.has_room"] == [line["event"] for line in logs if "database" in line["event"]]


async def test_a_server_that_is_silent_is_told_as_that(databases: Databases) -> None:
    """Nobody waited for a connection that others use; and it was away since it was first asked in vain."""
    with databases.fresh(lambda _: None) as url:
        line = Line(to_postgres(lambda: url))
        await line.open()
        line.silent = True
        told = f"postgresql://postgres@127.0.0.1:{line.port}{urlsplit(url).path}?sslmode=disable&connect_timeout=0.5"
        database = Database(told, service="dead_letters", pool_size=1)
        with capture_logs() as logs:
            with pytest.raises(DatabaseError, match="did not answer"):
                await _nothing_in(database)
            line.silent = False
            await _nothing_in(database)
        await database.close()
        await line.close()
    away, back = logs
    assert ("database.away", "the server did not answer within 0.5 seconds") == (away["event"], away["error"])
    assert ("database.back", True) == (back["event"], back["seconds"] >= 0.5)


async def test_a_line_that_falls_silent_is_given_up_with_all_that_are_like_it(databases: Databases) -> None:
    """TCP would wait for a quarter of an hour, and for ever for a frozen server; new lines may be fine."""
    with databases.fresh(lambda _: None) as url:
        line = Line(to_postgres(lambda: url))
        await line.open()
        told = f"postgresql://postgres@127.0.0.1:{line.port}{urlsplit(url).path}?sslmode=disable"
        database = Database(told, service="dead_letters", pool_size=2, answer_seconds=0.5)
        with capture_logs() as logs:
            async with database.single() as one, database.single() as other:
                before = {await _process_of(one), await _process_of(other)}
            with pytest.raises(Silence, match="did not answer in time"):
                await _fallen_silent(database, line)
            line.silent = False
            async with database.single() as one, database.single() as other:
                after = {await _process_of(one), await _process_of(other)}
        await database.close()
        await line.close()
    assert (2, 2, set()) == (len(before), len(after), before & after)
    assert ["database.away", "database.back"] == [each["event"] for each in logs]


@pytest.mark.parametrize("service", ["gateway", "agent"])
async def test_commands_may_take_their_time(databases: Databases, service: str) -> None:
    """Whoever waits for a command breaks it off; and a gateway's connection plans as it likes."""
    with databases.fresh(lambda _: None) as url:
        database = Database(url, service=service, pool_size=1, answer_seconds=None)
        async with database.single() as connection:
            found = (await connection.execute(sa.text("SELECT current_setting('statement_timeout')"))).scalar_one()
        await database.close()
    assert "0" == found


async def test_an_inbox_forgets_the_old_in_parts(databases: Databases) -> None:
    """However many copies have come to lie there, no statement takes long; the young stay."""
    given = "SELECT id, 'q', now() - id::int * interval '3 days' FROM unnest(:ids) AS given (id)"
    with databases.fresh(lambda _: None) as url:
        migrate(url)
        database = Database(url, service="dead_letters", pool_size=1)
        async with database.single() as connection:
            await connection.execute(
                sa.text(f"INSERT INTO dead_letters.inbox {given}").bindparams(
                    sa.bindparam("ids", list("12345"), pg.ARRAY(sa.Text))
                )
            )
            rounds = [(await connection.run(database.queries.forget_old, most=2))[0][0] for _ in range(3)]
            left = (await connection.execute(sa.text("SELECT message_id FROM dead_letters.inbox"))).all()
        await database.close()
    assert ([2, 1, 0], [("1",), ("2",)]) == (rounds, left)


async def test_a_server_that_is_there_gives_up_what_takes_too_long(databases: Databases) -> None:
    """Nobody waits for it any more; the connection stays, and the database is not away."""
    with databases.fresh(lambda _: None) as url, capture_logs() as logs:
        database = Database(url, service="dead_letters", pool_size=1, answer_seconds=0.5)
        async with database.single() as connection:
            before = await _process_of(connection)
            with pytest.raises(Outage, match="statement timeout"):
                await connection.execute(sa.select(sa.func.pg_sleep(60)))
            after = await _process_of(connection)
        await database.close()
    assert (before, []) == (after, logs)


async def test_a_database_that_is_closed_in_order_is_not_away(databases: Databases) -> None:
    """Operators wait for `database.away`: whoever comes in the moment of a stop is told of that alone."""
    with databases.fresh(lambda _: None) as url, capture_logs() as logs:
        database = Database(url, service="dead_letters", pool_size=1)
        assert not await database.ready()
        async with database.single():
            closing = asyncio.create_task(database.close())
            await asyncio.sleep(0)
            with pytest.raises(DatabaseClosed, match="stopping"):
                await _nothing_in(database)
        await closing
        with pytest.raises(DatabaseClosed, match="stopping"):
            await _nothing_in(database)
    assert [] == logs


async def test_a_result_s_digest_is_that_of_what_the_database_gives_back(databases: Databases) -> None:
    """`jsonb` writes exponents out by their digits, where Python makes an integer of their bits: 1e23 was two."""
    given = [1e23, 6.022e23, -1.5e300, 1.7976931348623157e308, 1e16, 2.0**70, -0.0, 5e-324, 1e-7, 0.1, 10**40, "1e23"]
    with databases.fresh(lambda _: None) as url:
        database = Database(url, service="dead_letters", pool_size=1)
        asked = sa.select(sa.cast(sa.literal({"all": given}, pg.JSONB), pg.JSONB))
        async with database.transaction() as connection:
            found = (await connection.execute(asked)).scalar_one()
        await database.close()
    assert [data_digest(each) for each in given] == [data_digest(each) for each in found["all"]]


@pytest.mark.parametrize("passes", range(1, 9))
async def test_a_transaction_may_be_cancelled_while_it_begins(databases: Databases, passes: int) -> None:
    """As the renewal of a lease is when its tool ends: the driver has nothing to complain of, the next one begins."""
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
    with databases.fresh(lambda _: None) as url:
        database = Database(url, service="dead_letters", pool_size=1)
        async with database.single() as connection:
            await connection.execute(sa.text("SELECT 1"))
        begins = asyncio.create_task(_nothing_in(database))
        for _ in range(passes):
            await asyncio.sleep(0)
        begins.cancel()
        await asyncio.gather(begins, return_exceptions=True)
        await _nothing_in(database)
        await database.close()
    assert complaints == []


def test_a_host_that_does_not_resolve_in_time_is_told_by_its_outage_alone(caplog: pytest.LogCaptureFixture) -> None:
    """The loop of services looks a name up behind the back of who gave up: what comes of it is no error of ours."""
    url = "postgresql://placet@db.invalid/placet?connect_timeout=0.000001"

    async def given_up() -> None:
        database = Database(url, service="dead_letters", pool_size=1)
        asyncio.get_running_loop().set_exception_handler(pass_over_lookups)

        async def was_too_late() -> bool:
            assert not await database.ready()
            return any(line["event"] == "lookup.too_late" for line in logs)

        await until(was_too_late, "a look-up ends behind the back of who gave up")
        await database.close()

    with capture_logs() as logs:
        uvloop.run(given_up())
    told = [(line["event"], line["error"]) for line in logs if line["log_level"] != "debug"]
    assert [("database.away", "the server did not answer within 1e-06 seconds")] == told
    assert [] == caplog.records


async def _fallen_silent(database: Database, line: Line) -> None:
    async with database.transaction() as connection:
        line.silent = True
        await _process_of(connection)


async def _process_of(connection: Connection) -> int:
    """Return which process of the server a connection has."""
    found: int = (await connection.execute(sa.select(sa.func.pg_backend_pid()))).scalar_one()
    return found


async def _nothing_in(database: Database) -> None:
    async with database.transaction():
        pass
