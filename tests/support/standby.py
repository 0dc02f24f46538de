"""A standby of a system's database: it has what the first one confirms, and takes over when that is gone."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import psycopg

from placet.embedded.local_postgres import LocalPostgres
from tests.support.ground import Ground
from tests.support.system import until

_NAME = "standby"
_STATE = "SELECT sync_state FROM pg_stat_replication WHERE application_name = %s"


@asynccontextmanager
async def a_standby(ground: Ground) -> AsyncIterator[LocalPostgres]:
    """Run a synchronous standby: what the database has confirmed is there, too, from here on."""
    folder = ground.disk.parent / _NAME
    await asyncio.to_thread(_copy, ground, folder)
    standby = LocalPostgres(folder)
    try:
        await asyncio.to_thread(standby.start)
        # Only now: what the copy has of the settings must not make it wait for a standby of its own.
        await asyncio.to_thread(
            ground.execute, f"ALTER SYSTEM SET synchronous_standby_names = '{_NAME}'", "SELECT pg_reload_conf()"
        )

        async def synchronous() -> bool:
            return await asyncio.to_thread(_state, ground) == "sync"

        await until(synchronous, "the standby has all that is confirmed")
        yield standby
    finally:
        await asyncio.to_thread(standby.stop)


async def take_over(ground: Ground, standby: LocalPostgres) -> str:
    """End the database as a power cut would, and have its standby take its place; return where that is.

    Connections that are made from now on lead there; nobody starts the old one again.
    """
    os.kill(ground.postmaster(), signal.SIGKILL)
    url = await asyncio.to_thread(standby.start)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_promote()")
    ground.system.database_url, ground.postgres, ground.disk = url, standby, ground.disk.parent / _NAME
    return url


def _copy(ground: Ground, folder: Path) -> None:
    process = psutil.Process(ground.postmaster())
    owner, program = process.username(), str(Path(process.exe()).with_name("pg_basebackup"))
    folder.mkdir(mode=0o700)
    shutil.chown(folder, owner)
    url = f"{ground.system.database_url}&application_name={_NAME}"
    command = [program, "--pgdata", str(folder), "--dbname", url, "--write-recovery-conf", "--checkpoint=fast"]
    user = owner if os.geteuid() == 0 else None
    done = subprocess.run(command, user=user, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"pg_basebackup: {done.stderr}"
    # Of the one that runs there.
    for each in (*folder.glob(".s.PGSQL.*"), folder / "log"):
        each.unlink(missing_ok=True)


def _state(ground: Ground) -> str:
    with psycopg.connect(ground.system.database_url, autocommit=True) as connection:
        row = connection.execute(_STATE, (_NAME,)).fetchone()
    return str(row[0]) if row else ""
