"""The lock files: everything pinned by hash, and no address of anybody's mirror."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON_LOCKS = ("requirements.lock", "requirements-test.lock", "deploy/frontend/node.lock")
NPM_LOCK = "deploy/frontend/package-lock.json"


def requirements(name: str) -> dict[str, str]:
    """Read a lock file: requirement line -> its block."""
    blocks = re.split(r"(?m)^(?=[A-Za-z0-9])", (ROOT / name).read_text())[1:]
    return {block.partition(" \\")[0]: block for block in blocks}


@pytest.mark.parametrize("name", PYTHON_LOCKS)
def test_each_python_package_is_pinned_by_hash(name: str) -> None:
    """Every requirement has one exact version and at least one SHA-256."""
    locked = requirements(name)
    loose = [line for line, block in locked.items() if "==" not in line or "--hash=sha256:" not in block]
    assert locked
    assert not loose


@pytest.mark.parametrize("name", [*PYTHON_LOCKS, NPM_LOCK])
def test_no_lock_file_names_an_address(name: str) -> None:
    """No index, mirror, link or path of the machine that wrote it."""
    found = re.findall(r"https?://\S+|--index-url|--find-links|file:\S+|^\s*#.*\s/\S+", (ROOT / name).read_text())
    assert not found


def test_each_browser_library_is_pinned_by_integrity() -> None:
    """Each library is checked against a SHA-512, wherever npm gets it from."""
    packages = json.loads((ROOT / NPM_LOCK).read_text())["packages"]
    libraries = {name: package for name, package in packages.items() if name}
    assert libraries
    assert all(package["integrity"].startswith("sha512-") for package in libraries.values())


def test_test_tools_agree_with_the_runtime() -> None:
    """A package that both lock files pin has the same version in both."""
    runtime, tests = (dict(line.split("==", 1) for line in requirements(name)) for name in PYTHON_LOCKS[:2])
    shared = runtime.keys() & tests.keys()
    assert shared
    assert {name: runtime[name].split()[0] for name in shared} == {name: tests[name].split()[0] for name in shared}
