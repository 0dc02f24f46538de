"""SQL of turns that go on while people think, and of the outcomes that come later.

Whether a turn goes on is decided under the lock of its row, after everything that may change the answer was written
under that same lock or committed before: so of a message, a result and a new approval that meet, the last one sees the
others. Open calls that another transaction holds are about to get their results; nobody waits for those here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, get_args

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from services.agent.meanwhile import Held, NextMessage, Waiting
from services.agent.rules import Claim, storable
from services.agent.states import CALL_MACHINE, MACHINE, CallEvent, CallState, Event, State
from services.agent.store import Answer
from services.agent.store.statements import (
    ANSWERED,
    CALLS,
    CLAIM_COLUMNS,
    CONVERSATIONS,
    MESSAGES,
    TURNS,
    brought,
    claim_of,
    given,
    lease_end,
)
from shared.errors import Transient
from shared.sql import spread
from shared.work import Work

CONTINUED = CALL_MACHINE.next_state(CallState.OPEN, CallEvent.WENT_ON)
_THINKING_AGAIN = MACHINE.next_state(State.WAITING, Event.WENT_ON)
_HOLDING = dict.fromkeys(("call_id", "tenant", "conversation_id", "held", "next_message"), sa.Text)


@dataclass(frozen=True, slots=True)
class Holding:
    """A call that people are asked about."""

    call_id: str
    tenant: str
    conversation_id: str
    held: Held | NextMessage


@dataclass(frozen=True, slots=True)
class Superseded:
    """A turn that waits for a call whose place a message takes, and whose requester has written."""

    tenant: str
    conversation_id: str
    turn_id: str
    author: dict[str, str]


@dataclass(frozen=True, slots=True)
class Late:
    """A result that came after the model had gone on, stored as a fact that waits for a turn."""

    claim: Claim
    #: Whether `claim.turn_id` is a new turn, to begin now; False: another turn goes on.
    begins: bool


async def hold(work: Work, holdings: Sequence[Holding]) -> list[str]:
    """Note how open calls are held, lock their turns and return those."""
    values = spread("b_holding", _HOLDING, map(_of_holding, holdings))
    return list((await work.connection.execute(_HOLD, values)).scalars())


async def superseded(work: Work, turn_ids: Sequence[str]) -> list[Superseded]:
    """Return those of these turns that wait for a call whose place words take that wait already."""
    rows = await work.connection.execute(_SUPERSEDED, {"b_turn_ids": list(turn_ids)})
    return [Superseded(row.tenant, row.conversation_id, row.turn_id, row.author) for row in rows]


async def lock_turns_of(work: Work, tenant: str, call_ids: Sequence[str]) -> list[str]:
    """Lock the turns that wait for any of these calls; return them."""
    values = {"b_tenant": tenant, "b_call_ids": list(call_ids)}
    return list((await work.connection.execute(_LOCK, values)).scalars())


async def waiting(work: Work, turn_ids: Sequence[str]) -> list[Waiting]:
    """Return those of these turns that wait for a call which may be gone on without, by conversation.

    The caller holds the locks of the turns.
    """
    rows = await work.connection.execute(_WAITING, {"b_turn_ids": list(turn_ids)})
    return [
        Waiting(row.tenant, row.conversation_id, row.turn_id, row.author, row.open_calls, tuple(row.held), row.queued)
        for row in rows
    ]


async def go_on(work: Work, turn: Waiting, lease: timedelta) -> tuple[Claim, list[str]] | None:
    """Give every open call of a locked turn its interim result and claim the next step; return it and the calls.

    None where one of them is just getting its result: whoever brings that looks again.
    """
    values: dict[str, Any] = {"b_turn_id": turn.turn_id}
    call_ids = list((await work.connection.execute(_OPEN, values)).scalars())
    if len(call_ids) < turn.open_calls:
        return None
    await work.connection.execute(_CONTINUE, {"b_call_ids": call_ids})
    row = (await work.connection.execute(_GO_ON, values | {"b_lease": lease})).one()
    return claim_of(row), call_ids


async def take_late(work: Work, answer: Answer, new_turn: str) -> Late | None:
    """Give a call its result that the model went on without, and queue the fact; None where there is no such call.

    Where the conversation idles it is given to `new_turn`, unless people hold it.
    """
    row = (await work.connection.execute(_ANSWER_LATE, _of_late(answer))).one_or_none()
    if row is None:
        return None
    place = {"b_conversation_id": answer.conversation_id, "b_new_turn": new_turn}
    live = (await work.connection.execute(_LOCK_LIVE, place)).scalar_one_or_none()
    fact = {name: getattr(row, name) for name in ("tenant", "conversation_id", "call_id", "author", "cause")}
    # No client can choose this id: identifiers have no colon.
    await work.connection.execute(sa.insert(MESSAGES).values(**fact, message_id=f"outcome:{row.call_id}", text=""))
    turn_id = (await work.connection.execute(_ENQUEUE, place)).scalar_one()
    if turn_id not in {live, new_turn}:
        raise Transient(f"another turn began in conversation {answer.conversation_id} meanwhile")
    ids = (answer.tenant, answer.conversation_id, turn_id or "")
    return Late(Claim(*ids, 1, 1, row.message_id, row.author, row.cause), turn_id == new_turn)


def _of_late(answer: Answer) -> dict[str, Any]:
    return {
        "b_call_id": answer.call_id,
        "b_tenant": answer.tenant,
        "b_conversation_id": answer.conversation_id,
        "b_kind": answer.result.kind,
        "b_result": storable(answer.result.as_json()),
        "b_cause": {"id": answer.cause.id, "traceparent": answer.cause.traceparent},
    }


def _of_holding(holding: Holding) -> dict[str, str | None]:
    goes_on = holding.held in get_args(Held)
    ways = {"held": holding.held if goes_on else None, "next_message": None if goes_on else holding.held}
    return {**asdict(holding), **ways}


def _hold() -> sa.Select[Any]:
    each = brought("holding", _HOLDING)
    held = (
        sa.update(CALLS)
        .where(
            *(CALLS.c[name] == each.c[name] for name in ("call_id", "tenant", "conversation_id")),
            CALLS.c.state == CallState.OPEN,
        )
        .values(held=each.c.held, next_message=each.c.next_message)
        .returning(CALLS.c.turn_id)
        .cte("held")
    )
    return _locked(sa.select(held.c.turn_id))


def _locked(turn_ids: Any) -> sa.Select[Any]:
    """Lock turns in the order of their ids, as whoever brings results does."""
    chosen = sa.select(TURNS.c.turn_id).where(TURNS.c.turn_id.in_(turn_ids), TURNS.c.state == State.WAITING)
    return chosen.order_by(TURNS.c.turn_id).with_for_update(of=TURNS, key_share=True)


def _of_calls() -> sa.Select[Any]:
    chosen = CALLS.c.call_id == sa.any_(given("call_ids", pg.ARRAY(pg.TEXT)))
    return sa.select(CALLS.c.turn_id).where(chosen, CALLS.c.tenant == given("tenant"))


def _waiting() -> sa.Select[Any]:
    names = ("tenant", "conversation_id", "turn_id", "author", "open_calls")
    columns = [TURNS.c[name] for name in names]
    return (
        sa.select(*columns, CONVERSATIONS.c.queued, sa.func.array_agg(CALLS.c.held).label("held"))
        .join_from(TURNS, CONVERSATIONS, CONVERSATIONS.c.conversation_id == TURNS.c.conversation_id)
        .join(CALLS, CALLS.c.turn_id == TURNS.c.turn_id)
        .where(
            TURNS.c.turn_id == sa.any_(given("turn_ids", pg.ARRAY(pg.TEXT))),
            TURNS.c.state == State.WAITING,
            CALLS.c.state == CallState.OPEN,
            CALLS.c.held.is_not(None),
        )
        .group_by(*columns, CONVERSATIONS.c.queued)
        .order_by(TURNS.c.conversation_id)
    )


def _superseded() -> sa.Select[Any]:
    names = ("tenant", "conversation_id", "turn_id", "author")
    takes_place = sa.exists().where(
        CALLS.c.turn_id == TURNS.c.turn_id, CALLS.c.state == CallState.OPEN, CALLS.c.next_message == "supersede"
    )
    written = sa.exists().where(
        MESSAGES.c.conversation_id == TURNS.c.conversation_id,
        MESSAGES.c.author == TURNS.c.author,
        MESSAGES.c.turn_id.is_(None),
        MESSAGES.c.call_id.is_(None),
        sa.not_(MESSAGES.c.by_operator),
    )
    return (
        sa.select(*(TURNS.c[name] for name in names))
        .join_from(TURNS, CONVERSATIONS, CONVERSATIONS.c.conversation_id == TURNS.c.conversation_id)
        .where(
            TURNS.c.turn_id == sa.any_(given("turn_ids", pg.ARRAY(pg.TEXT))),
            TURNS.c.state == State.WAITING,
            sa.not_(CONVERSATIONS.c.held),
            takes_place,
            written,
        )
        .order_by(TURNS.c.conversation_id)
    )


def _answer_late() -> Any:
    return (
        sa.update(CALLS)
        .where(
            *(CALLS.c[name] == given(name) for name in ("call_id", "tenant", "conversation_id")),
            CALLS.c.state == CONTINUED,
            TURNS.c.turn_id == CALLS.c.turn_id,
        )
        .values(
            state=ANSWERED.value,
            result_kind=given("kind"),
            result=given("result", pg.JSONB),
            answered_at=sa.func.clock_timestamp(),
        )
        .returning(
            CALLS.c.tenant,
            CALLS.c.conversation_id,
            CALLS.c.call_id,
            CALLS.c.message_id,
            TURNS.c.author,
            TURNS.c.cause.concat(given("cause", pg.JSONB)).label("cause"),
        )
    )


_HOLD = _hold()
_LOCK = _locked(_of_calls())
_WAITING = _waiting()
_SUPERSEDED = _superseded()
_OPEN = (
    sa.select(CALLS.c.call_id)
    .where(CALLS.c.turn_id == given("turn_id"), CALLS.c.state == CallState.OPEN)
    .order_by(CALLS.c.position)
    .with_for_update(key_share=True, skip_locked=True)
)
_CONTINUE = (
    sa.update(CALLS)
    .where(CALLS.c.call_id == sa.any_(given("call_ids", pg.ARRAY(pg.TEXT))))
    .values(state=CONTINUED.value, interim_at=sa.func.clock_timestamp())
)
_GO_ON = (
    sa.update(TURNS)
    .where(TURNS.c.turn_id == given("turn_id"), TURNS.c.state == State.WAITING)
    .values(
        state=_THINKING_AGAIN.value,
        step=TURNS.c.step + 1,
        fence=TURNS.c.fence + 1,
        open_calls=0,
        lease_until=lease_end(),
    )
    .returning(*CLAIM_COLUMNS)
)
_ANSWER_LATE = _answer_late()
_LOCK_LIVE = (
    sa.select(TURNS.c.turn_id)
    .join_from(TURNS, CONVERSATIONS, CONVERSATIONS.c.turn_id == TURNS.c.turn_id)
    .where(CONVERSATIONS.c.conversation_id == given("conversation_id"))
    .with_for_update(of=[TURNS, CONVERSATIONS], key_share=True)
)
_ENQUEUE = (
    sa.update(CONVERSATIONS)
    .where(CONVERSATIONS.c.conversation_id == given("conversation_id"))
    .values(
        turn_id=sa.func.coalesce(CONVERSATIONS.c.turn_id, sa.case((sa.not_(CONVERSATIONS.c.held), given("new_turn")))),
        queued=CONVERSATIONS.c.queued + 1,
    )
    .returning(CONVERSATIONS.c.turn_id)
)
