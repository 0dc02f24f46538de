"""How much of a change is beyond its diff where that is cut. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Lines at the head of a unified diff that name the file.
HEADERS = 2


def not_shown(change: Mapping[str, Any]) -> str:
    """Return how many lines a change adds and removes beyond its diff: `+3000 -2`; empty where that has them all."""
    if not change["cut"]:
        return ""
    lines = change["diff"].split("\n")[HEADERS:]
    added, removed = (
        change[name] - sum(line.startswith(sign) for line in lines) for name, sign in (("added", "+"), ("removed", "-"))
    )
    return f"+{added} -{removed}" if added or removed else ""
