"""Pages of a list: `{items, next}`. One row more is asked for than shown, so that `next` is there only if needed."""

from __future__ import annotations

from collections.abc import Sequence

from placet.contracts.errors import Refused
from placet.gateway.http.paging import Cursor, decode_cursor, encode_cursor
from placet.gateway.store.read import Row


def cursor_of(text: str | None) -> Cursor | None:
    """Return the cursor that a client sent; raise Refused (400) where it is none."""
    try:
        return decode_cursor(text) if text is not None else None
    except ValueError as error:
        fault = {"detail": str(error), "parameter": "cursor"}
        raise Refused("The request is not valid.", status=400, kind="invalid-request", errors=[fault]) from error


def next_of(rows: Sequence[Row], limit: int, at: str, row_id: str) -> str | None:
    """Return the cursor after the last of `limit` rows, None where there are no more."""
    if len(rows) <= limit:
        return None
    last = rows[limit - 1]
    return encode_cursor(Cursor(last[at], last[row_id]))
