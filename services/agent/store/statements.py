"""The agent's larger statements, built once. Each moves a turn together with everything that belongs to the move.

A gated call crosses this service four times, and a round trip to the database costs more than what it does there; so
one statement takes a message in, one settles a step and one takes a result, whatever follows from it. They hold
together by their data: the second part of each reads what the first part returned, and is nothing where that was
nothing. Parameters are called `b_<name>`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from services.agent.rules import Claim
from services.agent.states import CALL_MACHINE, MACHINE, CallEvent, CallState, Event, State
from services.agent.tables import CallRow, ConversationRow, MessageRow, StepRow, TurnRow
from shared.database import table_of

CONVERSATIONS = table_of(ConversationRow)
MESSAGES = table_of(MessageRow)
TURNS = table_of(TurnRow)
STEPS = table_of(StepRow)
CALLS = table_of(CallRow)

CLAIM_COLUMNS = tuple(TURNS.c[name] for name in Claim.__slots__)
_THINKING_AGAIN = MACHINE.next_state(State.WAITING, Event.RESULTS_COMPLETE)
ANSWERED = CALL_MACHINE.next_state(CallState.OPEN, CallEvent.RESULT_CAME)


def given(name: str, kind: Any = sa.Text) -> sa.BindParameter[Any]:
    """Return the parameter `b_<name>`."""
    return sa.bindparam(f"b_{name}", type_=kind)


def lease_end() -> sa.ColumnElement[Any]:
    """Return the end of a lease that begins now, by the clock and not by the transaction's beginning."""
    return sa.func.clock_timestamp() + given("lease", sa.Interval)


def _arrive() -> sa.Select[Any]:
    """Take a message in: get or create its conversation, give it a turn of its own where none goes on, else queue it.

    Nothing comes back where the conversation is another tenant's; no number where the message was there before.
    """
    conversation = _conversation_taken()
    message_columns = ["conversation_id", "message_id", "tenant", "text", "author", "cause", "turn_id", "step"]
    begins = conversation.c.turn_id == given("new_turn")
    message = (
        pg.insert(MESSAGES)
        .from_select(
            message_columns,
            sa.select(
                given("conversation_id"),
                given("message_id"),
                given("tenant"),
                given("text"),
                given("author", pg.JSONB),
                given("cause", pg.JSONB),
                sa.case((begins, given("new_turn"))),
                sa.case((begins, sa.literal(1))),
            ).select_from(conversation),
        )
        .on_conflict_do_nothing()
        .returning(MESSAGES.c.number)
        .cte("message")
    )
    values = _turn_values()
    born = sa.select(*values.values()).select_from(conversation.join(message, sa.true())).where(begins)
    turn = sa.insert(TURNS).from_select(list(values), born)
    return (
        sa.select(conversation.c.turn_id, conversation.c.agent, message.c.number)
        .select_from(conversation.outerjoin(message, sa.true()))
        .add_cte(turn.returning(TURNS.c.turn_id).cte("turn"))
    )


def _conversation_taken() -> sa.CTE:
    arriving = pg.insert(CONVERSATIONS).values(
        conversation_id=given("conversation_id"),
        tenant=given("tenant"),
        agent=given("agent"),
        language=given("language"),
        labels=given("labels", pg.JSONB),
        turn_id=given("new_turn"),
        queued=0,
    )
    held = CONVERSATIONS.c
    return (
        arriving.on_conflict_do_update(
            index_elements=[held.conversation_id],
            set_={
                "turn_id": sa.func.coalesce(held.turn_id, arriving.excluded.turn_id),
                "queued": held.queued + sa.case((held.turn_id.is_(None), 0), else_=1),
            },
            where=held.tenant == arriving.excluded.tenant,
        )
        .returning(held.turn_id, held.agent)
        .cte("conversation")
    )


def _turn_values() -> dict[str, sa.ColumnElement[Any]]:
    """Return the columns of a turn that is claimed as it is born."""
    return {
        "turn_id": given("new_turn"),
        "tenant": given("tenant"),
        "conversation_id": given("conversation_id"),
        "state": sa.literal(MACHINE.initial.value),
        "step": sa.literal(1),
        "fence": sa.literal(1),
        "takeovers": sa.literal(0),
        "open_calls": sa.literal(0),
        "lease_until": lease_end(),
        "message_id": given("message_id"),
        "author": given("author", pg.JSONB),
        "cause": given("cause", pg.JSONB),
        "reason": sa.literal(""),
    }


@cache
def settle(to: State, *, spoken: bool, called: bool) -> sa.Select[Any]:
    """Settle a step of a claimed turn: the turn moves to `to`, the answer and its calls are stored.

    Where the turn ends, the conversation is freed, or given to the turn `b_new_turn` where messages wait for one.
    Nothing comes back where the claim is no longer good.
    """
    moved = _moved(to)
    statement = sa.select(moved.c.turn_id, sa.null().label("next_turn_id"))
    if to in MACHINE.final:
        freed = (
            sa.update(CONVERSATIONS)
            .where(CONVERSATIONS.c.conversation_id == moved.c.conversation_id)
            .values(turn_id=sa.case((CONVERSATIONS.c.queued > 0, given("new_turn"))), queued=0)
            .returning(CONVERSATIONS.c.turn_id)
            .cte("freed")
        )
        statement = sa.select(moved.c.turn_id, freed.c.turn_id.label("next_turn_id"))
        statement = statement.select_from(moved.join(freed, sa.true()))
    extra = [_said(moved)] if spoken else []
    extra += [_proposed(moved)] if called else []
    return statement.add_cte(*extra)


