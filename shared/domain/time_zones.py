"""Time zones: names that this machine knows, and distances from UTC."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_NAME = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*", re.ASCII)
_OFFSET = re.compile(r"[+-](?:0\d|1[0-4]):[0-5]\d", re.ASCII)


def is_zone(name: str) -> bool:
    """Tell whether this machine knows a time zone; no name at all is UTC. What leads to another file is none."""
    try:
        ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return not name or _NAME.fullmatch(name) is not None


def is_offset(text: str) -> bool:
    """Tell whether a text is a distance from UTC, such as `+02:00`."""
    return _OFFSET.fullmatch(text) is not None
