"""Migrations: brings a database to the newest schema, and tells whether it is there."""

from __future__ import annotations

from pathlib import Path

import psycopg
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from placet.contracts.errors import PlacetError
from placet.deploy.migrations.views import create_views
from placet.runtime.database import async_url


class NotUtf8(PlacetError):
    """The database has another encoding than UTF-8."""


class UnknownDatabase(PlacetError):
    """A release that this one does not know has migrated the database; this one can do nothing with it."""


class NotRestored(PlacetError):
    """A restore of the database from a backup has not come to its end."""


#: What a database is said to be at while it is restored.
RESTORING = "restoring"

_LOCK = 0x506C61636574  # "Placet": one migration at a time, whoever else starts


def migrate(url: str) -> tuple[str | None, str]:
    """Bring the database at `url` to the newest schema; return the revision before and after. Safe to run at once.

    Raises UnknownDatabase where a release that this one does not know has migrated it, NotRestored where a restore of
    it was cut off, and NotUtf8 where the database cannot keep all texts.
    """
    _refuse_other_encodings(url)
    engine = sa.create_engine(async_url(url))
    try:
        with engine.connect() as connection:
            connection.execute(sa.text("SELECT pg_advisory_lock(:key)"), {"key": _LOCK})
            connection.commit()
            before = _current(connection)
            connection.commit()
            config = configuration()
            _refuse_unknown(before, config)
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            create_views(connection)
            connection.commit()
            after = _current(connection)
            connection.execute(sa.text("SELECT pg_advisory_unlock(:key)"), {"key": _LOCK})
            connection.commit()
    finally:
        engine.dispose()
    return before, after or ""


def _refuse_other_encodings(url: str) -> None:
    # Not through SQLAlchemy: the driver gives it bytes of a database without an encoding, and it fails at the first.
    with psycopg.connect(url) as connection:
        encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        fitting = "createdb --encoding=UTF8 --template=template0"
        raise NotUtf8(f"the encoding of the database is {encoding}, and Placet needs UTF8: {fitting}")


def _refuse_unknown(revision: str | None, config: Config) -> None:
    if revision == RESTORING:
        raise NotRestored("a restore of the database has not come to its end: run `placet restore … --replace` again")
    known = {each.revision for each in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in known:
        told = "a newer one migrated it, or one from before the first release, of which no migration leads here"
        raise UnknownDatabase(f"the database is at {revision}, which this release does not know: {told}")


def newest() -> str:
    """Return the newest revision that this code knows."""
    head = ScriptDirectory.from_config(configuration()).get_current_head()
    if head is None:
        raise RuntimeError("no migrations are shipped")
    return head


def _current(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection, opts={"version_table_schema": "public"}).get_current_revision()


def configuration() -> Config:
    """Return alembic's configuration, without an ini file."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.set_main_option("path_separator", "os")
    return config
