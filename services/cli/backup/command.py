"""The commands: find the database, run PostgreSQL's programs on it, and settle what was restored."""

from __future__ import annotations

import json as jsonlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.output import Json, fail, out, progress, show_json, tell

if TYPE_CHECKING:
    import psycopg

Folder = Annotated[Path, typer.Argument(help="Folder of the backup.")]
Data = Annotated[Path | None, typer.Option(help="Data folder of `placet up`: back up or restore that one.")]
_DUMP, _ABOUT, _KEYS = "database.dump", "backup.json", "keys"


def backup(folder: Folder, *, data: Data = None, json: Json = False) -> None:
    """Write all of the database into a new folder, while everything runs.

    Of `placet up` with --data, its signing keys too; else the database at PLACET_DATABASE_URL.
    """
    import psycopg

    from placet.cli.backup import programs
    from placet.contracts.errors import PlacetError
    from placet.deploy.migrations import newest
    from placet.deploy.postgres.redaction import redacted_error

    if folder.exists():
        fail(f"{folder} is there already: name a new folder", code=2)
    part = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    try:
        with progress("dumping", quiet=json), _source(data) as url:
            with psycopg.connect(url) as connection:
                # Looked at and dumped as it is at one moment: a restore may begin in between.
                connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                found = connection.execute("SELECT version_num FROM public.alembic_version").fetchone()
                if found is None or found[0] != newest():
                    fail("the database is of another release: back it up with that one, or migrate first")
                part.mkdir(parents=True, mode=0o700)
                programs.dump(url, part / _DUMP, _snapshot_of(connection), own=data is not None)
            (part / _DUMP).chmod(0o600)
            if data is not None:
                shutil.copytree(data / _KEYS, part / _KEYS)
            about = {"made_at": datetime.now(UTC).isoformat(timespec="seconds"), "schema": newest()}
            (part / _ABOUT).write_text(jsonlib.dumps(about) + "\n")
            part.rename(folder)
    except (PlacetError, psycopg.Error, OSError) as error:
        shutil.rmtree(part, ignore_errors=True)
        fail(redacted_error(error))
    size = (folder / _DUMP).stat().st_size
    tell({**about, "folder": str(folder), "bytes": size}, f"backed up into {folder} ({size:,} bytes)", json=json)


def _snapshot_of(connection: psycopg.Connection) -> str:
    """Return the name of what a transaction sees; another one can see the same as long as it goes on."""
    (name,) = connection.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
    return str(name)


def restore(
    folder: Folder,
    *,
    data: Data = None,
    replace: Annotated[bool, typer.Option("--replace", help="Throw away what is there now.")] = False,
    json: Json = False,
) -> None:
    """Bring a backup back, with every service stopped, so that nothing runs twice.

    Permits, decisions and messages from before the restore count no more. Calls that wait for people wait for all of
    them again; what else was unfinished ends as `unknown`.
    """
    import psycopg

    from placet.cli.backup import programs
    from placet.cli.backup.settling import settle
    from placet.contracts.errors import PlacetError
    from placet.deploy.migrations import migrate, newest
    from placet.deploy.postgres.redaction import redacted_error

    try:
        about = jsonlib.loads((folder / _ABOUT).read_text())
        if data is not None and not (folder / _KEYS).is_dir():
            fail(f"{folder} has no signing keys, so it is of a database alone: PLACET_DATABASE_URL says where it goes")
        if about["schema"] != newest():
            fail(f"the backup is of another release, at {about['schema']}: restore it with that one, then migrate")
        with progress("restoring", quiet=json), _target(folder, data, replace=replace) as (url, gone):
            programs.check(folder / _DUMP, own=data is not None)
            _empty(url, replace=replace)
            programs.load(url, folder / _DUMP, own=data is not None)
            with psycopg.connect(url) as connection:
                settled = settle(connection, about["schema"])
            migrate(url)
    except (PlacetError, psycopg.Error, OSError, ValueError, LookupError) as error:
        fail(redacted_error(error))
    told = {"restored_at": settled.restored_at, "backup_at": settled.backup_at, "calls": settled.calls}
    told["keys_taken_back"] = gone
    if json:
        show_json(told)
        return
    # Of a house in which nothing has happened yet there is no moment.
    as_of = f" as of {settled.backup_at:%Y-%m-%d %H:%M:%S %Z}" if settled.backup_at.timestamp() else ""
    out.print(f"restored{as_of}")
    for what, count in settled.calls.items():
        out.print(f"  {count} calls {_WORDS[what]}")
    for kid in gone:
        out.print(f"  the signing key {kid} was taken back since, and stays so")
    out.print("  whoever was erased since is there again: erase them anew (placet person erase ID)")


