"""Which data folders `placet up` refuses, and what it says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from services.placet.cli.main import main
from services.placet.local_postgres import refuse_unfit
from tests.support.system import free_port


def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data: Path) -> str:
    """Run `placet up` on a data folder that it refuses; return what it says."""
    monkeypatch.setattr(sys, "argv", ["placet", "up", "--port", str(free_port()), "--data", str(data)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("name", ["my data", "it's", 'a"b', "a$b", "a,b", "a%b", "a+b", "a=b", "a;b", "a\\b", "(a)"])
def test_folder_that_postgresql_cannot_work_in_is_refused_before_it_is_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    """Its path would go through a shell and a URL unquoted; one line says which sign is in the way."""
    line = told(monkeypatch, capsys, tmp_path / name)
    assert (1, []) == (line.count("\n"), list(tmp_path.iterdir()))
    assert f"placet: PostgreSQL cannot work in {tmp_path / name}: " in line


@pytest.mark.parametrize("name", ["/srv/placet-1/.data", "/home/bü/日本", "/srv/a~b:c@d_e"])
def test_folder_with_letters_of_any_language_is_taken(name: str) -> None:
    """PostgreSQL starts in these."""
    refuse_unfit(Path(name))


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_data_that_is_a_file_is_said_to_be_no_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    """The one line does not name an error number."""
    (tmp_path / "file").touch()
    expected = f"placet: the data folder {tmp_path / name} is not a folder\n"
    assert expected == told(monkeypatch, capsys, tmp_path / name)
