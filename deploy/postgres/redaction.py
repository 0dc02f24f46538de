"""How commands tell why a database cannot be asked."""

from __future__ import annotations

import psycopg

from placet.runtime.urls import UNREADABLE


def told_error(error: BaseException) -> str:
    """Return one line of what went wrong at a database; of a URL that libpq cannot read nothing is quoted.

    libpq quotes what it stumbles over, which may be a password with a character that has to be escaped.
    """
    found = getattr(error, "orig", None) or error
    if isinstance(found, psycopg.ProgrammingError) and not found.sqlstate:
        return UNREADABLE
    return (str(found) or type(found).__name__).splitlines()[0]
