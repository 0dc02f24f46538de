"""Imports what an image runs, with the packages of its lock file alone: `python -m tests.support.image_imports IMAGE`.

Packages that the lock file lacks are hidden from this interpreter first. Prints what was imported; a module that wants
a hidden package ends it with ModuleNotFoundError.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
#: What runs in the command line's image beside `placet.cli`: compose.yaml, and commands that import late.
PREPARING = (
    "placet.deploy.keys",
    "placet.deploy.migrations",
    "placet.deploy.migrations.metadata",
    "placet.deploy.postgres.prepare",
    "placet.deploy.rabbitmq.definitions",
    "placet.domain.channels",
    "placet.gateway.identity.bootstrap",
    "placet.notifier.channel_settings",
    "placet.policy.rules.cases",
    "placet.policy.rulebook.check",
    "placet.policy.rules.explain",
)


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


def modules_of(image: str) -> list[str]:
    """Return what an image runs."""
    package = f"placet.{image}"
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    inside = [each.name for each in pkgutil.walk_packages(spec.submodule_search_locations, f"{package}.")]
    return [package, *inside, *(PREPARING if image == "cli" else ())]


def main() -> None:
    """Import everything."""
    image = sys.argv[1]
    lines = (ROOT / "deploy" / "locks" / f"{image}.lock").read_text().splitlines()
    locked = {found[0].lower().replace("_", "-") for line in lines if (found := re.match(r"[A-Za-z0-9._-]+", line))}
    sys.meta_path.insert(0, Hidden(locked))
    for name in modules_of(image):
        importlib.import_module(name)
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
