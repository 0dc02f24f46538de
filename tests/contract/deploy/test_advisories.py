"""Advisories are looked up without a network: which versions they mean, and what cannot be read is never "none"."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from placet.deploy import advisories
from placet.deploy.advisories import NODE, PYTHON, Package, Weakness, of_node, of_python, packages_of, weaknesses

ROOT = Path(__file__).parents[3]


def record(*events: dict[str, str], name: str = "Some_Thing", ecosystem: str = PYTHON, **more: Any) -> dict[str, Any]:
    """Return an advisory for a range of versions."""
    affected = {
        "package": {"ecosystem": ecosystem, "name": name},
        "ranges": [{"type": "ECOSYSTEM" if ecosystem == PYTHON else "SEMVER", "events": list(events)}],
    }
    return {"id": "OSV-1", "summary": "It leaks.", "affected": [affected]} | more


INTRODUCED, FIXED = {"introduced": "0"}, {"fixed": "1.10.2"}


@pytest.mark.parametrize(
    ("version", "events", "affected"),
    [
        ("1.9", (INTRODUCED, FIXED), True),
        ("1.10.2", (INTRODUCED, FIXED), False),
        ("1.10.2rc1", (FIXED, INTRODUCED), True),
        ("2.0", ({"introduced": "2.0"}, {"last_affected": "2.1"}), True),
        ("2.1", ({"introduced": "2.0"}, {"last_affected": "2.1"}), True),
        ("2.2", ({"introduced": "2.0"}, {"last_affected": "2.1"}), False),
        ("1.5", (INTRODUCED, {"fixed": "1.0"}, {"introduced": "2.0"}, {"fixed": "2.3"}), False),
        ("2.2", (INTRODUCED, {"fixed": "1.0"}, {"introduced": "2.0"}, {"fixed": "2.3"}), True),
        ("not-a-version", (INTRODUCED, FIXED), True),
    ],
)
def test_a_range_has_a_beginning_and_an_end(
    version: str, events: tuple[dict[str, str], ...], *, affected: bool
) -> None:
    """As OSV defines it; what nobody can compare counts as affected."""
    package = Package(PYTHON, "some-thing", version)
    assert affected == bool(weaknesses([package], [record(*events)]))


def test_a_weakness_says_which_version_is_free_of_it() -> None:
    """By the next one that is newer; names are compared as the ecosystem does."""
    package = Package(PYTHON, "some-thing", "1.9")
    assert [Weakness(package, "OSV-1", "It leaks.", "1.10.2")] == weaknesses([package], [record(INTRODUCED, FIXED)])


def test_what_is_withdrawn_or_of_others_is_none() -> None:
    """Another package, another ecosystem, a record that was taken back."""
    package = Package(PYTHON, "some-thing", "1.9")
    records = [
        record(INTRODUCED, name="other"),
        record(INTRODUCED, name="some-thing", ecosystem=NODE),
        record(INTRODUCED, withdrawn="2026-01-01T00:00:00Z"),
    ]
    assert [] == weaknesses([package], records)


def test_versions_that_are_listed_are_meant() -> None:
    """Where a record names versions one by one and has no range."""
    listed = {"package": {"ecosystem": PYTHON, "name": "some-thing"}, "versions": ["1.8", "1.9"]}
    entry = {"id": "OSV-2", "details": "Long.\nLonger.", "affected": [listed]}
    found = weaknesses([Package(PYTHON, "some-thing", version) for version in ("1.9", "1.10")], [entry])
    assert [("1.9", "Long.", "")] == [(each.package.version, each.summary, each.fixed) for each in found]


def test_lock_files_are_read_as_their_tools_write_them() -> None:
    """Extras and markers of pip; scopes and nested packages of npm."""
    python = 'psycopg[binary]==3.2.1 \\\n    --hash=sha256:0\ntomli==2.0 ; python_version < "3.11" \\\n'
    node = {
        "packages": {
            "": {"version": "0"},
            "node_modules/@a/b": {"version": "1"},
            "node_modules/c/node_modules/d": {"version": "2"},
        }
    }
    assert {Package(PYTHON, "psycopg", "3.2.1"), Package(PYTHON, "tomli", "2.0")} == of_python(python)
    assert {Package(NODE, "@a/b", "1"), Package(NODE, "d", "2")} == of_node(json.dumps(node))


def test_every_pinned_package_is_looked_up() -> None:
    """Of images, pages, set-up and tests."""
    names = {(package.ecosystem, package.name) for package in packages_of(ROOT)}
    assert {(PYTHON, "aio-pika"), (PYTHON, "cyclonedx-bom"), (PYTHON, "pytest"), (NODE, "htmx.org")} <= names


@pytest.mark.parametrize("archived", [True, False], ids=["archive", "folder"])
def test_a_database_is_a_folder_or_an_archive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, archived: bool
) -> None:
    """A weakness of what is pinned is a line, and 1."""
    text = json.dumps(record({"introduced": "0"}, name="htmx.org", ecosystem=NODE))
    if archived:
        with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
            archive.writestr("OSV-1.json", text)
    else:
        (tmp_path / "OSV-1.json").write_text(text)
    code = advisories.main([str(tmp_path)])
    line = capsys.readouterr().out.splitlines()[0]
    assert (1, True) == (code, line.startswith("htmx.org ") and line.endswith("OSV-1  no fixed version  It leaks."))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("nothing", None, "no record of PyPI or npm"),
        ("broken.json", "{", "Expecting"),
        ("list.json", "[]", "a record is an object"),
        ("broken.zip", "no archive", "File is not a zip file"),
        ("other.json", json.dumps(record(INTRODUCED, ecosystem="Go")), "no record of PyPI or npm"),
    ],
)
def test_a_database_that_says_nothing_is_not_good_news(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str | None, said: str
) -> None:
    """Empty, damaged, or of other ecosystems: 2, and one line."""
    if text is not None:
        (tmp_path / name).write_text(text)
    code = advisories.main([str(tmp_path)])
    assert (2, True) == (code, said in capsys.readouterr().err)


def test_no_database_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    """`make advisories` alone says what it wants, and no usage of a program that nobody called."""
    code = advisories.main([])
    line = "placet: name a copy of the OSV database: make advisories DATABASE=folder\n"
    assert (2, line) == (code, capsys.readouterr().err)
