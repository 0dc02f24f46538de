"""What happens on a machine without a program that tests need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.programs import MissingProgramError, Program, ensure


def a_program(path: Path) -> Program:
    """Return a program that would lie at `path`."""
    return Program("Thing", (str(path),), ("thing", "thing-tools"))


def appears(path: Path) -> None:
    """Put an executable at `path`."""
    path.touch()
    path.chmod(0o755)


def test_a_program_that_is_there_is_not_installed_again(tmp_path: Path) -> None:
    """Nothing is run when the program is found."""
    appears(tmp_path / "thing")
    commands: list[Sequence[str]] = []

    def run(command: Sequence[str]) -> bool:
        commands.append(command)
        return True

    assert tmp_path / "thing" == ensure(a_program(tmp_path / "thing"), run)
    assert not commands


def test_a_stale_package_list_is_refreshed_once(tmp_path: Path) -> None:
    """When installing fails, the package list is updated and installing tried once more."""
    commands: list[str] = []

    def run(command: Sequence[str]) -> bool:
        commands.append(command[1])
        if "update" in commands and command[1] == "install":
            appears(tmp_path / "thing")
            return True
        return False

    ensure(a_program(tmp_path / "thing"), run)
    expected = ["install", "update", "install"]
    assert expected == commands


def test_without_root_the_packages_are_named(tmp_path: Path) -> None:
    """A person who may not install is told in one line which packages to ask for."""
    with pytest.raises(MissingProgramError, match=r"apt-get install thing thing-tools\)$"):
        ensure(a_program(tmp_path / "thing"), None)
