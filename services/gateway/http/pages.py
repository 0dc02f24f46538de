"""Pages of a list: `{items, next}`. One row more is asked for than shown, so that `next` is there only if needed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Generic, TypeVar

from pydantic import BaseModel, Field

from placet.contracts.errors import Refused
from placet.gateway.http.errors import invalid_request
from placet.gateway.store.paging import Cursor, decode_cursor, encode_cursor
from placet.gateway.store.read import Row

T = TypeVar("T")

#: A number that PostgreSQL's bigint holds.
_PLACE = re.compile(r"[0-9]{1,18}")


class Page(BaseModel, Generic[T]):
    """One page of a list."""

    items: list[T]
    next: str | None = Field(default=None, description="Cursor of the next page; null on the last.")


def cursor_of(text: str | None) -> Cursor | None:
    """Return the cursor that a client sent; raise Refused (400) where it is none."""
    try:
        return decode_cursor(text) if text is not None else None
    except ValueError as error:
        raise no_cursor(str(error)) from error


def place_of(text: str | None) -> int | None:
    """Return the place that a client's cursor names, of a list whose rows are numbered; raise Refused (400)."""
    cursor = cursor_of(text)
    if cursor is not None and not _PLACE.fullmatch(cursor.id):
        raise no_cursor("not a cursor of this list")
    return int(cursor.id) if cursor else None


def no_cursor(why: str) -> Refused:
    """Return what a client is told whose cursor is none of a list."""
    return invalid_request(why, parameter="cursor")


def next_of(rows: Sequence[Row], limit: int, at: str, row_id: str) -> str | None:
    """Return the cursor after the last of `limit` rows, None where there are no more."""
    if len(rows) <= limit:
        return None
    last = rows[limit - 1]
    return encode_cursor(Cursor(last[at], last[row_id]))
