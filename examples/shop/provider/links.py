"""The demo payment provider's links, in a SQLite file.

Owns the promise behind `Idempotency-Key`: one key makes one link, for every repeat, in every process and after every
restart. The key is the file's unique index, so the promise holds without anybody remembering anything in memory.
"""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

_SCHEMA = """
CREATE TABLE IF NOT EXISTS links (
    id TEXT PRIMARY KEY,
    idempotency_key TEXT NOT NULL UNIQUE,
    url TEXT NOT NULL,
    amount TEXT NOT NULL,
    currency TEXT NOT NULL,
    account TEXT,
    reference TEXT,
    note TEXT,
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
CREATE INDEX IF NOT EXISTS links_by_reference ON links (reference);
"""
_INSERT = """
INSERT INTO links (id, idempotency_key, url, amount, currency, account, reference, note)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (idempotency_key) DO NOTHING
"""
_BUSY_SECONDS = 10.0

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class LinkOrder(BaseModel):
    """What a link is to be for; `amount` in units of the currency, with at most two decimals."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    amount: Annotated[Decimal, Field(gt=0, max_digits=12, decimal_places=2)]
    currency: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]
    account: Name | None = None
    reference: Name | None = None
    note: Annotated[str, StringConstraints(max_length=2_000)] | None = None


class KeyUsedOtherwise(Exception):
    """The idempotency key has made a link for another order; nothing was made now."""


@dataclass(frozen=True, slots=True)
class Link:
    """One link as it is stored and answered; `amount` is text with two decimals, `created_at` ISO 8601 in UTC."""

    id: str
    url: str
    amount: str
    currency: str
    account: str | None
    reference: str | None
    note: str | None
    created_at: str

    def is_for(self, order: LinkOrder) -> bool:
        """Tell whether the order is the one that made this link."""
        ordered = (_two_decimals(order.amount), order.currency, order.account, order.reference, order.note)
        return ordered == (self.amount, self.currency, self.account, self.reference, self.note)


class Links:
    """The links in one file; every method may be called from any thread."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, check_same_thread=False, isolation_level=None)
        # A link that was answered must survive a power cut, not only a crash.
        self._connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;" + _SCHEMA)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def create(self, order: LinkOrder, *, key: str, new_id: str, url: str) -> tuple[Link, bool]:
        """Return the key's link and whether it was made just now; KeyUsedOtherwise for another order."""
        amount = _two_decimals(order.amount)
        row = (new_id, key, url, amount, order.currency, order.account, order.reference, order.note)
        with self._lock:
            made = self._connection.execute(_INSERT, row).rowcount == 1
        link = self._one("idempotency_key = ?", key)
        if link is None or not link.is_for(order):
            raise KeyUsedOtherwise
        return link, made

    def load(self, link_id: str) -> Link | None:
        """Return the link, None when there is no such link."""
        return self._one("id = ?", link_id)

    def find(self, reference: str) -> list[Link]:
        """Return the links made for a reference, oldest first."""
        return self._select("reference = ? ORDER BY rowid", reference)

    def find_made(self, key: str) -> list[Link]:
        """Return the link that an idempotency key has made, none where it has made none."""
        return self._select("idempotency_key = ?", key)

    def _one(self, condition: str, value: str) -> Link | None:
        found = self._select(condition, value)
        return found[0] if found else None

    def _select(self, condition: str, value: str) -> list[Link]:
        columns = ", ".join(Link.__slots__)
        with self._lock:
            rows: list[Any] = self._connection.execute(
                f"SELECT {columns} FROM links WHERE {condition}",  # noqa: S608  # both are constants of this file
                (value,),
            ).fetchall()
        return [Link(*row) for row in rows]


def _two_decimals(amount: Decimal) -> str:
    return f"{amount:.2f}"
