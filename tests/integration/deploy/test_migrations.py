"""Migrations amount to the tables, can be run again, and by several at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from placet.cli.backup.settling import begin
from placet.contracts.topology import SERVICES
from placet.deploy.migrations import NotRestored, NotUtf8, UnknownDatabase, baseline, migrate, newest
from placet.deploy.migrations.metadata import OPTIONS, metadata
from placet.deploy.migrations.views import views
from placet.deploy.retention.rules import rule_of
from placet.runtime.database import async_url

Fresh = Callable[[Callable[[str], None]], str]


def empty(url: str) -> None:
    """Leave a new database as it is."""


def test_the_migrations_amount_to_the_tables(database_url: str) -> None:
    """A migrated database differs from the tables in nothing that alembic can see."""
    engine = sa.create_engine(async_url(database_url))
    with engine.connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection, opts=OPTIONS), metadata)
    engine.dispose()
    assert [] == differences


def test_every_view_can_be_read(database_url: str) -> None:
    """What the gateway reads exists, and is empty but for what says how far each history has come."""
    with psycopg.connect(database_url) as connection:
        for name in views():
            expected = len(SERVICES) if name == "history_ids" else 0
            assert connection.execute(f'SELECT count(*) FROM "read"."{name}"').fetchone() == (expected,)  # noqa: S608


def test_every_table_of_a_migrated_database_has_a_rule(database_url: str) -> None:
    """Whatever makes it and in whichever schema: docs/retention.md says when its rows go, or it is alembic's own."""
    every = """
        SELECT n.nspname || '.' || c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p', 'm', 'f') AND n.nspname !~ '^(pg_|information_schema)'
    """
    with psycopg.connect(database_url) as connection:
        found = {str(row[0]) for row in connection.execute(every)}
    assert {"public.alembic_version"} == {each for each in found if rule_of(each) is None}
    assert {*metadata.tables} == found - {"public.alembic_version"}


def test_migrating_again_changes_nothing(database_url: str) -> None:
    """A second run finds the newest schema."""
    assert migrate(database_url) == (newest(), newest())


def test_other_tables_have_another_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the first release one migration changes with the tables, and a database of older ones must be refused."""
    before, changed = newest(), tmp_path / "baseline.sql"
    changed.write_bytes(baseline.FILE.read_bytes() + b";;\nCREATE TABLE agent.more (id int)\n")
    monkeypatch.setattr(baseline, "FILE", changed)
    assert before != newest()


def test_several_may_migrate_at_once(fresh_database: Fresh) -> None:
    """Replicas that start together wait for each other."""
    url = fresh_database(empty)
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(migrate, [url] * 3))
    assert [newest()] * 3 == [after for _, after in results]
    assert sorted([before is None for before, _ in results]) == [False, False, True]


@pytest.mark.parametrize("revision", ["9999_later", "0001_baseline"])
def test_a_database_of_another_release_is_refused(fresh_database: Fresh, revision: str) -> None:
    """A newer one, or one from before the first release with other tables: the message says at which revision."""
    url = fresh_database(empty)
    migrate(url)
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = %s", [revision])
    with pytest.raises(UnknownDatabase, match=revision):
        migrate(url)


def test_a_database_that_is_being_restored_is_refused(fresh_database: Fresh) -> None:
    """What a restore left in the middle is made no new house of."""
    url = fresh_database(empty)
    with psycopg.connect(url) as connection:
        begin(connection)
    with pytest.raises(NotRestored, match=r"has not come to its end: run `placet restore … --replace` again"):
        migrate(url)


def test_a_database_of_another_encoding_is_refused(fresh_database: Fresh) -> None:
    """In a sentence that says how to make one that fits; nothing is created in it."""
    url = urlsplit(fresh_database(empty))._replace(path="/placet_test_ascii").geturl()
    with psycopg.connect(fresh_database(empty), autocommit=True) as connection:
        encoding = "ENCODING SQL_ASCII LC_COLLATE 'C' LC_CTYPE 'C'"
        connection.execute(f"CREATE DATABASE placet_test_ascii {encoding} TEMPLATE template0")
        try:
            with pytest.raises(NotUtf8, match=r"SQL_ASCII.*createdb --encoding=UTF8"):
                migrate(url)
        finally:
            connection.execute("DROP DATABASE placet_test_ascii")
