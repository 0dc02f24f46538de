"""Check the subjects of new commits: `area: imperative`, at most 72 characters. `python -m placet.deploy.commits`.

New are those that `origin/main` lacks; without one, the newest ten.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

SUBJECT_MAX = 72
_WITHOUT_ORIGIN = 10
#: Areas that are no folder and no module; and where those whose names are areas are.
_MORE_AREAS = frozenset({"build", "git"})
_NAMING = frozenset({"services", "shared", "deploy", "bench"})
_SUBJECT = re.compile(r"[a-z][a-z0-9_,/-]*: [a-z][^ ]*( \S+)*[^.\s]")
#: First words that are no imperative, by their ends; a verb that looks like one stands below.
_NOT_IMPERATIVE = re.compile(r"\w+(ed|ing|s)")
_IMPERATIVE = frozenset(
    {"address", "bring", "bypass", "compress", "discuss", "embed", "exceed", "express", "feed", "focus", "need", "pass"}
    | {
        "process",
        "proceed",
        "seed",
        "shed",
        "speed",
        "spring",
        "stress",
        "string",
        "suppress",
        "swing",
        "toss",
        "wring",
    }
)


def problems(subjects: Iterable[str], areas: Collection[str]) -> list[str]:
    """Return what is wrong with subjects, one line for each that is."""
    return [f"{subject!r}: {why}" for subject in subjects if (why := _problem(subject, areas))]


def areas_of(files: Iterable[str]) -> set[str]:
    """Return what may be named as an area in a repository of these files: what stands at its top, and what is code."""
    areas = set(_MORE_AREAS)
    for file in map(PurePosixPath, files):
        named = file.parts if file.parts[0] in _NAMING else file.parts[:1]
        areas |= {part.lstrip(".").split(".")[0].lower() for part in named}
    return areas


def _problem(subject: str, areas: Collection[str]) -> str:
    if len(subject) > SUBJECT_MAX:
        return f"{len(subject)} characters, at most {SUBJECT_MAX}"
    if not _SUBJECT.fullmatch(subject):
        return "write `area: imperative`, in lower case and without a full stop"
    area, _, order = subject.partition(": ")
    if unknown := [each for each in re.split("[,/]", area) if each.replace("-", "_") not in areas]:
        return f"{unknown[0]!r} is no area: name a service, a package, a module, or what stands at the top"
    verb = order.split(" ", 1)[0]
    if _NOT_IMPERATIVE.fullmatch(verb) and verb not in _IMPERATIVE:
        return f"{verb!r} is no imperative: say what the commit does, as an order"
    return ""


def _git(*arguments: str) -> str:
    command = ("git", *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603 - our own words


def new_subjects() -> list[str]:
    """Return the subjects of new commits but merges; none where this is no repository."""
    known = _git("rev-parse", "--verify", "--quiet", "origin/main")
    chosen = ("origin/main..HEAD",) if known else (f"--max-count={_WITHOUT_ORIGIN}",)
    return _git("log", "--no-merges", "--format=%s", *chosen).splitlines()


if __name__ == "__main__":
    if found := problems(new_subjects(), areas_of(_git("ls-files").splitlines())):
        raise SystemExit("\n".join(found))
    sys.exit(0)
