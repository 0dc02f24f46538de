"""`docs/features.md` is true: it names tests that exist, and speaks of every row once."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "features.md").read_text()
#: Rows of each group of the mission; group G is one row.
SIZES = {"A": 9, "B": 6, "C": 6, "D": 8, "E": 5, "F": 3}
ROWS = [*(f"{group}{number}" for group, size in SIZES.items() for number in range(1, size + 1)), "G"]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ROW = re.compile(r"(?m)^\| ([A-G]\d*) \|[^|]+\| ([^|]+) \|(.*)\|$")


@cache
def functions_of(path: str) -> frozenset[str]:
    """Return the names of the functions of a file; none where there is no file."""
    file = ROOT / path
    tree = ast.parse(file.read_text()) if file.exists() else ast.Module([], [])
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize(("path", "name"), sorted(set(NAMED.findall(PAGE))))
def test_a_named_test_exists(path: str, name: str) -> None:
    """Whoever follows a row to its proof finds it."""
    assert name.startswith("test_")
    assert name in functions_of(path)


def test_every_row_of_the_mission_is_there_once() -> None:
    """No row is left out, none is told twice."""
    assert ROWS == [row for row, _, _ in ROW.findall(PAGE)]


@pytest.mark.parametrize(("row", "state", "proof"), ROW.findall(PAGE))
def test_a_state_says_what_it_must(row: str, state: str, proof: str) -> None:
    """What works is proved, what works partly is proved and says what is missing, what does not work claims nothing."""
    word, _, missing = state.partition(":")
    expected = {"works": (True, False), "partly": (True, True), "not yet": (False, bool(missing))}
    assert (row, expected.get(word)) == (row, (bool(NAMED.search(proof)), bool(missing)))


def test_the_repository_has_the_shape_that_was_asked_for() -> None:
    """F2: the libraries are declared, and the top level is where people look for things."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = sum(project["optional-dependencies"].values(), project["dependencies"])
    wanted = ("faststream[rabbit]", "aio-pika", "litellm", "sqlmodel", "psycopg", "structlog")
    assert [] == [library for library in wanted if not any(each.startswith(library) for each in declared)]
    places = ("services", "shared", "deploy", "tests", "pyproject.toml", "compose.yaml")
    assert [] == [place for place in places if not (ROOT / place).exists()]
