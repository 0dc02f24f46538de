"""Feeds: each conversation's items, numbered without gaps.

Appending locks each conversation first, in order, and numbers in a second statement: that one sees everything the
lock's former holder committed, so numbers have no gaps and no source makes two items.
Statements are built once: building one costs more than running it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from pydantic_core import to_json
from sqlalchemy.dialects import postgresql as pg

from services.gateway.feed import Item, Place
from services.gateway.store.conversations import Opening, lock_for_appending, open_conversations
from services.gateway.tables import ConversationRow, FeedRow
from shared.database import table_of
from shared.sql import Connection

_CONVERSATIONS = table_of(ConversationRow)
_FEED = table_of(FeedRow)
_COLUMNS = [_FEED.c[name] for name in ("tenant", "conversation_id", "seq", "type", "at", "data")]


@dataclass(frozen=True, slots=True)
class StoredItem:
    """One feed item with its number."""

    tenant: str
    conversation_id: str
    seq: int
    type: str
    at: datetime
    data: dict[str, Any]

    @property
    def place(self) -> Place:
        """The key of its conversation."""
        return self.tenant, self.conversation_id

    def as_wire(self) -> dict[str, Any]:
        """Return the form that gateways tell each other: {id, type, at, data}."""
        return {"id": self.seq, "type": self.type, "at": self.at.isoformat(), "data": self.data}


def _quotes_statement() -> sa.Select[Any]:
    """Return what the agent said beside each of these approvals, as it was told when they were opened."""
    names = ("tenant", "conversation_id", "approval_id")
    arrays = [sa.bindparam(f"{name}s", type_=pg.ARRAY(pg.TEXT)) for name in names]
    wanted = sa.func.unnest(*arrays).table_valued(*names, name="wanted").render_derived()
    told = _FEED.alias("told")
    here = sa.and_(
        told.c.tenant == wanted.c.tenant,
        told.c.conversation_id == wanted.c.conversation_id,
        told.c.type == sa.literal_column("'approval'"),
        _text_of(told, "approval_id") == wanted.c.approval_id,
        told.c.data.has_key("quote"),
    )
    return sa.select(wanted.c.approval_id, _text_of(told, "quote").label("quote")).join_from(wanted, told, here)


def _text_of(feed: Any, name: str) -> sa.ColumnElement[str]:
    """Return a text of an item's data, written as the indexes have it."""
    return sa.literal_column(f"({feed.name}.data ->> '{name}')", sa.Text)


def _add_statement() -> sa.Insert:
    """Leave out known sources, raise each conversation's number once, insert the rest numbered: one round trip."""
    names = ("tenant", "conversation_id", "type", "data", "source_id")
    arrays = [sa.bindparam(f"{name}_values", type_=pg.ARRAY(pg.TEXT)) for name in names]
    table = sa.func.unnest(*arrays).table_valued(*names, with_ordinality="position", name="incoming")
    incoming = table.render_derived()
    known = sa.exists().where(
        _FEED.c.tenant == incoming.c.tenant,
        _FEED.c.conversation_id == incoming.c.conversation_id,
        _FEED.c.source_id == incoming.c.source_id,
    )
    place = (incoming.c.tenant, incoming.c.conversation_id)
    number = sa.func.row_number().over(partition_by=place, order_by=incoming.c.position).label("number")
    fresh = sa.select(incoming, number).where(~known).cte("fresh")
    raised = _raise_numbers(fresh)
    here = sa.and_(raised.c.tenant == fresh.c.tenant, raised.c.conversation_id == fresh.c.conversation_id)
    numbered = sa.select(
        fresh.c.tenant,
        fresh.c.conversation_id,
        raised.c.base + fresh.c.number,
        fresh.c.type,
        sa.cast(fresh.c.data, pg.JSONB),
        fresh.c.source_id,
    ).join_from(fresh, raised, here)
    columns = ["tenant", "conversation_id", "seq", "type", "data", "source_id"]
    c = _FEED.c
    return (
        sa.insert(_FEED).from_select(columns, numbered).returning(c.tenant, c.conversation_id, c.source_id, c.seq, c.at)
    )


def _raise_numbers(fresh: sa.CTE) -> sa.CTE:
    """Raise each conversation's number by its new items; `base` is the number before."""
    counts = sa.select(fresh.c.tenant, fresh.c.conversation_id, sa.func.count().label("count"))
    grown = counts.group_by(fresh.c.tenant, fresh.c.conversation_id).cte("grown")
    c = _CONVERSATIONS.c
    return (
        sa.update(_CONVERSATIONS)
        .where(c.tenant == grown.c.tenant, c.conversation_id == grown.c.conversation_id)
        .values(feed_seq=c.feed_seq + grown.c.count)
        .returning(c.tenant, c.conversation_id, (c.feed_seq - grown.c.count).label("base"))
        .cte("raised")
    )


_ADD = _add_statement()
_QUOTES = _quotes_statement()
_FIND = sa.select(*_COLUMNS).where(
    _FEED.c.tenant == sa.bindparam("tenant"),
    _FEED.c.conversation_id == sa.bindparam("conversation_id"),
    _FEED.c.source_id == sa.bindparam("source_id"),
)


async def append(connection: Connection, items: Sequence[Item], openings: Sequence[Opening] = ()) -> list[StoredItem]:
    """Store `items` with their numbers and return those that are new; conversations nobody opened are opened.

    What people write in a conversation that has ended is left out, as the agent leaves it out: whoever asked over HTTP
    was refused, and what was posted there in time is here already.
    """
    told = {each.place: each for each in openings}
    wanted = dict.fromkeys([*(item.place for item in items), *told])
    known = await lock_for_appending(connection, wanted)
    missing = [told.get(place) or Opening(*place) for place in wanted if place not in known]
    missing += [each for place, each in told.items() if each.agent and place in known and known[place].agent is None]
    if missing:
        await open_conversations(connection, missing)
    ended = {place for place, each in known.items() if each.ended_at is not None}
    items = [item for item in items if not (item.asks and item.place in ended)]
    return await add_items(connection, items)


