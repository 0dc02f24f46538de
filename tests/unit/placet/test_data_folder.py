"""Which data folders `placet up` refuses, and what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from placet.contracts.errors import PlacetError
from placet.embedded.local_postgres import refuse_unfit
from tests.support.ports import free_port
from tests.support.system import ROOT


def told(data: Path) -> str:
    """Run `placet up` on a data folder that it refuses, in a process of its own; return what it says."""
    command = [sys.executable, "-m", "placet.cli", "up", "--port", str(free_port()), "--data", str(data)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (2, "") == (ended.returncode, ended.stdout)
    return ended.stderr


def test_folder_that_postgresql_cannot_work_in_is_refused_before_it_is_made(tmp_path: Path) -> None:
    """One line says which sign is in the way."""
    data = tmp_path / "my data"
    expected = f"placet: PostgreSQL cannot work in {data}: ' ' must not be in the path; choose another with --data\n"
    assert (expected, []) == (told(data), list(tmp_path.iterdir()))


@pytest.mark.parametrize("name", ["it's", 'a"b', "a$b", "a,b", "a%b", "a+b", "a=b", "a;b", "a\\b", "(a)"])
def test_folder_whose_name_a_shell_or_a_url_reads_otherwise_is_refused(name: str) -> None:
    """The path goes through both unquoted."""
    with pytest.raises(PlacetError, match="PostgreSQL cannot work in"):
        refuse_unfit(Path("/srv") / name)


@pytest.mark.parametrize("name", ["/srv/placet-1/.data", "/home/bü/日本", "/srv/a~b:c@d_e"])
def test_folder_with_letters_of_any_language_is_taken(name: str) -> None:
    """PostgreSQL starts in these."""
    refuse_unfit(Path(name))


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_data_that_is_a_file_is_said_to_be_no_folder(tmp_path: Path, name: str) -> None:
    """The one line does not name an error number."""
    (tmp_path / "file").touch()
    expected = f"placet: the data folder {tmp_path / name} is not a folder\n"
    assert expected == told(tmp_path / name)
