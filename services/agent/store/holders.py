"""SQL of conversations that people hold: what waits for them, and what they said.

Each of these is done under the lock of the conversation's row, after which no turn can begin behind its back.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from services.agent.rules import storable
from services.agent.store.statements import CONVERSATIONS, MESSAGES
from shared.errors import Transient
from shared.messages import OperatorSpoke
from shared.work import Work

#: Identity of a person's words that wait, and no operator has answered.
_QUEUED = (MESSAGES.c.turn_id.is_(None), sa.not_(MESSAGES.c.by_operator))


@dataclass(frozen=True, slots=True)
class Place:
    """A locked conversation, as far as its holder matters."""

    #: The newest change of its holder that is known.
    revision: int
    #: The turn that goes on; None where none does.
    turn_id: str | None
    #: What waits in it.
    queued: int


async def knows(work: Work, tenant: str, conversation_id: str, revision: int) -> bool:
    """Tell whether a change of a conversation's holder, or a newer one, is known here. Nothing is locked.

    Raises Transient where the conversation's first message has not come yet.
    """
    c = CONVERSATIONS.c
    here = (c.conversation_id == conversation_id, c.tenant == tenant)
    known = (await work.connection.execute(sa.select(c.holder_revision).where(*here))).scalar_one_or_none()
    if known is None:
        raise _too_early(conversation_id)
    return bool(known >= revision)


async def lock(work: Work, tenant: str, conversation_id: str) -> Place:
    """Lock a conversation and return it; raise Transient where its first message has not come yet."""
    c = CONVERSATIONS.c
    chosen = sa.select(c.holder_revision, c.turn_id, c.queued)
    chosen = chosen.where(c.conversation_id == conversation_id, c.tenant == tenant).with_for_update()
    row = (await work.connection.execute(chosen)).one_or_none()
    if row is None:
        raise _too_early(conversation_id)
    return Place(row.holder_revision, row.turn_id, row.queued)


async def take(work: Work, conversation_id: str, revision: int) -> None:
    """Let people hold a locked conversation."""
    same = CONVERSATIONS.c.conversation_id == conversation_id
    await work.connection.execute(sa.update(CONVERSATIONS).where(same).values(held=True, holder_revision=revision))


async def give_back(work: Work, conversation_id: str, revision: int, turn_id: str | None) -> None:
    """Let the agent hold a locked conversation again, in which the turn `turn_id` goes on or begins now."""
    same = CONVERSATIONS.c.conversation_id == conversation_id
    values = {"held": False, "holder_revision": revision, "turn_id": turn_id}
    await work.connection.execute(sa.update(CONVERSATIONS).where(same).values(values))


async def add_spoken(work: Work, spoke: OperatorSpoke) -> None:
    """Keep what an operator said in a locked conversation; what it answers waits for no turn any more."""
    values = {
        "conversation_id": spoke.conversation_id,
        "message_id": spoke.message_id,
        "tenant": spoke.tenant,
        "text": storable(spoke.text),
        "author": storable({"kind": "operator", "id": spoke.operator}),
        "cause": work.cause.as_json(),
        "by_operator": True,
    }
    await work.connection.execute(pg.insert(MESSAGES).values(values).on_conflict_do_nothing())
    m, same = MESSAGES.c, CONVERSATIONS.c.conversation_id == spoke.conversation_id
    answered = sa.update(MESSAGES).where(
        m.conversation_id == spoke.conversation_id, m.message_id.in_(spoke.answers), m.call_id.is_(None), *_QUEUED
    )
    found = (await work.connection.execute(answered.values(by_operator=True).returning(m.message_id))).all()
    if found:
        fewer = CONVERSATIONS.c.queued - len(found)
        await work.connection.execute(sa.update(CONVERSATIONS).where(same).values(queued=fewer))


async def move_behind(work: Work, conversation_id: str) -> None:
    """Let what still waits in a locked conversation stand behind all that operators said: the model reads that first.

    One by one, because the database numbers rows of one statement in any order.
    """
    m = MESSAGES.c
    spoken = sa.select(sa.func.max(m.number)).where(m.conversation_id == conversation_id, m.by_operator)
    before = sa.select(m.message_id).where(
        m.conversation_id == conversation_id, m.number < spoken.scalar_subquery(), *_QUEUED
    )
    for message_id in (await work.connection.execute(before.order_by(m.number))).scalars().all():
        same = (m.conversation_id == conversation_id, m.message_id == message_id)
        await work.connection.execute(sa.update(MESSAGES).where(*same).values(number=sa.text("DEFAULT")))


def _too_early(conversation_id: str) -> Transient:
    return Transient(f"conversation {conversation_id} is held by people before its first message came")