async def add_items(connection: Connection, items: Sequence[Item]) -> list[StoredItem]:
    """Give each item whose source is new the next number of its conversation; return those, in order.

    The caller holds the lock of every conversation in `items`.
    """
    unique = {(*item.place, item.source_id): item for item in reversed(items)}
    rows = (await connection.execute(_ADD, _values(list(reversed(unique.values()))))).all()
    stored = [_stored(unique[row[0], row[1], row[2]], row[3], row[4]) for row in rows]
    return sorted(stored, key=lambda item: (item.tenant, item.conversation_id, item.seq))


def _values(items: Sequence[Item]) -> dict[str, list[str]]:
    return {
        "tenant_values": [item.tenant for item in items],
        "conversation_id_values": [item.conversation_id for item in items],
        "type_values": [item.type for item in items],
        "data_values": [to_json(item.data).decode() for item in items],
        "source_id_values": [item.source_id for item in items],
    }


def _stored(item: Item, seq: int, at: datetime) -> StoredItem:
    return StoredItem(item.tenant, item.conversation_id, seq, item.type, at, item.data)


async def load_feed(
    connection: Connection, tenant: str, conversation_id: str, after: int, limit: int
) -> list[StoredItem]:
    """Return the items of a conversation after the number `after`, oldest first."""
    c = _FEED.c
    statement = (
        sa.select(*_COLUMNS)
        .where(c.tenant == tenant, c.conversation_id == conversation_id, c.seq > after)
        .order_by(c.seq)
        .limit(limit)
    )
    return [StoredItem(*row) for row in await connection.execute(statement)]


async def load_item_time(connection: Connection, tenant: str, conversation_id: str, number: int) -> datetime | None:
    """Return when an item was kept; None where there is none of the number."""
    c = _FEED.c
    here = sa.select(c.at).where(c.tenant == tenant, c.conversation_id == conversation_id, c.seq == number)
    return (await connection.execute(here)).scalar_one_or_none()


async def load_quotes(connection: Connection, approvals: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return by approval id what the agent said beside these approvals, given as rows, where it said anything."""
    names = ("tenant", "conversation_id", "approval_id")
    values = {f"{name}s": [row[name] for row in approvals] for name in names}
    found = await connection.execute(_QUOTES, values) if approvals else ()
    return {row.approval_id: row.quote for row in found}


async def load_messages(
    connection: Connection, tenant: str, conversation_id: str, up_to: int, limit: int
) -> list[StoredItem]:
    """Return the newest messages of a conversation up to the number `up_to`, oldest first."""
    c = _FEED.c
    statement = (
        sa.select(*_COLUMNS)
        .where(c.tenant == tenant, c.conversation_id == conversation_id, c.seq <= up_to, c.type == "message")
        .order_by(c.seq.desc())
        .limit(limit)
    )
    return [StoredItem(*row) for row in reversed((await connection.execute(statement)).all())]


async def find_item(connection: Connection, tenant: str, conversation_id: str, source_id: str) -> StoredItem | None:
    """Return the item that a source made."""
    values = {"tenant": tenant, "conversation_id": conversation_id, "source_id": source_id}
    row = (await connection.execute(_FIND, values)).one_or_none()
    return StoredItem(*row) if row else None


@dataclass(frozen=True, slots=True)
class Card:
    """An approval's card as a conversation's feed shows it."""

    #: Of the arguments that it shows.
    digest: str
    #: Whether the model has said anything since, that is shown.
    spoken_since: bool


async def load_card(connection: Connection, tenant: str, conversation_id: str, approval_id: str) -> Card | None:
    """Return how the feed shows an approval; None where it does not yet."""
    values = {"tenant": tenant, "conversation_id": conversation_id, "approval_id": approval_id}
    row = (await connection.execute(_CARD, values)).one_or_none()
    return None if row is None else Card(row.digest, row.spoken_since)


def _card_statement() -> Any:
    shown, said = _FEED.alias("shown"), _FEED.alias("said")
    here = [shown.c.tenant == sa.bindparam("tenant"), shown.c.conversation_id == sa.bindparam("conversation_id")]
    later = sa.exists().where(
        said.c.tenant == shown.c.tenant,
        said.c.conversation_id == shown.c.conversation_id,
        said.c.seq > shown.c.seq,
        said.c.type == "message",
        _text_of(said, "role") == "assistant",
        _text_of(said, "text") != "",
        ~said.c.data.has_key("while_waiting"),
        # The words that came with the call may arrive after its card; later ones of its turn answer somebody.
        sa.or_(
            _text_of(said, "turn_id").is_distinct_from(_text_of(shown, "turn_id")),
            said.c.data.has_key("heard_meanwhile"),
        ),
    )
    # Written out as the index has it.
    approval: sa.ColumnElement[str] = sa.literal_column("'approval'")
    of_it = _text_of(shown, "approval_id") == sa.bindparam("approval_id")
    return (
        sa.select(_text_of(shown, "digest").label("digest"), later.label("spoken_since"))
        .where(*here, shown.c.type == approval, of_it, _text_of(shown, "digest").is_not(None))
        .order_by(shown.c.seq.desc())
        .limit(1)
    )


_CARD = _card_statement()
