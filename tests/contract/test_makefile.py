"""The front door: what `make` says to somebody who has just arrived."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def make(*arguments: str, directory: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run make without changing anything in this checkout, as if from a person's shell."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )


def test_help_lists_every_command() -> None:
    """Plain `make` names each phony target with a word on what it does."""
    targets = set(re.findall(r"(?m)^\.PHONY: (\S+)$", (ROOT / "Makefile").read_text()))
    listed = set(re.findall(r"(?m)^  make (\S+) +\S", make().stdout))
    assert targets == listed


def test_port_and_folder_reach_the_command() -> None:
    """`make up PORT=… DATA=…` passes both on."""
    said = make("--dry-run", "up", "PORT=8123", "DATA=my data").stdout
    assert 'placet up --port "8123" --data "my data"' in said


def test_a_missing_python_is_said_in_one_line(tmp_path: Path) -> None:
    """Without a new enough Python, set-up says what to install or name, and makes nothing."""
    (tmp_path / "Makefile").symlink_to(ROOT / "Makefile")
    for lock in ("requirements.lock", "pyproject.toml"):
        (tmp_path / lock).touch()
    done = make("setup", "PYTHON=/nonexistent/python", directory=tmp_path)
    said = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
    assert done.returncode
    assert [line for line in said if "Python 3.11 or newer is needed" in line] == said
    assert not (tmp_path / ".venv").exists()
