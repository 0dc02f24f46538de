"""JSON pointers (RFC 6901)."""

from __future__ import annotations

from collections.abc import Iterable


def pointer(steps: Iterable[str | int]) -> str:
    """Return the pointer along a path of keys and indexes."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
