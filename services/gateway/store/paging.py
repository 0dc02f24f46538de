"""Where a page ended.

Keyset cursors: a page costs the same wherever it is, and rows never move between pages while somebody reads.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from datetime import datetime

from placet.contracts.canonical import NotStrictJson, canonical_text, parse_strictly

_ID = re.compile(r"^[A-Za-z0-9_-]{1,64}$")


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last row of a page: the next page begins after it, newest rows first."""

    at: datetime
    id: str


def encode_cursor(cursor: Cursor) -> str:
    """Return the opaque text of a cursor. It grants nothing: every page is looked up inside the caller's tenant."""
    text = canonical_text([cursor.at.isoformat(), cursor.id])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(text: str) -> Cursor:
    """Return the cursor of a text; raise ValueError for anything that `encode_cursor` did not make."""
    padded = text + "=" * (-len(text) % 4)
    try:
        match parse_strictly(base64.b64decode(padded, altchars=b"-_", validate=True)):
            case [str(at), str(row_id)] if _ID.fullmatch(row_id) and (moment := datetime.fromisoformat(at)).tzinfo:
                return Cursor(moment, row_id)
    except (ValueError, NotStrictJson) as error:
        raise ValueError("not a cursor of this list") from error
    raise ValueError("not a cursor of this list")
