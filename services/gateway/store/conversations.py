"""Conversations: opened over HTTP, or by the first message of a frontend that speaks AMQP.

Statements that a call runs often are built once: building one costs more than running it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from services.gateway.feed import Place
from services.gateway.holder import Held
from services.gateway.states import State
from services.gateway.tables import ConversationRow, FeedRow
from shared.database import table_of
from shared.sql import Connection

_CONVERSATIONS = table_of(ConversationRow)
_COLUMNS = [
    _CONVERSATIONS.c[name]
    for name in (
        "tenant",
        "conversation_id",
        "agent",
        "language",
        "labels",
        "visitor",
        "feed_seq",
        "created_at",
        "created_by",
        "opener_decides",
        "ended_at",
        "holder",
        "holder_revision",
        "operator",
        "answered_seq",
        "told_seq",
    )
]

#: Characters of a first message that a list shows.
TITLE_MAX = 80


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation as it is stored."""

    tenant: str
    conversation_id: str
    agent: str | None
    language: str
    labels: dict[str, str]
    visitor: str | None
    feed_seq: int
    created_at: datetime
    created_by: str
    #: Whether the key that opened it may decide too.
    opener_decides: bool = False
    #: Set: nobody writes here any more.
    ended_at: datetime | None = None
    #: Who answers, how often that has changed, and the operator who does.
    holder: str = State.AGENT
    holder_revision: int = 0
    operator: str = ""
    #: Number of the newest item that an operator had seen when they last answered.
    answered_seq: int = 0
    #: Up to which feed item clients were told that ask for what is new; None where none has asked yet.
    told_seq: int | None = None

    @property
    def held(self) -> Held:
        """Who answers here now."""
        return Held(State(self.holder), self.holder_revision, self.operator)


class Appendable(NamedTuple):
    """What appending to a feed asks of its conversation."""

    agent: str | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Recent:
    """One conversation in a list."""

    conversation_id: str
    created_at: datetime
    #: How its first message begins; None where nobody has written yet.
    title: str | None


@dataclass(frozen=True, slots=True)
class Opening:
    """What is known of a conversation when it begins."""

    tenant: str
    conversation_id: str
    agent: str | None = None
    language: str = "en"
    labels: dict[str, str] | None = None
    visitor: str | None = None
    token_hash: str | None = None
    created_by: str = ""
    opener_decides: bool = False

    @property
    def place(self) -> Place:
        """The conversation's key."""
        return self.tenant, self.conversation_id


def _open_statement() -> pg.Insert:
    insert = pg.insert(_CONVERSATIONS)
    told = {name: insert.excluded[name] for name in ("agent", "language", "labels", "created_by", "opener_decides")}
    known_now = sa.and_(_CONVERSATIONS.c.agent.is_(None), insert.excluded.agent.is_not(None))
    key = [_CONVERSATIONS.c.tenant, _CONVERSATIONS.c.conversation_id]
    return insert.on_conflict_do_update(index_elements=key, set_=told, where=known_now)


def places_table() -> sa.TableValuedAlias:
    """Return conversations' keys as a table of a statement that is run with `values_of` them."""
    arrays = [sa.bindparam(name, type_=pg.ARRAY(pg.TEXT)) for name in ("tenants", "conversation_ids")]
    table = sa.func.unnest(*arrays).table_valued("tenant", "conversation_id", name="wanted")
    return table.render_derived()


def values_of(places: Iterable[Place]) -> dict[str, list[str]]:
    """Return the parameters that `places_table` reads."""
    found = list(places)
    return {"tenants": [tenant for tenant, _ in found], "conversation_ids": [each for _, each in found]}


def _lock_statement(*columns: sa.Column[Any]) -> sa.Select[Any]:
    c, wanted = _CONVERSATIONS.c, places_table()
    here = sa.and_(c.tenant == wanted.c.tenant, c.conversation_id == wanted.c.conversation_id)
    found = sa.select(*columns).join_from(wanted, _CONVERSATIONS, here)
    return found.order_by(c.tenant, c.conversation_id).with_for_update(of=_CONVERSATIONS)


def _elsewhere_statement(*, written: bool) -> sa.Select[Any]:
    c, wanted = _CONVERSATIONS.c, places_table()
    elsewhere = sa.exists().where(c.conversation_id == wanted.c.conversation_id, c.tenant != wanted.c.tenant)
    return sa.select(wanted).where(elsewhere.where(c.feed_seq > 0) if written else elsewhere)


