"""How the turns of a conversation stand: what the agent shows in schema `read`, and what the feed has told."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

import sqlalchemy as sa

from services.gateway.store.read import APPROVALS, CALLS, MESSAGES, STEPS, TURNS, Row
from services.gateway.tables import FeedRow
from shared.database import table_of
from shared.sql import Connection

_FEED = table_of(FeedRow)
#: How long a stream waits for the agent to hear that people are asked: what should tell it may be a dead letter, and an
#: older release keeps nothing of calls that are waited for.
UNHEARD_MAX = timedelta(minutes=1)


def _unheard() -> sa.ColumnElement[bool]:
    """Tell of a call whether the agent has still to hear that people are asked: nobody knows what it does then."""
    calls, approvals = CALLS.c, APPROVALS.c
    asked_just_now = sa.exists().where(
        approvals.tenant == calls.tenant,
        approvals.call_id == calls.call_id,
        approvals.state == "pending",
        approvals.created_at > sa.func.clock_timestamp() - UNHEARD_MAX,
    )
    return sa.and_(calls.held.is_(None), calls.next_message.is_(None), asked_just_now)


async def load_waiting_step(connection: Connection, tenant: str, turn_id: str, call_ids: Collection[str]) -> int | None:
    """Return the step in which a turn waits for people, on calls among `call_ids` and on no other; None: it goes on."""
    turns, calls = TURNS.c, CALLS.c
    open_elsewhere = sa.exists().where(
        calls.tenant == tenant,
        calls.turn_id == turn_id,
        calls.result_kind.is_(None),
        sa.or_(calls.call_id.not_in(list(call_ids)), _unheard()),
    )
    waits = sa.select(turns.step).where(
        turns.tenant == tenant, turns.turn_id == turn_id, turns.state == "waiting", ~open_elsewhere
    )
    return (await connection.execute(waits)).scalar_one_or_none()


async def load_newest_turn(connection: Connection, tenant: str, conversation_id: str) -> Row | None:
    """Return the newest turn of a conversation."""
    c = TURNS.c
    # What waits behind a turn is another question, and each answer a look into the messages.
    columns = [each for each in c if each.name not in {"spoken", "written"}]
    statement = sa.select(*columns).where(c.tenant == tenant, c.conversation_id == conversation_id)
    found = (await connection.execute(statement.order_by(c.started_at.desc()).limit(1))).mappings().one_or_none()
    return dict(found) if found else None


async def load_hearer(connection: Connection, tenant: str, conversation_id: str, message_id: str) -> str | None:
    """Return the turn that hears a message; None while it waits, or the agent does not know of it."""
    c = MESSAGES.c
    here = (c.tenant == tenant, c.conversation_id == conversation_id, c.message_id == message_id)
    return (await connection.execute(sa.select(c.turn_id).where(*here))).scalar_one_or_none()


async def turns_had_approval(connection: Connection, tenant: str, turn_ids: Collection[str]) -> bool:
    """Tell whether a call of one of these turns was held for people."""
    c = APPROVALS.c
    held = sa.select(sa.literal(1)).where(c.tenant == tenant, c.turn_id.in_(list(turn_ids)))
    return (await connection.execute(held.limit(1))).first() is not None


async def load_turn_start(connection: Connection, tenant: str, conversation_id: str, turn_id: str) -> int | None:
    """Return the number of the feed item that tells of a turn's beginning; None where there is no such turn here."""
    c = _FEED.c
    began = sa.select(c.seq).where(
        c.tenant == tenant,
        c.conversation_id == conversation_id,
        c.type == "turn",
        c.data["turn_id"].astext == turn_id,
        c.data["state"].astext == "started",
    )
    return (await connection.execute(began.limit(1))).scalar_one_or_none()


async def load_reply(connection: Connection, tenant: str, conversation_id: str, turn_id: str) -> dict[str, int]:
    """Return the turns that answer the same message as this one, the oldest first; empty where there is no such turn.

    Turn id -> number of the feed item that tells of its beginning.
    """
    began, same = _FEED.alias("began"), _FEED.alias("same")
    answered = same.c.data["message_id"].astext
    here = [
        condition
        for feed in (began, same)
        for condition in (
            feed.c.tenant == tenant,
            feed.c.conversation_id == conversation_id,
            feed.c.type == "turn",
            feed.c.data["state"].astext == "started",
        )
    ]
    found = (
        sa.select(same.c.data["turn_id"].astext, same.c.seq)
        .where(*here, began.c.data["turn_id"].astext == turn_id, answered == began.c.data["message_id"].astext)
        .order_by(same.c.seq)
    )
    return {each: seq for each, seq in (await connection.execute(found)).all()}  # noqa: C416 - rows are no pairs to mypy


async def load_newest_start(connection: Connection, tenant: str, conversation_id: str) -> int | None:
    """Return the number of the feed item with which the newest turn began; None where none did, or it is not told."""
    turn = await load_newest_turn(connection, tenant, conversation_id)
    return await load_turn_start(connection, tenant, conversation_id, turn["turn_id"]) if turn else None


