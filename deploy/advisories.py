"""Known weaknesses of what images and pages are made of, looked up without the network.

`python -m placet.deploy.advisories DATABASE` compares every lock file with a copy of the OSV database (https://osv.dev):
a folder of its JSON records, or its `all.zip` of the ecosystems PyPI and npm. Prints a line for each weakness; the exit
code is 1 where there is one, 2 where the database cannot be read or says nothing of either ecosystem.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from placet.contracts.errors import PlacetError

ROOT = Path(__file__).resolve().parents[1]
PYTHON, NODE = "PyPI", "npm"
#: What images, set-up and tests are made of.
PYTHON_LOCKS = ("requirements.lock", "requirements-test.lock", "deploy/sbom.lock", "deploy/frontend/node.lock")
NODE_LOCKS = ("deploy/frontend/package-lock.json", "tests/clients/package-lock.json")


@dataclass(frozen=True, order=True)
class Package:
    """One version of a package that a lock file names."""

    ecosystem: str
    name: str
    version: str


@dataclass(frozen=True, order=True)
class Weakness:
    """What an advisory says of a package that is used here."""

    package: Package
    id: str
    summary: str
    #: The first version without it; empty: none is known.
    fixed: str


class NoDatabase(PlacetError):
    """There is no copy of the database where one was named."""


def of_python(lock: str) -> set[Package]:
    """Return what a lock file of Python packages pins."""
    found = re.findall(r"(?m)^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)", lock)
    return {Package(PYTHON, canonicalize_name(name), version) for name, version in found}


def of_node(lock: str) -> set[Package]:
    """Return what a lock file of npm pins."""
    entries: Mapping[str, Any] = json.loads(lock)["packages"]
    return {
        Package(NODE, entry.get("name") or path.rpartition("node_modules/")[2], entry["version"])
        for path, entry in entries.items()
        if path and "version" in entry
    }


def weaknesses(packages: Iterable[Package], records: Iterable[Mapping[str, Any]]) -> list[Weakness]:
    """Return what the records of a database say of these packages; a version that nobody can read is affected."""
    used: dict[tuple[str, str], list[Package]] = {}
    for package in packages:
        used.setdefault((package.ecosystem, package.name), []).append(package)
    found = set()
    for record in records:
        if record.get("withdrawn"):
            continue
        for affected in record.get("affected", ()):
            ecosystem = affected.get("package", {}).get("ecosystem", "")
            name = affected.get("package", {}).get("name", "")
            name = canonicalize_name(name) if ecosystem == PYTHON else name
            for package in used.get((ecosystem, name), ()):
                if _affects(affected, package.version):
                    summary = record.get("summary") or record.get("details", "").partition("\n")[0]
                    found.add(Weakness(package, record["id"], summary[:120], _fixed(affected, package.version)))
    return sorted(found)


def _affects(affected: Mapping[str, Any], version: str) -> bool:
    if version in affected.get("versions", ()):
        return True
    return any(_within(events, version) for events in _ranges(affected))


def _ranges(affected: Mapping[str, Any]) -> list[Sequence[Mapping[str, str]]]:
    """Return the events of each range of versions; ranges of commits say nothing of what is pinned."""
    return [each["events"] for each in affected.get("ranges", ()) if each["type"] != "GIT"]


def _within(events: Sequence[Mapping[str, str]], version: str) -> bool:
    """Tell whether a version lies between an introduction and its end; OSV lists events in no order that counts."""
    try:
        here = Version(version)
        marks = sorted((Version(value), kind) for event in events for kind, value in event.items())
    except InvalidVersion:
        return True
    inside = False
    for mark, kind in marks:
        if kind == "introduced" and mark <= here:
            inside = True
        elif (kind == "fixed" and mark <= here) or (kind == "last_affected" and mark < here):
            inside = False
    return inside


def _fixed(affected: Mapping[str, Any], version: str) -> str:
    """Return the first version without a weakness that is newer than `version`, as far as versions can be read."""
    later = []
    for event in itertools.chain.from_iterable(_ranges(affected)):
        try:
            if "fixed" in event and Version(event["fixed"]) > Version(version):
                later.append((Version(event["fixed"]), event["fixed"]))
        except InvalidVersion:
            continue
    return min(later)[1] if later else ""


def records_of(database: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the records of a folder or an archive; raise NoDatabase where it is neither, or one cannot be read."""
    try:
        if database.is_dir():
            for path in sorted((*database.rglob("*.json"), *database.rglob("*.zip"))):
                if path.suffix == ".zip":
                    yield from records_of(path)
                else:
                    yield _record(path.read_bytes())
            return
        with zipfile.ZipFile(database) as archive:
            for name in archive.namelist():
                if name.endswith(".json"):
                    yield _record(archive.read(name))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise NoDatabase(f"{database}: {error}") from error


def _record(text: bytes) -> Mapping[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("a record is an object")  # noqa: TRY004 - as json says of what it cannot read
    return found


def packages_of(root: Path) -> set[Package]:
    """Return everything that the lock files of a checkout pin."""
    python = [of_python((root / name).read_text()) for name in PYTHON_LOCKS]
    return set().union(*python, *(of_node((root / name).read_text()) for name in NODE_LOCKS))


def main(arguments: Sequence[str]) -> int:
    """Print the weaknesses; return the exit code."""
    parser = argparse.ArgumentParser(description="Look up known weaknesses of every pinned package, offline.")
    parser.add_argument("database", type=Path, nargs="?", help="OSV records: a folder, or all.zip of an ecosystem")
    given: Path | None = parser.parse_args(arguments).database
    if given is None:
        sys.stderr.write("placet: name a copy of the OSV database: make advisories DATABASE=folder\n")
        return 2
    database, packages, seen = given, packages_of(ROOT), 0

    def counted() -> Iterator[Mapping[str, Any]]:
        nonlocal seen
        for record in records_of(database):
            ecosystems = {each.get("package", {}).get("ecosystem") for each in record.get("affected", ())}
            seen += bool(ecosystems & {PYTHON, NODE})
            yield record

    try:
        found = weaknesses(packages, counted())
    except NoDatabase as error:
        sys.stderr.write(f"placet: {error}\n")
        return 2
    if not seen:
        sys.stderr.write(f"placet: {database} has no record of {PYTHON} or {NODE}\n")
        return 2
    for each in found:
        fixed = f"fixed in {each.fixed}" if each.fixed else "no fixed version"
        sys.stdout.write(f"{each.package.name} {each.package.version}  {each.id}  {fixed}  {each.summary}\n")
    sys.stdout.write(f"{len(packages)} packages, {seen} records, {len(found)} weaknesses\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
