"""How commands tell why a database cannot be asked."""

from __future__ import annotations

import psycopg

from placet.runtime.urls import UNREADABLE


def redacted_error(error: BaseException) -> str:
    """Return one line of what went wrong at a database; of a URL that libpq cannot read nothing is quoted.

    libpq quotes what it stumbles over, which may be a part of a password with a character that has to be escaped.
    """
    found = getattr(error, "orig", None) or error
    line = (str(found) or type(found).__name__).splitlines()[0]
    unasked = isinstance(found, psycopg.Error) and not found.sqlstate
    unread = unasked and (isinstance(found, psycopg.ProgrammingError) or quotes_url(line))
    return UNREADABLE if unread else line


def quotes_url(line: str) -> bool:
    """Tell whether a line of libpq's has a piece of a URL where it expected a host or a port."""
    return "@" in line or "invalid integer value" in line