def claimed() -> sa.ColumnElement[bool]:
    """Return the condition that a claim still holds."""
    return sa.and_(
        TURNS.c.turn_id == given("turn_id"),
        TURNS.c.fence == given("fence", sa.Integer),
        TURNS.c.step == given("step", sa.Integer),
        TURNS.c.state == State.THINKING,
    )


def _moved(to: State) -> sa.CTE:
    thinking = to is State.THINKING
    values = {
        "state": to.value,
        "step": given("next_step", sa.Integer),
        "takeovers": 0,
        "open_calls": given("open_calls", sa.Integer),
        "lease_until": lease_end() if thinking else sa.null(),
        "ended_at": sa.func.clock_timestamp() if to in MACHINE.final else sa.null(),
        "reason": given("reason"),
        "final_answer": given("final_answer", pg.JSONB(none_as_null=True)),
    }
    update = sa.update(TURNS).where(claimed()).values(values)
    return update.returning(TURNS.c.turn_id, TURNS.c.tenant, TURNS.c.conversation_id, TURNS.c.message_id).cte("moved")


def _said(moved: sa.CTE) -> sa.CTE:
    values = {
        "turn_id": moved.c.turn_id,
        "step": given("step", sa.Integer),
        "tenant": moved.c.tenant,
        "conversation_id": moved.c.conversation_id,
        "message_id": given("assistant_message_id"),
        "raw": given("raw", pg.JSONB),
        "model": given("model"),
        "input_tokens": given("input_tokens", sa.Integer),
        "output_tokens": given("output_tokens", sa.Integer),
    }
    source = sa.select(*values.values()).select_from(moved)
    return sa.insert(STEPS).from_select(list(values), source).returning(STEPS.c.turn_id).cte("said")


#: Columns of a call that `b_calls` brings.
CALL_BROUGHT = {
    "call_id": sa.Text,
    "position": sa.Integer,
    "provider_call_id": sa.Text,
    "tool": sa.Text,
    "arguments": sa.Text,
    "shown_arguments": sa.Text,
    "digest": sa.Text,
    "state": sa.Text,
    "result_kind": sa.Text,
    "result": pg.JSONB,
}


def brought(parameter: str, kinds: dict[str, Any]) -> sa.TableValuedAlias:
    """Return the rows that `b_<parameter>` brings, a JSON array of objects; `kinds` are the types of its columns."""
    columns: list[Any] = [sa.column(name, kind) for name, kind in kinds.items()]
    rows = sa.func.jsonb_to_recordset(given(parameter, pg.JSONB)).table_valued(*columns)
    return rows.render_derived(name=f"brought_{parameter}", with_types=True)


def _proposed(moved: sa.CTE) -> sa.CTE:
    call = brought("calls", CALL_BROUGHT)
    values = {
        **{name: call.c[name] for name in CALL_BROUGHT},
        "turn_id": moved.c.turn_id,
        "tenant": moved.c.tenant,
        "conversation_id": moved.c.conversation_id,
        "message_id": moved.c.message_id,
        "step": given("step", sa.Integer),
        "answered_at": sa.case((call.c.state == ANSWERED, sa.func.clock_timestamp())),
    }
    source = sa.select(*values.values()).select_from(moved.join(call, sa.true()))
    return sa.insert(CALLS).from_select(list(values), source).returning(CALLS.c.call_id).cte("proposed")


def _answer() -> Any:
    """Give an open call its result; with the last one of the step, claim the turn for the next step.

    The counter on the turn's row is the barrier: two results at the same time wait for each other there, and exactly
    one of them finds that it was the last.
    """
    answered = (
        sa.update(CALLS)
        .where(
            CALLS.c.call_id == given("call_id"),
            CALLS.c.tenant == given("tenant"),
            CALLS.c.conversation_id == given("conversation_id"),
            CALLS.c.state == CallState.OPEN,
        )
        .values(
            state=ANSWERED.value,
            result_kind=given("kind"),
            result=given("result", pg.JSONB),
            answered_at=sa.func.clock_timestamp(),
        )
        .returning(CALLS.c.turn_id)
        .cte("answered")
    )
    last = TURNS.c.open_calls == 1
    return (
        sa.update(TURNS)
        .where(TURNS.c.turn_id == answered.c.turn_id)
        .values(
            open_calls=TURNS.c.open_calls - 1,
            state=sa.case((last, _THINKING_AGAIN.value), else_=TURNS.c.state),
            step=TURNS.c.step + sa.case((last, 1), else_=0),
            fence=TURNS.c.fence + sa.case((last, 1), else_=0),
            lease_until=sa.case((last, lease_end())),
            cause=TURNS.c.cause.concat(given("cause", pg.JSONB)),
        )
        .returning(TURNS.c.state, *CLAIM_COLUMNS)
    )


def _take_over() -> Any:
    due = (
        sa.select(TURNS.c.turn_id)
        .where(TURNS.c.state == State.THINKING, TURNS.c.lease_until < sa.func.clock_timestamp())
        .order_by(TURNS.c.lease_until)
        .limit(given("limit", sa.Integer))
        .with_for_update(skip_locked=True)
    )
    return (
        sa.update(TURNS)
        .where(TURNS.c.turn_id.in_(due))
        .values(fence=TURNS.c.fence + 1, takeovers=TURNS.c.takeovers + 1, lease_until=lease_end())
        .returning(TURNS.c.takeovers, *CLAIM_COLUMNS)
    )


ARRIVE = _arrive()
BEGIN = sa.insert(TURNS).values(_turn_values())
ANSWER = _answer()
TAKE_OVER = _take_over()