_WORDS = {
    "lost": "were running: their executors end them, as unknown where no probe tells",
    "unknown": "were let through, or about to be: unknown, to be resolved by a person",
    "untold": "had no verdict yet: their conversations are told that nobody knows what became of them",
    "told": "had ended, and their conversations are told so",
    "failed": "had been refused, and their conversations are told so",
    "staged": "were to run with a commit: as those that were running",
}


def _url() -> str:
    url = os.environ.get("PLACET_DATABASE_URL")
    if not url:
        fail("PLACET_DATABASE_URL must name the database, as its owner; or --data the folder of `placet up`", code=2)
    return url


@contextmanager
def _source(data: Path | None) -> Iterator[str]:
    """Lend the URL of the database to back up; the embedded one is started where it does not run."""
    if data is None:
        yield _url()
        return
    from placet.contracts.errors import PlacetError
    from placet.embedded.local_postgres import LocalPostgres, running_url
    from placet.embedded.system import locked

    if not (data / "postgres").is_dir():
        raise PlacetError(f"{data} is no data folder of `placet up`")
    if url := running_url(data.resolve() / "postgres"):
        yield url
        return
    with locked(data):
        server = LocalPostgres(data.resolve() / "postgres")
        try:
            yield server.start()
        finally:
            server.stop()


@contextmanager
def _target(folder: Path, data: Path | None, *, replace: bool) -> Iterator[tuple[str, list[str]]]:
    """Lend the URL of the database to restore into; with what is restored into the embedded one come its keys.

    Beside it a list, which has the ids of the keys that stay taken back, once all is over.
    """
    gone: list[str] = []
    if data is None:
        yield _url(), gone
        return
    from placet.contracts.errors import PlacetError
    from placet.contracts.signing import public_keys
    from placet.deploy.keys import bring
    from placet.embedded.local_postgres import LocalPostgres, refuse_unfit
    from placet.embedded.system import locked

    refuse_unfit(data.resolve())
    # What cannot be read is said before anything goes.
    for keys in (folder, data):
        public_keys(keys / _KEYS)
    with locked(data):
        if (data / "postgres").is_dir() and not replace:
            raise PlacetError(f"{data} has a database: --replace throws it away")
        server = LocalPostgres(data.resolve() / "postgres")
        try:
            yield server.start(), gone
            gone += bring(folder / _KEYS, data / _KEYS)
        finally:
            server.stop()


def _empty(url: str, *, replace: bool) -> None:
    """Make room for the backup; raise PlacetError where somebody is connected, or something is there that must stay."""
    import psycopg
    from psycopg import sql

    from placet.cli.backup.settling import begin
    from placet.contracts.errors import PlacetError
    from placet.contracts.topology import SERVICES

    ours = [*SERVICES, "read", "tools"]
    with psycopg.connect(url) as connection:
        others = connection.execute(
            "SELECT count(*), min(application_name) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        ).fetchone()
        if others and others[0]:
            raise PlacetError(f"{others[0]} connections use the database ({others[1]}): stop every service first")
        there = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname = ANY (%s)", [ours]).fetchall()
        if there and not replace:
            raise PlacetError("the database is not empty: restore into a new one, or --replace throws it away")
        for (name,) in there:
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))
        begin(connection)
