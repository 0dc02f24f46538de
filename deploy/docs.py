"""Pages that are drawn from code: `python -m placet.deploy.docs` writes them, a contract test finds stale ones."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from placet.contracts.asyncapi import document
from placet.contracts.transitions import Machine

DOCS = Path(__file__).resolve().parent.parent / "docs"
#: Service -> what its machine describes.
MACHINES = {
    "agent": "A turn: what the agent does with a user's message.",
    "approval": "An approval: one held call that people decide, and an edit of its arguments.",
    "policy": "A grant: what a person allowed from now on.",
    "executor": "An execution: one permitted call.",
    "notifier": "A delivery: one card of one approval at one address.",
    "jobs": "A job, its tasks, and the attempts at them.",
    "dead_letters": "A dead letter: something that could not be handled.",
    "gateway": "The holder of a conversation: who answers in it.",
}
_WARNING = "<!-- Drawn from services/*/states.py by `make docs`; do not edit. -->"


def pages() -> dict[str, str]:
    """Return every generated page: file name under docs/ -> text."""
    asyncapi = json.dumps(document(), indent=2, ensure_ascii=False) + "\n"
    return {"states.md": states_page(), "asyncapi.json": asyncapi}


def states_page() -> str:
    """Return the page with a diagram and a table per machine."""
    parts = ["# States", _WARNING, _INTRODUCTION]
    for service, what in MACHINES.items():
        module = import_module(f"placet.{service}.states")
        found: list[Machine[Any, Any]] = [each for each in vars(module).values() if isinstance(each, Machine)]
        parts += [f"## {service}", what]
        for machine in found:
            parts += [f"### {machine.name}", _diagram(machine), _races(machine)]
    return "\n\n".join(parts) + "\n"


_INTRODUCTION = """\
Each machine is one table in `services/<service>/states.py`. A pair of state and event is an arrow below, an expected
race (no effect, still in the history), or an error that names machine, state and event. PostgreSQL holds the same
truth: a CHECK on the state, an UPDATE that names the state it comes from, a history row in the same transaction."""


def _diagram(machine: Machine[Any, Any]) -> str:
    arrows = [f"    [*] --> {machine.initial}"]
    arrows += [f"    {before} --> {after}: {event}" for (before, event), after in machine.transitions.items()]
    arrows += [f"    {state} --> [*]" for state in sorted(machine.final)]
    return "\n".join(["```mermaid", "stateDiagram-v2", *arrows, "```"])


def _races(machine: Machine[Any, Any]) -> str:
    if not machine.races:
        return "No races are expected."
    rows = [f"| {state} | {event} |" for state, event in sorted(machine.races)]
    return "\n".join(["Expected races:", "", "| in state | comes too late |", "|---|---|", *rows])


def main() -> None:
    """Write every page that has changed."""
    for name, text in pages().items():
        path = DOCS / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            sys.stdout.write(f"wrote docs/{name}\n")


if __name__ == "__main__":
    main()