_OPEN = _open_statement()
_LOAD = sa.select(*_COLUMNS).where(
    _CONVERSATIONS.c.tenant == sa.bindparam("tenant"),
    _CONVERSATIONS.c.conversation_id == sa.bindparam("conversation_id"),
)
_LOCK = _lock_statement(*_COLUMNS)
_LOCK_FOR_APPENDING = _lock_statement(
    *(_CONVERSATIONS.c[name] for name in ("tenant", "conversation_id", "agent", "ended_at"))
)
_ELSEWHERE = {written: _elsewhere_statement(written=written) for written in (False, True)}
#: Locks that are let go with the transaction, in the order of the ids.
_KEEP_IDS = sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtextextended(places_table().c.conversation_id, 28)))


async def open_conversations(connection: Connection, openings: Iterable[Opening]) -> None:
    """Store conversations; one that is there already keeps what it has and is only told what it did not know."""
    rows = [
        {
            "tenant": each.tenant,
            "conversation_id": each.conversation_id,
            "agent": each.agent,
            "language": each.language,
            "labels": each.labels or {},
            "visitor": each.visitor,
            "token_hash": each.token_hash,
            "created_by": each.created_by,
            "opener_decides": each.opener_decides,
        }
        for each in sorted(openings, key=lambda each: each.place)
    ]
    await connection.execute(_OPEN, rows)


async def taken_elsewhere(connection: Connection, places: Iterable[Place], *, written: bool) -> set[Place]:
    """Return those of these conversations whose id another tenant's conversation has, and keep the ids to the commit.

    `written`: only where somebody wrote there. Of two who ask at once the second one waits for the first one's commit.
    """
    values = values_of(sorted(places, key=lambda place: place[1]))
    await connection.execute(_KEEP_IDS, values)
    return {(row[0], row[1]) for row in await connection.execute(_ELSEWHERE[written], values)}


async def end_conversation(connection: Connection, place: Place, by: str) -> None:
    """Let nobody write in a locked conversation any more."""
    c = _CONVERSATIONS.c
    here = (c.tenant == place[0], c.conversation_id == place[1])
    values = {"ended_at": sa.func.clock_timestamp(), "ended_by": by}
    await connection.execute(sa.update(_CONVERSATIONS).where(*here).values(**values))


async def mark_told(connection: Connection, place: Place, number: int) -> None:
    """Note up to which feed item a client was told; never less than before."""
    c = _CONVERSATIONS.c
    told = sa.func.greatest(c.told_seq, number)
    here = (c.tenant == place[0], c.conversation_id == place[1])
    await connection.execute(sa.update(_CONVERSATIONS).where(*here).values(told_seq=told))


async def load_conversation(connection: Connection, tenant: str, conversation_id: str) -> Conversation | None:
    """Return one conversation of a tenant."""
    place = {"tenant": tenant, "conversation_id": conversation_id}
    row = (await connection.execute(_LOAD, place)).one_or_none()
    return Conversation(*row) if row else None


async def recent_conversations(connection: Connection, tenant: str, created_by: str, limit: int) -> list[Recent]:
    """Return the newest conversations that somebody opened."""
    c, f = _CONVERSATIONS.c, table_of(FeedRow).c
    first = sa.select(sa.func.left(f.data["text"].astext, TITLE_MAX)).order_by(f.seq).limit(1)
    first = first.where(f.tenant == c.tenant, f.conversation_id == c.conversation_id, f.type == "message")
    mine = sa.select(c.conversation_id, c.created_at, first.scalar_subquery())
    mine = mine.where(c.tenant == tenant, c.created_by == created_by)
    rows = await connection.execute(mine.order_by(c.created_at.desc()).limit(limit))
    return [Recent(*row) for row in rows]


async def lock_conversations(connection: Connection, places: Iterable[Place]) -> dict[Place, Conversation]:
    """Lock the conversations that are there, in order; nobody else appends to their feeds until the commit."""
    rows = (await connection.execute(_LOCK, values_of(places))).all()
    return {(row.tenant, row.conversation_id): Conversation(*row) for row in rows}


async def lock_for_appending(connection: Connection, places: Iterable[Place]) -> dict[Place, Appendable]:
    """Lock conversations as `lock_conversations` does, for somebody who appends and asks nothing else of them."""
    rows = (await connection.execute(_LOCK_FOR_APPENDING, values_of(places))).all()
    return {(tenant, conversation_id): Appendable(agent, ended_at) for tenant, conversation_id, agent, ended_at in rows}