async def turn_end_is_kept(connection: Connection, tenant: str, conversation_id: str, turn_id: str) -> bool:
    """Tell whether the feed says that a turn is over: the agent knows it a moment earlier than clients do."""
    c = _FEED.c
    ended = sa.select(sa.literal(1)).where(
        c.tenant == tenant,
        c.conversation_id == conversation_id,
        c.type == "turn",
        c.data["turn_id"].astext == turn_id,
        c.data["state"].astext != "started",
    )
    return (await connection.execute(ended.limit(1))).first() is not None


async def load_usage(
    connection: Connection, tenant: str, conversation_id: str, after: int, up_to: int
) -> tuple[int, int] | None:
    """Return the tokens that the model read and wrote between two feed items; None where it counted none.

    A step is said before its items are kept, and after everything that it answers.
    """
    c, feed = STEPS.c, _FEED.c
    kept = [
        sa.select(feed.at).where(feed.tenant == tenant, feed.conversation_id == conversation_id, feed.seq == number)
        for number in (after, up_to)
    ]
    began = sa.func.coalesce(kept[0].scalar_subquery(), sa.literal_column("'-infinity'::timestamptz"))
    counted = sa.select(sa.func.sum(c.input_tokens), sa.func.sum(c.output_tokens)).where(
        c.tenant == tenant,
        c.conversation_id == conversation_id,
        c.said_at > began,
        c.said_at <= kept[1].scalar_subquery(),
    )
    read, written = (await connection.execute(counted)).one()
    return (int(read), int(written)) if read or written else None


@dataclass(frozen=True, slots=True)
class Rest:
    """A conversation in which nothing goes on until people decide or write."""

    #: The newest turn, and whether it is over; empty where there is none.
    turn_id: str = ""
    over: bool = True
    #: Its newest step; where the turn waits, what the model said in it came before the calls.
    step: int = 0
    #: Whether a message waits until the turn's calls are decided, or withdrawn; and whether the one asked about does.
    queued: bool = False
    behind: bool = False
    #: Calls of the newest turn that ran, and whose results the model has.
    ran: frozenset[str] = frozenset()


async def load_rest(
    connection: Connection,
    tenant: str,
    conversation_id: str,
    call_ids: Collection[str],
    message_id: str = "",
    *,
    held: bool = False,
) -> Rest | None:
    """Return how a conversation rests where only calls among `call_ids` are open; None where something goes on.

    It goes on too while the agent has not heard of `message_id`, nor that people are asked; or a message waits for a
    turn that will hear it, or for calls whose place it takes. None will where the conversation is `held` by people:
    what is written there waits for them.
    """
    calls, turns, messages = CALLS.c, TURNS.c, MESSAGES.c
    unanswered = sa.select(calls.held).where(
        calls.tenant == tenant, calls.conversation_id == conversation_id, calls.result_kind.is_(None)
    )
    # A call that its turn went on without keeps nothing.
    open_calls = unanswered.where(calls.state == "open")
    turn_here = sa.select(turns.turn_id).where(turns.tenant == tenant, turns.conversation_id == conversation_id)
    message_here = sa.select(messages.turn_id).where(
        messages.tenant == tenant, messages.conversation_id == conversation_id
    )
    facts = sa.select(
        sa.exists(unanswered.where(calls.call_id.not_in(list(call_ids)))).label("busy"),
        sa.exists(turn_here.where(turns.state == "thinking")).label("thinking"),
        sa.exists(turn_here.where(turns.state == "waiting")).label("waiting"),
        sa.exists(turn_here.where(turns.state == "waiting", turns.spoken)).label("spoken"),
        sa.exists(turn_here.where(turns.state == "waiting", turns.written)).label("written"),
        sa.exists(message_here.where(messages.queued)).label("queued"),
        sa.exists(message_here.where(messages.message_id == message_id)).label("known"),
        sa.exists(message_here.where(messages.message_id == message_id, messages.queued)).label("behind"),
        sa.exists(open_calls.where(calls.held.is_(None))).label("bound"),
        sa.exists(open_calls.where(_unheard())).label("unheard"),
        sa.exists(open_calls.where(calls.next_message == "supersede")).label("superseding"),
        sa.exists(open_calls.where(calls.held == "on_message")).label("listening"),
    )
    found = (await connection.execute(facts)).one()
    heard, queued = found.known or not message_id, found.queued and not held
    goes_on = found.waiting and not found.bound and (not found.listening or (found.spoken and not held))
    superseded = found.superseding and found.written and not held
    stuck = queued and not found.waiting
    if found.busy or found.thinking or found.unheard or goes_on or stuck or superseded or not heard:
        return None
    turn = await load_newest_turn(connection, tenant, conversation_id)
    if turn is None:
        return Rest()
    ran = sa.select(calls.call_id).where(
        calls.tenant == tenant, calls.turn_id == turn["turn_id"], calls.result_kind.in_(("succeeded", "failed"))
    )
    call_ids = frozenset((await connection.execute(ran)).scalars())
    behind = found.behind and not held
    return Rest(turn["turn_id"], turn["ended_at"] is not None, turn["step"], queued, behind, call_ids)
