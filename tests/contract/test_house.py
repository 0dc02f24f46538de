"""Rules of the house that no linter knows: anatomy, sizes, and the few calls that have one door."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from placet.contracts.topology import SERVICES
from tests.conftest import EMBEDDED

ROOT = Path(__file__).parent.parent.parent
#: Migrations are a record of what happened to the database, not code that somebody reads for its own sake.
PRODUCT = sorted(
    path
    for folder in ("shared", "services", "deploy")
    for path in (ROOT / folder).rglob("*.py")
    if path.parent.name != "versions" and "node_modules" not in path.parts
)
#: Longest function and file, in lines. A file that wants more is two ideas.
FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 400
#: One file for whoever gets a receipt, however many ideas: they have nothing else of Placet's.
LONGER = {"shared/contracts/receipts.py": 540}
#: Rules and states: decisions that look at nothing but what they are given.
PURE = [path for path in PRODUCT if path.name in {"rules.py", "states.py"} or path.parent.name == "rules"]
ANATOMY = ("__init__.py", "__main__.py", "handlers.py", "service.py", "settings.py", "views.py")


def name_of(path: Path) -> str:
    """Return a path as a test's id."""
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def calls_of(path: Path, method: str) -> list[int]:
    """Return the lines of a file that call `….<method>(…)`."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method
    ]


@pytest.mark.parametrize("path", PRODUCT, ids=name_of)
def test_files_and_functions_stay_small(path: Path) -> None:
    """No file is longer than 400 lines, but for one with a reason, and no function longer than 60."""
    long = [node.name for node in functions(path) if (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES_MAX]
    most = LONGER.get(name_of(path), FILE_LINES_MAX)
    assert ([], True) == (long, len(path.read_text().splitlines()) <= most)


def test_publishing_has_one_door() -> None:
    """Only the outbox and the buses publish; a handler hands its messages over."""
    doors = {"shared/runtime/outbox.py", "shared/runtime/rabbit.py", "shared/runtime/in_process.py"}
    found = {name_of(path) for path in PRODUCT if calls_of(path, "publish")}
    assert found <= doors


def test_committing_has_one_door() -> None:
    """No service commits by itself: the end of a database transaction does. Set-up, before any service runs, may."""
    doors = {"deploy/migrations/__init__.py", "shared/runtime/database.py"}
    found = {name_of(path) for path in PRODUCT if calls_of(path, "commit")}
    assert found <= doors


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_has_the_same_rooms(service: str) -> None:
    """Whoever knows one service finds the way in all of them."""
    folder = ROOT / "services" / service
    assert [] == [name for name in ANATOMY if not (folder / name).exists()]


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_begins_with_its_charter(service: str) -> None:
    """`__init__.py` says what the service owns, consumes, emits and promises."""
    text = (ROOT / "services" / service / "__init__.py").read_text().lower()
    assert [] == [word for word in ("owns", "consumes", "emits", "promises") if word not in text]


def test_rules_are_found_wherever_they_are() -> None:
    """A service's rules are a file, or a folder of files where they grew."""
    found = {str(path.parent.relative_to(ROOT)) for path in PURE}
    assert {"services/agent", "services/approval/rules", "services/policy/rules"} <= found


@pytest.mark.parametrize("path", PURE, ids=name_of)
def test_rules_and_states_are_synchronous(path: Path) -> None:
    """Pure code awaits nothing."""
    assert [] == [node.name for node in functions(path) if isinstance(node, ast.AsyncFunctionDef)]


@pytest.mark.parametrize("path", PURE, ids=name_of)
def test_rules_and_states_look_at_no_clock(path: Path) -> None:
    """Time is an argument, so that a decision can be made again and tested at any moment."""
    clocks = ("now", "utcnow", "today", "monotonic")
    assert [] == [line for clock in clocks for line in calls_of(path, clock)]


def test_names_that_mean_nothing_are_not_used() -> None:
    """No file is called utils, helpers, common, manager or base."""
    banned = {"utils", "helpers", "common", "manager", "base"}
    assert [] == [name_of(path) for path in PRODUCT if path.stem in banned]


def test_files_that_start_an_embedded_placet_are_spread_over_workers() -> None:
    """They share no system, so none has to wait for the tests that do."""
    files = (ROOT / "tests" / "e2e").glob("test_*.py")
    assert sorted(EMBEDDED) == sorted(path.name for path in files if re.search(r"\bEmbedded\b", path.read_text()))
