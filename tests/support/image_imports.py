"""Imports what an image runs, from its own files: `python -m tests.support.image_imports IMAGE FOLDER`.

FOLDER is what `deploy/image.sh IMAGE FOLDER` made; this checkout, and the packages that the image's lock file lacks,
are hidden first. Prints what was imported; a module that wants something hidden ends it with ModuleNotFoundError.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
#: Run by alembic, with a context of its own.
SCRIPT = "placet.deploy.migrations.env"


class Hidden(MetaPathFinder):
    """Finds no package that is not among `kept`."""

    def __init__(self, kept: set[str]) -> None:
        self._distributions = {
            name: {re.sub(r"[-_.]+", "-", each).lower() for each in owners}
            for name, owners in packages_distributions().items()
        }
        self._kept = kept

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Refuse a hidden package; leave every other module to those who find it."""
        del path, target
        owners = self._distributions.get(fullname.partition(".")[0])
        if owners is not None and "placet" not in owners and owners.isdisjoint(self._kept):
            raise ModuleNotFoundError(f"{fullname} is in none of the image's packages", name=fullname)


def files_of(folder: Path) -> dict[str, Path]:
    """Return the modules of an image, by name: through the links of its package `placet`."""
    found = {}
    for package in (each for each in (folder / "placet").iterdir() if each.is_dir()):
        for file in package.resolve().rglob("*.py"):
            inside = file.relative_to(package.resolve()).with_suffix("").parts
            name = ".".join(("placet", package.name, *(inside[:-1] if inside[-1] == "__init__" else inside)))
            found[name] = file
    return found


def imports_of(file: Path) -> Iterator[tuple[str, str]]:
    """Yield what a module imports of Placet, inside of functions too: a module, and what of it, empty for all of it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if each.name.startswith("placet."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("placet."):
            yield from ((str(node.module), each.name) for each in node.names)


def missing(folder: Path) -> list[str]:
    """Return the modules of Placet that some module of an image imports, and that it has not."""
    there = files_of(folder)
    return sorted({module for file in there.values() for module, _ in imports_of(file)} - {*there})


def take(module: str, name: str) -> None:
    """Import as `from module import name` does."""
    found = importlib.import_module(module)
    if name and not hasattr(found, name):
        importlib.import_module(f"{module}.{name}")


def main() -> None:
    """Import what the image runs: its service and its deploy steps, and what these import late."""
    image, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    lines = (ROOT / "deploy" / "locks" / f"{image}.lock").read_text().splitlines()
    locked = {found[0].lower().replace("_", "-") for line in lines if (found := re.match(r"[A-Za-z0-9._-]+", line))}
    sys.path[:] = [str(folder), *(each for each in sys.path if Path(each).resolve() != ROOT)]
    sys.meta_path[:] = [Hidden(locked), *(each for each in sys.meta_path if "editable" not in str(each).lower())]
    there = files_of(folder)
    for name in sorted(there):
        if name.startswith((f"placet.{image}", "placet.deploy")) and name != SCRIPT:
            for module, of_it in ((name, ""), *imports_of(there[name])):
                take(module, of_it)
    sys.stdout.writelines(f"{name}\n" for name in sorted(sys.modules) if name.startswith("placet"))


if __name__ == "__main__":
    main()
