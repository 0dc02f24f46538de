"""Who answers in conversations: moving it, and finding those that people hold."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from services.gateway.feed import ItemType, Place
from services.gateway.holder import Held
from services.gateway.paging import Cursor
from services.gateway.states import MACHINE, State
from services.gateway.store.conversations import TITLE_MAX
from services.gateway.store.feed import StoredItem
from services.gateway.tables import ConversationRow, FeedRow
from shared.database import table_of
from shared.messages.conversations import ANSWERS_MAX
from shared.sql import Connection

_CONVERSATIONS = table_of(ConversationRow)
_FEED = table_of(FeedRow)
#: Types of feed items that say something to a reader: neither the beginnings of turns nor decisions by message.
READ_BY_PEOPLE: tuple[ItemType, ...] = ("message", "holder", "tool_call", "approval", "conversation")


@dataclass(frozen=True, slots=True)
class Escalated:
    """One conversation that people hold, in a list."""

    conversation_id: str
    holder: str
    operator: str
    held_since: datetime
    reason: str
    agent: str | None
    language: str
    #: How its newest message of anybody begins, and when it was written; None where nobody has written yet.
    newest: str | None
    newest_role: str | None
    newest_at: datetime | None


async def move_holder(connection: Connection, place: Place, before: Held, after: Held, reason: str) -> bool:
    """Store who answers in a locked conversation from now on; tell whether it was as `before` says until now."""
    c = _CONVERSATIONS.c
    since = sa.func.coalesce(c.held_since, sa.func.clock_timestamp()) if after.by_people else sa.null()
    values = {
        "holder": after.state.value,
        "holder_revision": after.revision,
        "operator": after.operator,
        "held_since": since,
        "held_reason": reason if before.state is MACHINE.initial else c.held_reason if after.by_people else "",
    }
    here = (c.tenant == place[0], c.conversation_id == place[1], c.ended_at.is_(None))
    same = (c.holder == before.state.value, c.holder_revision == before.revision)
    moved = await connection.execute(sa.update(_CONVERSATIONS).where(*here, *same).values(values))
    return moved.rowcount == 1


async def unanswered_of(connection: Connection, place: Place, after: int, seen: int) -> list[str]:
    """Return the newest messages of visitors between two numbers of the feed, oldest first."""
    c = _FEED.c
    newest = (
        sa.select(c.data["message_id"].astext)
        .where(c.tenant == place[0], c.conversation_id == place[1], c.type == "message", c.seq > after, c.seq <= seen)
        .where(c.data["role"].astext == "user")
        .order_by(c.seq.desc())
        .limit(ANSWERS_MAX)
    )
    return list(reversed((await connection.execute(newest)).scalars().all()))


async def note_answer(connection: Connection, place: Place, seen: int) -> None:
    """Keep what an operator had seen when they answered in a locked conversation."""
    c = _CONVERSATIONS.c
    here = (c.tenant == place[0], c.conversation_id == place[1])
    statement = sa.update(_CONVERSATIONS).where(*here).values(answered_seq=sa.func.greatest(c.answered_seq, seen))
    await connection.execute(statement)


async def list_held(
    connection: Connection, tenant: str, state: State | None, *, after: Cursor | None = None, limit: int
) -> list[Escalated]:
    """Return conversations that people hold, those held last first; `state` narrows to one way of holding."""
    c = _CONVERSATIONS.c
    wanted = [c.tenant == tenant, c.held_since.is_not(None), c.ended_at.is_(None)]
    if state is not None:
        wanted.append(c.holder == state.value)
    if after is not None:
        wanted.append(sa.tuple_(c.held_since, c.conversation_id) < sa.tuple_(sa.literal(after.at), after.id))
    newest = _newest_message().lateral("newest")
    columns = [c[name] for name in ("conversation_id", "holder", "operator", "held_since", "held_reason", "agent")]
    statement = (
        sa.select(*columns, c.language, newest.c.text, newest.c.role, newest.c.at)
        .select_from(_CONVERSATIONS.outerjoin(newest, sa.true()))
        .where(*wanted)
        .order_by(c.held_since.desc(), c.conversation_id.desc())
        .limit(limit)
    )
    return [Escalated(*row) for row in await connection.execute(statement)]


async def load_held(connection: Connection, tenant: str, conversation_id: str) -> tuple[datetime | None, str]:
    """Return since when people hold a conversation, None where they do not, and why it was handed to them."""
    c = _CONVERSATIONS.c
    here = (c.tenant == tenant, c.conversation_id == conversation_id)
    row = (await connection.execute(sa.select(c.held_since, c.held_reason).where(*here))).one_or_none()
    return (row.held_since, row.held_reason) if row else (None, "")


async def load_talk(connection: Connection, tenant: str, conversation_id: str, limit: int) -> list[StoredItem]:
    """Return the newest items of a conversation that people read, oldest first."""
    c = _FEED.c
    newest = (
        sa.select(*(c[name] for name in ("tenant", "conversation_id", "seq", "type", "at", "data")))
        .where(c.tenant == tenant, c.conversation_id == conversation_id, c.type.in_(READ_BY_PEOPLE))
        .order_by(c.seq.desc())
        .limit(limit)
    )
    return [StoredItem(*row) for row in reversed((await connection.execute(newest)).all())]


def _newest_message() -> sa.Select[Any]:
    f, c = _FEED.c, _CONVERSATIONS.c
    text = sa.func.left(f.data["text"].astext, TITLE_MAX).label("text")
    return (
        sa.select(text, f.data["role"].astext.label("role"), f.at)
        .where(f.tenant == c.tenant, f.conversation_id == c.conversation_id, f.type == "message")
        .where(f.data["text"].astext != "")
        .order_by(f.seq.desc())
        .limit(1)
    )
