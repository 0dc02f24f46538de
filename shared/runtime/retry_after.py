"""How long others ask to be left alone: the header `Retry-After` of HTTP (RFC 9110, 10.2.3)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_SECONDS = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,15})?")


def asked_seconds(header: str, now: datetime) -> float | None:
    """Return the seconds that a header asks for, which are a number or until a moment; None for neither.

    Numbers with a fraction or a sign are no HTTP, but in use.
    """
    words = header.strip()
    if _SECONDS.fullmatch(words):
        return max(float(words), 0.0)
    try:
        then = parsedate_to_datetime(words)
    except (ValueError, OverflowError):
        return None
    return max((then.replace(tzinfo=then.tzinfo or UTC) - now).total_seconds(), 0.0)
