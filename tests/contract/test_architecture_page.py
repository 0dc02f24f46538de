"""docs/architecture.md leads a newcomer through one held call; every file and name on that way is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from placet.contracts.topology import SERVICES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
#: (file, function, class or Class.method) in the order of the page.
STEPS = re.findall(r"`((?:services|shared)/[\w/]+\.py)` `([\w.]+)`", PAGE)


def names_in(path: Path) -> set[str]:
    """Return what a module defines: functions, classes, and methods as Class.method."""
    defined = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    top = [node for node in ast.parse(path.read_text()).body if isinstance(node, defined)]
    classes = [node for node in top if isinstance(node, ast.ClassDef)]
    members = {f"{node.name}.{each.name}" for node in classes for each in node.body if isinstance(each, defined)}
    return {node.name for node in top} | members


@pytest.mark.parametrize(("file", "name"), STEPS)
def test_a_step_of_the_way_is_there(file: str, name: str) -> None:
    """A file or function that was renamed is renamed on the page too."""
    assert name in names_in(ROOT / file)


def test_the_way_passes_every_service_of_a_held_call() -> None:
    """From the gateway and back to it."""
    passed = {file.split("/")[1] for file, _ in STEPS if file.startswith("services/")}
    assert {"gateway", "agent", "policy", "approval", "notifier", "executor"} == passed


def test_each_picture_shows_every_service() -> None:
    """On the way of messages dead letters have no place: they are what left it."""
    messages, floors = (set(re.findall(r"\w+", each)) for each in re.findall(r"(?s)```mermaid\n(.*?)```", PAGE))
    assert ({"dead_letters"}, set()) == (set(SERVICES) - messages, set(SERVICES) - floors)
