"""Checking a rulebook without using it: what `placet rulebook check FILE` prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from placet.domain.directory import Directory
from placet.domain.trials import CheckReport
from placet.domain.yaml_source import Problem, RulebookInvalid, YamlSource, read_yaml
from placet.policy.rulebook.reading import declared, names_directory, rulebook_from
from placet.policy.rulebook.stage_checks import stage_notes


def check(path: Path | str) -> CheckReport:
    """Return what is wrong with the rulebook at `path`, and how much is in it. Never raises for a bad file."""
    return check_source(lambda: read_yaml(path), str(path))


def check_source(
    read: Callable[[], YamlSource], name: str, directory: Directory | None = None, *, unseen: str = ""
) -> CheckReport:
    """Return the same of what `read` reads and people know as `name`; with `directory` no other file is opened.

    `unseen` is noted, and nobody missed, where the text names a directory that its sender may not see.
    """
    try:
        source = read()
    except RulebookInvalid as error:
        return CheckReport(file=name, valid=False, problems=error.problems)
    notes: list[Problem] = []
    problems: list[Problem] = []
    try:
        hidden = bool(unseen) and names_directory(source)
        notes = stage_notes(source, rulebook_from(source, directory, lenient=hidden))
        notes = sorted([*notes, source.note_at(("directory",), unseen)]) if hidden else notes
    except RulebookInvalid as error:
        problems = error.problems
    return CheckReport(
        file=name,
        valid=not problems,
        digest=source.digest,
        tools=len(declared(source, "tools")),
        rules=len(declared(source, "rules")),
        problems=problems,
        notes=notes,
    )
