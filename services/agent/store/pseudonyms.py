"""SQL of pseudonyms: a conversation's table, which only grows."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import sqlalchemy as sa

from services.agent.pseudonyms import Entry
from services.agent.store.statements import CONVERSATIONS, given
from services.agent.tables import PseudonymRow
from shared.database import table_of
from shared.sql import Connection

_ROWS = table_of(PseudonymRow)
_COLUMNS = tuple(_ROWS.c[name] for name in Entry.__slots__)


async def load(connection: Connection, conversation_id: str) -> list[Entry]:
    """Return a conversation's pseudonyms in the order of their numbers."""
    found = await connection.execute(_LOAD, {"b_conversation_id": conversation_id})
    return [Entry(*row) for row in found]


async def keep(
    connection: Connection, tenant: str, conversation_id: str, entries: Iterable[Entry], *, known: int
) -> bool:
    """Store new pseudonyms in a transaction of their own; return whether they are stored.

    False: the table has no longer the `known` entries that the new ones were made from, and nothing was stored. The
    conversation's row is the lock, so that a number, a value and a pseudonym never mean two things.
    """
    place = {"b_conversation_id": conversation_id}
    await connection.execute(_LOCK, place)
    if known != (await connection.execute(_COUNT, place)).scalar_one():
        return False
    rows = [
        {
            "b_conversation_id": conversation_id,
            "b_value_sha256": _digest(entry.value),
            "b_pseudonym_sha256": _digest(entry.pseudonym),
            "b_tenant": tenant,
        }
        | {f"b_{name}": getattr(entry, name) for name in Entry.__slots__}
        for entry in entries
    ]
    await connection.execute(_KEEP, rows)
    return True


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


_LOAD = (
    sa.select(*_COLUMNS)
    .where(_ROWS.c.conversation_id == given("conversation_id"))
    .order_by(_ROWS.c.number, _ROWS.c.value_sha256)
)
_LOCK = (
    sa.select(CONVERSATIONS.c.conversation_id)
    .where(CONVERSATIONS.c.conversation_id == given("conversation_id"))
    .with_for_update()
)
_COUNT = sa.select(sa.func.count()).select_from(_ROWS).where(_ROWS.c.conversation_id == given("conversation_id"))
_KEEP = sa.insert(_ROWS).values(
    {column.name: given(column.name, column.type) for column in _ROWS.c if column.name != "made_at"}
)
