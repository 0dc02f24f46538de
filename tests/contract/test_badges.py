"""States on pages: each is drawn as a badge, and by nothing else that has its name."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from placet.contracts.transitions import Machine
from placet.deploy.docs import MACHINES

STYLES = Path(__file__).resolve().parents[2] / "services" / "gateway" / "web" / "static" / "app.css"


def states() -> set[str]:
    """Return every state of every machine."""
    modules = (import_module(f"placet.{service}.states") for service in MACHINES)
    machines = (each for module in modules for each in vars(module).values() if isinstance(each, Machine))
    return {
        str(state) for machine in machines for pair in machine.transitions.items() for state in (pair[0][0], pair[1])
    }


def test_no_class_of_a_page_is_the_name_of_a_state() -> None:
    """A badge has its state for a class: a rule for that class alone would draw what it is not about."""
    alone = set(re.findall(r"(?m)^\.([a-z_-]+)(?:::[a-z]+)?\s*[,{]", STYLES.read_text()))
    assert set() == alone & states()
