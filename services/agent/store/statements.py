"""The agent's larger statements, built once. Each moves a turn together with everything that belongs to the move.

A gated call crosses this service four times, and a round trip to the database costs more than what it does there; so
one statement takes messages in, one settles a step and one takes results, whatever follows from them. They hold
together by their data: the second part of each reads what the first part returned, and is nothing where that was
nothing. Parameters are called `b_<name>`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from services.agent.rules import Claim
from services.agent.states import CALL_MACHINE, MACHINE, CallEvent, CallState, Event, State
from services.agent.tables import CallRow, ConversationRow, FactRow, MessageRow, StepRow, TurnRow
from shared.database import table_of
from shared.sql import arrays

CONVERSATIONS = table_of(ConversationRow)
MESSAGES = table_of(MessageRow)
TURNS = table_of(TurnRow)
STEPS = table_of(StepRow)
CALLS = table_of(CallRow)
FACTS = table_of(FactRow)

CLAIM_COLUMNS = tuple(TURNS.c[name] for name in Claim.__slots__)
_THINKING_AGAIN = MACHINE.next_state(State.WAITING, Event.RESULTS_COMPLETE)
ANSWERED = CALL_MACHINE.next_state(CallState.OPEN, CallEvent.RESULT_CAME)


def given(name: str, kind: Any = sa.Text) -> sa.BindParameter[Any]:
    """Return the parameter `b_<name>`."""
    return sa.bindparam(f"b_{name}", type_=kind)


def brought(parameter: str, kinds: Mapping[str, Any], *, number: str | None = None) -> sa.TableValuedAlias:
    """Return the rows that `spread` brings as `b_<parameter>`; `number` names a column with their place, from 1."""
    return arrays(f"b_{parameter}", kinds, number=number)


def lease_end() -> sa.ColumnElement[Any]:
    """Return the end of a lease that begins now, by the clock and not by the transaction's beginning."""
    return sa.func.clock_timestamp() + given("lease", sa.Interval)


def claim_of(row: Any) -> Claim:
    """Return the claim that a statement returned the columns of."""
    return Claim(**{column.name: getattr(row, column.name) for column in CLAIM_COLUMNS})


#: JSON that may be missing.
JSON = pg.JSONB(none_as_null=True)

#: What a message that arrives brings: itself, and the turn that it begins where its conversation idles.
ARRIVING = {
    **dict.fromkeys(("conversation_id", "message_id", "tenant", "agent", "language", "text", "turn_id"), sa.Text),
    **dict.fromkeys(("labels", "author", "cause"), JSON),
}


def _arrive() -> sa.Select[Any]:
    """Take messages of different conversations in.

    Get or create the conversation, give it a turn of its own where none goes on, else queue the message, as where
    people hold it. No row comes back where the conversation is another tenant's or has ended; no number where the
    message was there before.
    """
    arriving = _cte_of(brought("arriving", ARRIVING), "arriving")
    conversation = _conversation_taken(arriving)
    same = conversation.c.conversation_id == arriving.c.conversation_id
    begins = conversation.c.turn_id == arriving.c.turn_id
    kept = ("conversation_id", "message_id", "tenant", "text", "author", "cause")
    values = {
        **{name: arriving.c[name] for name in kept},
        "turn_id": sa.case((begins, arriving.c.turn_id)),
        "step": sa.case((begins, sa.literal(1))),
    }
    source = sa.select(*values.values()).select_from(conversation.join(arriving, same))
    message = (
        pg.insert(MESSAGES)
        .from_select(list(values), source)
        .on_conflict_do_nothing()
        .returning(MESSAGES.c.conversation_id, MESSAGES.c.number)
        .cte("message")
    )
    stored = message.c.conversation_id == conversation.c.conversation_id
    turn = _turn_values(lambda name: arriving.c[name])
    born = sa.select(*turn.values()).select_from(conversation.join(message, stored).join(arriving, same)).where(begins)
    begun = sa.insert(TURNS).from_select(list(turn), born).returning(TURNS.c.turn_id).cte("turn")
    columns = [conversation.c[name] for name in ("conversation_id", "turn_id", "agent", "held")]
    taken = sa.select(*columns, message.c.number).select_from(conversation.outerjoin(message, stored))
    return taken.add_cte(begun)


def _conversation_taken(arriving: sa.CTE) -> sa.CTE:
    """Get or create conversations in the order of their ids, so that two batches cannot lock each other out."""
    known, chosen = CONVERSATIONS.c, ("conversation_id", "tenant", "agent", "language", "labels", "turn_id")
    source = sa.select(*(arriving.c[name] for name in chosen), sa.literal(0)).order_by(arriving.c.conversation_id)
    taken = pg.insert(CONVERSATIONS).from_select([*chosen, "queued"], source)
    return (
        taken.on_conflict_do_update(
            index_elements=[known.conversation_id],
            set_={
                "turn_id": sa.func.coalesce(known.turn_id, sa.case((sa.not_(known.held), taken.excluded.turn_id))),
                "queued": known.queued + sa.case((sa.or_(known.turn_id.is_not(None), known.held), 1), else_=0),
            },
            where=sa.and_(known.tenant == taken.excluded.tenant, known.ended_at.is_(None)),
        )
        .returning(known.conversation_id, known.turn_id, known.agent, known.held)
        .cte("conversation")
    )


