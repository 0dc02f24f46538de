"""What PostgreSQL's programs are told, and where."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from placet.cli.backup.programs import ProgramFailed, dump

#: Writes down its arguments and the file of services that it was given.
TELLS = '#!/bin/sh\nprintf "%s\\n" "$@" > "$TOLD.arguments"\ncat "$PGSERVICEFILE" > "$TOLD.services"\n'


def test_no_secret_of_a_url_is_an_argument_of_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody on the machine can read those: a key's secret is in a file that goes with the program."""
    program = tmp_path / "pg_dump"
    program.write_text(TELLS)
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    url = "postgresql://placet:hunter2@db/placet?sslkey=/key.pem&sslpassword=hunter3"
    dump(url, tmp_path / "dump", "1", own=False)
    arguments, services = ((tmp_path / f"told.{each}").read_text() for each in ("arguments", "services"))
    assert (False, True, "[placet]\nsslpassword=hunter3\n") == (
        "hunter" in arguments,
        "/key.pem" in arguments,
        services,
    )


def test_a_service_beside_a_secret_is_refused(tmp_path: Path) -> None:
    """The file that has the one would hide the other."""
    with pytest.raises(ProgramFailed, match="write sslpassword into its file"):
        dump("postgresql:///placet?service=mine&sslpassword=hunter3", tmp_path / "dump", "1", own=False)
