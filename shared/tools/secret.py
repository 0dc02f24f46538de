"""Secrets of tools: from the environment of the executor, or from a file that it names."""

from __future__ import annotations

import os
from pathlib import Path

from placet.contracts.errors import PlacetError


class SecretMissing(PlacetError):
    """The executor has no such secret; asked for in `open_resources`, it stops the start with this one line."""


def secret(name: str) -> str:
    """Return the secret in the variable `name`, or in the file that `<name>_FILE` names, without a line's end.

    Names that begin with `PLACET_` are Placet's own. Raises SecretMissing.
    """
    if value := os.environ.get(name):
        return value
    if path := os.environ.get(f"{name}_FILE"):
        try:
            return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise SecretMissing(f"the secret {name} cannot be read: {error}") from error
    raise SecretMissing(f"the secret {name} is missing: set {name}, or {name}_FILE to a file that has it")