def _cte_of(rows: sa.TableValuedAlias, name: str) -> sa.CTE:
    """Return rows that a statement reads more than once, taken apart only once."""
    return sa.select(*rows.c).cte(name)


def _turn_values(claim: Callable[[str], sa.ColumnElement[Any]]) -> dict[str, sa.ColumnElement[Any]]:
    """Return the columns of a turn that is claimed as it is born; `claim` returns a field of its claim by name."""
    return {
        **{name: claim(name) for name in ("turn_id", "tenant", "conversation_id", "message_id", "author", "cause")},
        "state": sa.literal(MACHINE.initial.value),
        "step": sa.literal(1),
        "fence": sa.literal(1),
        "takeovers": sa.literal(0),
        "open_calls": sa.literal(0),
        "lease_until": lease_end(),
        "reason": sa.literal(""),
    }


@cache
def settle(to: State, *, spoken: bool, called: bool) -> sa.Select[Any]:
    """Settle a step of a claimed turn: the turn moves to `to`, the answer and its calls are stored.

    Where the turn ends, the conversation is freed, or given to the turn `b_new_turn` where messages wait for one and
    not for people, who hold it.
    Nothing comes back where the claim is no longer good.
    """
    moved = _moved(to)
    statement = sa.select(moved.c.turn_id, sa.null().label("next_turn_id"))
    if to in MACHINE.final:
        freed = (
            sa.update(CONVERSATIONS)
            .where(CONVERSATIONS.c.conversation_id == moved.c.conversation_id)
            .values(
                turn_id=sa.case(
                    (sa.and_(CONVERSATIONS.c.queued > 0, sa.not_(CONVERSATIONS.c.held)), given("new_turn"))
                ),
                queued=sa.case((CONVERSATIONS.c.held, CONVERSATIONS.c.queued), else_=0),
            )
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
        "final_answer": given("final_answer", JSON),
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


#: What a call brings.
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
    "result": JSON,
}


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


#: What a result brings to its call.
ANSWERING = {
    **dict.fromkeys(("call_id", "tenant", "conversation_id", "kind"), sa.Text),
    **dict.fromkeys(("result", "cause"), JSON),
}


def _answer() -> Any:
    """Give open calls of different conversations their results; with the last one of a step, claim its turn again.

    The counter on the turn's row is the barrier: two results at the same time wait for each other there, and exactly
    one of them finds that it was the last.
    """
    given_result = brought("answering", ANSWERING)
    answered = (
        sa.update(CALLS)
        .where(
            *(CALLS.c[name] == given_result.c[name] for name in ("call_id", "tenant", "conversation_id")),
            CALLS.c.state == CallState.OPEN,
        )
        .values(
            state=ANSWERED.value,
            result_kind=given_result.c.kind,
            result=given_result.c.result,
            answered_at=sa.func.clock_timestamp(),
        )
        .returning(CALLS.c.call_id, CALLS.c.turn_id, given_result.c.cause)
        .cte("answered")
    )
    held = _turns_held(answered)
    last = TURNS.c.open_calls == 1
    # What is returned of the turn is new: the step that has just ended is the one before.
    beside = CALLS.alias("beside")
    superseded = sa.exists().where(
        beside.c.turn_id == TURNS.c.turn_id,
        beside.c.step == TURNS.c.step - 1,
        beside.c.result_kind == "superseded",
    )
    return (
        sa.update(TURNS)
        .where(TURNS.c.turn_id == held.c.turn_id)
        .values(
            open_calls=TURNS.c.open_calls - 1,
            state=sa.case((last, _THINKING_AGAIN.value), else_=TURNS.c.state),
            step=TURNS.c.step + sa.case((last, 1), else_=0),
            fence=TURNS.c.fence + sa.case((last, 1), else_=0),
            lease_until=sa.case((last, lease_end())),
            cause=TURNS.c.cause.concat(held.c.cause),
        )
        .returning(held.c.call_id, TURNS.c.state, superseded.label("superseded"), *CLAIM_COLUMNS)
    )


def _turns_held(answered: sa.CTE) -> sa.CTE:
    """Lock the turns of answered calls in the order of their ids, so that two batches cannot lock each other out."""
    return (
        sa.select(TURNS.c.turn_id, answered.c.call_id, answered.c.cause)
        .join_from(answered, TURNS, TURNS.c.turn_id == answered.c.turn_id)
        .order_by(TURNS.c.turn_id)
        .with_for_update(of=TURNS, key_share=True)
        .cte("held")
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
BEGIN = sa.insert(TURNS).values(_turn_values(lambda name: given(name, ARRIVING[name])))
ANSWER = _answer()
TAKE_OVER = _take_over()
