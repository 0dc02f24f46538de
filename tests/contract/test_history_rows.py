"""Whatever services write into the history is about a machine that there is, in one of its states."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from placet.contracts.transitions import Machine
from placet.runtime.work import Change

ROOT = Path(__file__).parent.parent.parent
SERVICES = ROOT / "services"
#: What the history tells of without a machine, why, and the states that it is in.
NO_MACHINE: Mapping[str, frozenset[str]] = {
    # Begins and ends, each by one statement that names what it ends; nothing comes between.
    "session": frozenset({"open", "ended"}),
    "stop": frozenset({"active", "resumed"}),
    # Nothing moves: who asked for it, and not for whom.
    "erasure": frozenset({"asked"}),
    "api-key": frozenset({"active", "revoked"}),
    # A conversation's: another takes its place, or none.
    "token": frozenset({"good", "none"}),
    # Nothing moves: a rule's limits had no room for a call.
    "limit": frozenset({"passed_over"}),
    # Nothing moves: a call was asked again while this one waits, or in its veto window.
    "watched_call": frozenset({"waiting", "denied"}),
    # Nothing moves: people's yes was handed on by the rules of that moment, or was not.
    "approved_call": frozenset({"permitted", "refused"}),
    # Nothing moves: verdicts have rows of their own, and the history has those that deny.
    "verdict": frozenset({"deny"}),
}
NAMES = [field.name for field in fields(Change)]


@dataclass(frozen=True)
class Written:
    """A place in the code that makes a row of the history."""

    module: ModuleType
    place: str
    #: What is given for each field of Change, as far as it is written out.
    given: Mapping[str, ast.expr]

    @property
    def machine(self) -> Machine[Any, Any] | str:
        """The machine that the row names, or the text that stands for one."""
        match self.given.get("machine"):
            case ast.Constant(value=str(text)):
                return text
            case ast.Attribute(value=ast.Name(id=name), attr="name"):
                found = getattr(self.module, name, None)
                if isinstance(found, Machine):
                    return found
        pytest.fail(f"{self.place}: the machine is neither a text nor `SOME_MACHINE.name`")

    @property
    def states(self) -> set[str]:
        """The states that are written out as texts; others are members of a StrEnum, which mypy checks."""
        given = (self.given.get(name) for name in ("from_state", "to_state"))
        return {each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def written() -> Iterator[Written]:
    """Yield every place in the services that makes a row."""
    for path in sorted(SERVICES.rglob("*.py")):
        text = path.read_text()
        if "Change(" not in text or "placet.runtime.work" not in text:
            continue
        module = import_module(
            ".".join(("placet", *path.relative_to(SERVICES).with_suffix("").parts)).removesuffix(".__init__")
        )
        if getattr(module, "Change", None) is not Change:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Change":
                plain = takewhile(lambda each: not isinstance(each, ast.Starred), node.args)
                named = {word.arg: word.value for word in node.keywords if word.arg}
                given = dict(zip(NAMES, plain, strict=False)) | named
                yield Written(module, f"{path.relative_to(ROOT)}:{node.lineno}", given)


WRITTEN = list(written())


@pytest.mark.parametrize("row", WRITTEN, ids=lambda row: row.place)
def test_a_row_of_the_history_is_about_a_machine_in_one_of_its_states(row: Written) -> None:
    """States of a machine are never spelled out, so a row cannot name one that its table does not have."""
    machine = row.machine
    assert row.states <= (frozenset() if isinstance(machine, Machine) else NO_MACHINE[machine])


def test_what_has_no_machine_is_written_somewhere() -> None:
    """The list of exceptions has nothing that is gone, and the rows of every service with a machine are looked at."""
    about = {row.machine for row in WRITTEN if isinstance(row.machine, str)}
    services = {row.module.__name__.split(".")[1] for row in WRITTEN}
    assert (set(NO_MACHINE), {path.parent.name for path in SERVICES.glob("*/states.py")}) == (about, services)
