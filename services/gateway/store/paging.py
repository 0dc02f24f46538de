"""Where a page ended.

Keyset cursors: a page costs the same wherever it is, and rows never move between pages while somebody reads.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from placet.contracts.canonical import NotStrictJson, canonical_text, parse_strictly
from placet.gateway.texts import storable_moment

#: Rows that a list asks for at most: those of the largest page, and one more. Statements say it as a constant: by a
#: limit among the values the planner thinks a tenth of all rows, and sorts these instead of walking an index.
ROWS_MAX = 201
#: What is said of a text that is no cursor.
NO_CURSOR = "not a cursor of this list"
_ID = re.compile(r"^[A-Za-z0-9_-]{1,64}$")


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last row of a page: the next page begins after it, newest rows first."""

    at: datetime
    id: str


def encode_cursor(cursor: Cursor) -> str:
    """Return the opaque text of a cursor. It grants nothing: every page is looked up inside the caller's tenant."""
    return opaque([cursor.at.isoformat(), cursor.id])


def decode_cursor(text: str) -> Cursor:
    """Return the cursor of a text; raise ValueError for anything that `encode_cursor` did not make."""
    try:
        match read_opaque(text):
            case [str(at), str(row_id)] if _ID.fullmatch(row_id) and (moment := datetime.fromisoformat(at)).tzinfo:
                return Cursor(storable_moment(moment), row_id)
    except ValueError as error:
        raise ValueError(NO_CURSOR) from error
    raise ValueError(NO_CURSOR)


def opaque(place: list[Any]) -> str:
    """Return a place in a list, JSON values, as the opaque text of a cursor."""
    return base64.urlsafe_b64encode(canonical_text(place).encode()).decode().rstrip("=")


def read_opaque(text: str) -> Any:
    """Return what `opaque` made a text of, or any other JSON; raise ValueError for what is none."""
    padded = text + "=" * (-len(text) % 4)
    try:
        return parse_strictly(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, NotStrictJson) as error:
        raise ValueError(NO_CURSOR) from error
