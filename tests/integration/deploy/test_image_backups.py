"""The image of the command line backs up and restores: from its own files, with the programs of its own packages."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from placet.embedded.local_postgres import LocalPostgres
from tests.conftest import migrate

ROOT = Path(__file__).parents[3]
RUN = """
import sys
sys.path[:] = [sys.argv[1], *(each for each in sys.path if each not in ("", sys.argv[2]))]
sys.meta_path[:] = [each for each in sys.meta_path if "editable" not in str(each).lower()]
import placet
assert placet.__file__.startswith(sys.argv[1])
sys.argv[1:3] = []
from placet.cli.main import main
main()
"""


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Lend the database of a server that is as new as the programs, in which nothing has happened."""
    server = LocalPostgres(tmp_path / "postgres")
    try:
        found = server.start()
        migrate(found)
        yield found
    finally:
        server.stop()


def placet(image: Path, url: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as its container does: no program of this machine is found."""
    environment = {**os.environ, "PLACET_DATABASE_URL": url, "PATH": "/nowhere"}
    command = [sys.executable, "-c", RUN, str(image), str(ROOT), *words]
    return subprocess.run(command, cwd=image, env=environment, capture_output=True, text=True, check=False)


def test_what_the_image_restores_is_marked_as_restored(url: str, tmp_path: Path) -> None:
    """So services know it, also where what it backed up was itself a volume that somebody had put back."""
    image, folder = tmp_path / "image", str(tmp_path / "monday")
    subprocess.run(["sh", "deploy/image.sh", "cli", str(image)], cwd=ROOT, check=True)
    made = placet(image, url, "backup", folder)
    assert (0, "") == (made.returncode, made.stderr)
    back = placet(image, url, "restore", folder, "--replace")
    assert (0, "") == (back.returncode, back.stderr)
    with psycopg.connect(url) as connection:
        assert [(1,)] == connection.execute("SELECT count(*) FROM gateway.restores").fetchall()
