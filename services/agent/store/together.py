"""What the workers of many turns ask of the database at the same moment: one statement reads or settles them all.

A statement costs its round trip and its dispatch far more than what it does, and turns come in bunches. Each of these
statements is a transaction of its own. Settling skips whatever another transaction holds instead of waiting, so that
one conversation never holds up its neighbours and two bunches cannot lock each other out; what was skipped is settled
by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import starmap
from typing import Any

import sqlalchemy as sa
from pydantic_core import from_json
from sqlalchemy.dialects import postgresql as pg

from services.agent.assembly import ModelAnswer
from services.agent.rules import Claim, Settlement
from services.agent.states import MACHINE, CallState, State
from services.agent.store.statements import (
    ANSWERED,
    CALL_BROUGHT,
    CALLS,
    CONVERSATIONS,
    FACTS,
    JSON,
    MESSAGES,
    STEPS,
    TURNS,
    brought,
    given,
    lease_end,
)
from services.agent.store.values import of_answer, of_call, of_settlement
from services.agent.transcript import STOPPED_HEAD, Call, Fact, History, Spoken, Step, UserMessage
from shared.database import service_tables
from shared.outbox import OUTBOX_COLUMNS, OutboxRow, stored_row
from shared.sql import Connection, spread
from shared.work import CHANGE_COLUMNS, Change, change_row

_OWN = service_tables("agent")


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The database clock as a statement told it that was made anyway: knowing the time needs no other one."""

    at: datetime
    #: This process's monotonic seconds when the answer came.
    seconds: float

    def after(self, seconds: float) -> datetime:
        """Return the database clock when the monotonic seconds are these: late by the answer's way, never early."""
        return self.at + timedelta(seconds=seconds - self.seconds)


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation as a worker needs it."""

    agent: str
    language: str
    labels: dict[str, str]
    history: History
    #: The database clock as it was told with the conversation.
    clock: ClockReading


@dataclass(frozen=True, slots=True)
class Settling:
    """A step to settle, with all that belongs to it."""

    claim: Claim
    settlement: Settlement
    said: ModelAnswer
    changes: Sequence[Change]
    rows: Sequence[OutboxRow]
    #: True: it must not be settled here while messages wait for a turn.
    alone: bool


async def load(connection: Connection, conversation_ids: Sequence[str]) -> dict[str, Any]:
    """Return conversations with everything their transcripts are made of, by id, for `talk_of`."""
    found = await connection.execute(_LOAD, {"b_conversation_ids": list(conversation_ids)})
    return {row.conversation_id: row for row in found}


def talk_of(row: Any, seconds: float) -> Talk:
    """Read what `load` returned of one conversation, at these monotonic seconds of this process."""
    facts = [Fact(*fact) for fact in _items(row.facts)]
    facts += [Fact(number, STOPPED_HEAD) for number in _items(row.stops)]
    history = History(
        tuple(UserMessage(*message) for message in _items(row.messages)),
        tuple(Step(*step) for step in _items(row.steps)),
        tuple(Call(*call) for call in _items(row.tool_calls)),
        tuple(sorted(facts, key=lambda fact: fact.number)),
        tuple(Spoken(*spoken) for spoken in _items(row.spoken)),
    )
    return Talk(row.agent, row.language, row.labels, history, ClockReading(row.read_at, seconds))


def _items(array: str | None) -> list[Any]:
    return from_json(array) if array else []


async def settle(connection: Connection, settlings: Sequence[Settling], lease: timedelta) -> set[int]:
    """Settle steps with their history and their messages; return the places of those that are settled.

    Nothing is stored of a step whose claim is no longer good, whose rows another transaction holds, or which must be
    `alone` and is not, or which proposes calls in a conversation that has ended.
    """
    numbered = list(enumerate(settlings))
    calls = [of_call(call) | {"place": place} for place, each in numbered for call in each.settlement.calls]
    changes = [
        change_row(change, each.claim.cause.get("id", "")) | {"place": place}
        for place, each in numbered
        for change in each.changes
    ]
    rows = [stored_row(row) | {"place": place} for place, each in numbered for row in each.rows]
    values = {
        **spread("b_settlements", _SETTLEMENT, starmap(_settlement, numbered)),
        **spread("b_calls", _CALL, calls),
        **spread("b_changes", _CHANGE, changes),
        **spread("b_rows", _ROW, rows),
        "b_lease": lease,
    }
    return set((await connection.execute(_SETTLE, values)).scalars())


def _settlement(place: int, settling: Settling) -> dict[str, Any]:
    state = settling.settlement.state
    ends = state in MACHINE.final
    whole = of_settlement(settling.claim, settling.settlement) | of_answer(settling.said)
    return whole | {"place": place, "state": state, "ends": ends, "alone": settling.alone or ends}


_SETTLEMENT: dict[str, Any] = {
    "place": sa.Integer,
    "turn_id": sa.Text,
    "fence": sa.Integer,
    "step": sa.Integer,
    "next_step": sa.Integer,
    "state": sa.Text,
    "ends": sa.Boolean,
    "alone": sa.Boolean,
    "open_calls": sa.Integer,
    "reason": sa.Text,
    "final_answer": JSON,
    "assistant_message_id": sa.Text,
    "raw": JSON,
    "model": sa.Text,
    "input_tokens": sa.Integer,
    "output_tokens": sa.Integer,
}
#: What belongs to a step, with the place of that.
_CALL = CALL_BROUGHT | {"place": sa.Integer}
_CHANGE = CHANGE_COLUMNS | {"place": sa.Integer}
_ROW = OUTBOX_COLUMNS | {"place": sa.Integer}


def _held() -> sa.CTE:
    """Lock the turns whose claims are good, with their conversations, and leave out what others hold."""
    each = brought("settlements", _SETTLEMENT)
    good = sa.and_(
        TURNS.c.fence == each.c.fence,
        TURNS.c.step == each.c.step,
        TURNS.c.state == State.THINKING,
        sa.or_(sa.not_(each.c.alone), CONVERSATIONS.c.queued == 0),
        sa.or_(CONVERSATIONS.c.ended_at.is_(None), each.c.open_calls == 0),
    )
    return (
        sa.select(*each.c)
        .select_from(
            each.join(TURNS, TURNS.c.turn_id == each.c.turn_id).join(
                CONVERSATIONS, CONVERSATIONS.c.conversation_id == TURNS.c.conversation_id
            )
        )
        .where(good)
        .with_for_update(of=[TURNS, CONVERSATIONS], key_share=True, skip_locked=True)
        .cte("held")
    )


def _settled() -> sa.Select[Any]:
    """Settle every step whose turn can be held. The parts hold together by `place`, one for each step."""
    held = _held()
    thinking = held.c.state == State.THINKING
    moved = (
        sa.update(TURNS)
        .where(TURNS.c.turn_id == held.c.turn_id)
        .values(
            state=held.c.state,
            step=held.c.next_step,
            takeovers=0,
            open_calls=held.c.open_calls,
            lease_until=sa.case((thinking, lease_end())),
            ended_at=sa.case((held.c.ends, sa.func.clock_timestamp())),
            reason=held.c.reason,
            final_answer=held.c.final_answer,
        )
        .returning(TURNS.c.turn_id, TURNS.c.tenant, TURNS.c.conversation_id, TURNS.c.message_id, held)
        .cte("moved")
    )
    freed = (
        sa.update(CONVERSATIONS)
        .where(CONVERSATIONS.c.conversation_id == moved.c.conversation_id, moved.c.ends)
        .values(turn_id=None)
        .returning(CONVERSATIONS.c.conversation_id)
        .cte("freed")
    )
    told = [
        _stored(_OWN.history, "changes", _CHANGE, moved),
        _stored(_OWN.outbox, "rows", _ROW, moved),
    ]
    return sa.select(moved.c.place).add_cte(freed, _said(moved), _proposed(moved), *told)


def _said(moved: sa.CTE) -> sa.CTE:
    names = ("turn_id", "step", "tenant", "conversation_id", "raw", "model", "input_tokens", "output_tokens")
    source = sa.select(*(moved.c[name] for name in names), moved.c.assistant_message_id)
    return sa.insert(STEPS).from_select([*names, "message_id"], source).returning(STEPS.c.turn_id).cte("said")


def _proposed(moved: sa.CTE) -> sa.CTE:
    call = brought("calls", _CALL)
    of_turn = ("turn_id", "tenant", "conversation_id", "message_id", "step")
    values = {
        **{name: call.c[name] for name in CALL_BROUGHT},
        **{name: moved.c[name] for name in of_turn},
        "answered_at": sa.case((call.c.state == ANSWERED, sa.func.clock_timestamp())),
    }
    source = sa.select(*values.values()).select_from(call.join(moved, moved.c.place == call.c.place))
    return sa.insert(CALLS).from_select(list(values), source).returning(CALLS.c.call_id).cte("proposed")


def _stored(table: sa.Table, parameter: str, kinds: dict[str, Any], moved: sa.CTE) -> sa.CTE:
    """Store the rows of a parameter that belong to steps that moved, in their order."""
    row = brought(parameter, kinds, number="number")
    names = [name for name in kinds if name != "place"]
    source = sa.select(*(row.c[name] for name in names)).select_from(row.join(moved, moved.c.place == row.c.place))
    source = source.order_by(row.c.number)
    return sa.insert(table).from_select(names, source).returning(table.c.id).cte(f"stored_{parameter}")


def _array_of(item: Any) -> sa.Function[Any]:
    """Gather items as JSON text: PostgreSQL writes that without building the binary form first, which nobody keeps."""
    return sa.func.json_agg(item, type_=sa.Text)


def _loaded() -> sa.Select[Any]:
    """Return conversations with everything their transcripts are made of: one statement, so one moment."""

    def gathered(table: sa.Table, order: Any, *columns: Any) -> Any:
        row = pg.aggregate_order_by(sa.func.json_build_array(*columns), order)
        rows = sa.select(_array_of(row)).where(table.c.conversation_id == CONVERSATIONS.c.conversation_id)
        if "turn_id" in table.c:
            rows = rows.where(table.c.turn_id.is_not(None))
        return rows.correlate(CONVERSATIONS).scalar_subquery().label(table.name)

    message, step, call = MESSAGES.c, STEPS.c, CALLS.c
    sound, interim = call.digest.is_not(None), call.interim_at.is_not(None)
    last = (call.result_kind, call.result, call.call_id, interim)
    stopped = sa.or_(call.state == CallState.STOPPED, call.told_number.is_not(None))
    called = (call.turn_id, call.step, call.position, call.provider_call_id, call.tool, call.arguments, sound)
    return sa.select(
        CONVERSATIONS.c.conversation_id,
        CONVERSATIONS.c.agent,
        CONVERSATIONS.c.language,
        CONVERSATIONS.c.labels,
        sa.func.now().label("read_at"),
        gathered(
            MESSAGES, message.number, message.turn_id, message.step, message.text, message.number, message.call_id
        ),
        gathered(STEPS, step.step, step.turn_id, step.step, step.raw),
        gathered(CALLS, call.position, *called, *last, stopped, call.told_number),
        gathered(FACTS, FACTS.c.number, FACTS.c.number, FACTS.c.text),
        _spoken(),
        _stops(),
    ).where(CONVERSATIONS.c.conversation_id == sa.any_(given("conversation_ids", pg.ARRAY(pg.TEXT))))


def _spoken() -> Any:
    """Return what an operator wrote or answered in a conversation."""
    message = MESSAGES.c
    operator = sa.case((message.author["kind"].astext == "operator", message.author["id"].astext), else_="")
    row = pg.aggregate_order_by(sa.func.json_build_array(message.number, operator, message.text), message.number)
    rows = sa.select(_array_of(row)).where(
        message.conversation_id == CONVERSATIONS.c.conversation_id, message.by_operator
    )
    return rows.correlate(CONVERSATIONS).scalar_subquery().label("spoken")


def _stops() -> Any:
    """Return where turns of a conversation were stopped."""
    turn = TURNS.c
    rows = sa.select(_array_of(turn.stopped_number)).where(
        turn.conversation_id == CONVERSATIONS.c.conversation_id, turn.stopped_number.is_not(None)
    )
    return rows.correlate(CONVERSATIONS).scalar_subquery().label("stops")


_LOAD = _loaded()
_SETTLE = _settled()
