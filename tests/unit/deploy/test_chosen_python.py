"""Which Python the set-up takes where a machine has several."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "deploy" / "python.sh"


def _python(folder: Path, name: str, answer: str) -> None:
    """Put a Python on the path that answers what it is asked with a line of the shell."""
    file = folder / name
    file.write_text(f"#!/bin/sh\n{answer}\n")
    file.chmod(0o755)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("echo 10", "echo 1", "python3.12"),
        ("echo 10", "echo 9", "python3.11"),
        ("exit 1", "echo 1", "python3.12"),
        ("echo nothing of use >&2; exit 1", "echo 1", "python3.12"),
    ],
    ids=["much faster", "hardly faster", "too old", "broken"],
)
def test_the_first_is_taken_unless_another_is_much_faster(
    tmp_path: Path, first: str, second: str, expected: str
) -> None:
    """The first that can be used is taken, but a later one where it needs less than four fifths of the time."""
    _python(tmp_path, "python3.11", first)
    _python(tmp_path, "python3.12", second)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    told = subprocess.run([SCRIPT], env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert (str(tmp_path / expected), "") == (told.stdout.strip(), told.stderr)
