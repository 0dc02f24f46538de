"""All SQL of the agent, as functions; the larger statements stand in `statements`.

Locks are taken in the order tool call, turn, conversation, so that a message, a result and a worker that meet in one
conversation wait for each other and never in a circle. Leases are judged by the database clock alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from services.agent.assembly import ModelAnswer
from services.agent.rules import Claim, Queued, Result, Settlement, storable
from services.agent.states import CallState, State
from services.agent.store import statements
from services.agent.store.statements import (
    CALL_BROUGHT,
    CALLS,
    CONVERSATIONS,
    FACTS,
    MESSAGES,
    TURNS,
    claim_of,
)
from services.agent.store.values import of_answer, of_call, of_settlement
from shared.messages import CallResolved, MessagePosted
from shared.sql import Connection, spread
from shared.work import Cause, Work


@dataclass(frozen=True, slots=True)
class Arriving:
    """A message at the door, and the claim of the turn that it begins where its conversation idles."""

    posted: MessagePosted
    claim: Claim


@dataclass(frozen=True, slots=True)
class TakenIn:
    """What became of a message at the door."""

    #: The turn that goes on in the conversation now; None where people hold it and none goes on.
    turn_id: str | None
    #: The agent that the conversation's first message chose.
    agent: str
    #: False: the same message was there before.
    is_new: bool
    #: Whether people hold the conversation: the message waits for them.
    held: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """A result at the door."""

    call_id: str
    #: Who says so; the call must be theirs.
    tenant: str
    conversation_id: str
    result: Result
    cause: Cause


@dataclass(frozen=True, slots=True)
class Answered:
    """An open call that got its result. `claim` is for the turn's next step where no other result was missing."""

    turn_id: str
    claim: Claim | None
    #: Whether a message took the place of a call of its step.
    superseded: bool


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A tool call, as far as telling why a result did not fit needs it."""

    tenant: str
    conversation_id: str
    turn_id: str
    state: CallState


@dataclass(frozen=True, slots=True)
class Settled:
    """A settle that was accepted. `next_turn_id` belongs to the messages that waited for the end of this turn."""

    next_turn_id: str | None


async def take_in(work: Work, arriving: Sequence[Arriving], lease: timedelta) -> list[TakenIn | None]:
    """Store messages of different conversations and, where a conversation idles, the turn of its message's claim.

    Return what became of each; None where its conversation is another tenant's or has ended.
    """
    values = spread("b_arriving", statements.ARRIVING, map(_of_arriving, arriving))
    rows = await work.connection.execute(statements.ARRIVE, {**values, "b_lease": lease})
    found = {row.conversation_id: TakenIn(row.turn_id, row.agent, row.number is not None, row.held) for row in rows}
    return [found.get(each.claim.conversation_id) for each in arriving]


async def has_ended(work: Work, tenant: str, conversation_id: str) -> bool:
    """Tell whether a conversation of this tenant is over."""
    here = (CONVERSATIONS.c.conversation_id == conversation_id) & (CONVERSATIONS.c.tenant == tenant)
    found = sa.select(CONVERSATIONS.c.conversation_id).where(here, CONVERSATIONS.c.ended_at.is_not(None))
    return (await work.connection.execute(found)).first() is not None


async def forget_arrival(work: Work, claim: Claim, taken: TakenIn) -> str:
    """Undo what a message that was there before did to its conversation; return the text that it had first."""
    mine = taken.turn_id == claim.turn_id
    values = {"turn_id": None} if mine else {"queued": CONVERSATIONS.c.queued - 1}
    same = CONVERSATIONS.c.conversation_id == claim.conversation_id
    await work.connection.execute(sa.update(CONVERSATIONS).where(same).values(values))
    found = (MESSAGES.c.conversation_id == claim.conversation_id) & (MESSAGES.c.message_id == claim.message_id)
    text: str = (await work.connection.execute(sa.select(MESSAGES.c.text).where(found))).scalar_one()
    return text


async def open_calls(work: Work, turn_id: str, author: dict[str, str]) -> list[str]:
    """Return the calls that have no result yet, in their order, of a turn that answers `author`."""
    statement = (
        sa.select(CALLS.c.call_id)
        .join_from(CALLS, TURNS, CALLS.c.turn_id == TURNS.c.turn_id)
        .where(TURNS.c.turn_id == turn_id, TURNS.c.author == author, CALLS.c.state == CallState.OPEN)
        .order_by(CALLS.c.step, CALLS.c.position)
    )
    return list((await work.connection.execute(statement)).scalars())


async def agent_of(work: Work, conversation_id: str) -> str:
    """Return the agent that the first message of a conversation chose."""
    here = CONVERSATIONS.c.conversation_id == conversation_id
    agent: str = (await work.connection.execute(sa.select(CONVERSATIONS.c.agent).where(here))).scalar_one()
    return agent


async def end(work: Work, tenant: str, conversation_id: str) -> list[str] | None:
    """End a conversation; return its calls without a result, in their order, None where there is no such conversation.

    Under the conversation's lock: what a worker proposes is either there by then, or its worker finds the end.
    """
    here = (CONVERSATIONS.c.conversation_id == conversation_id) & (CONVERSATIONS.c.tenant == tenant)
    over = sa.func.coalesce(CONVERSATIONS.c.ended_at, sa.func.clock_timestamp())
    ending = sa.update(CONVERSATIONS).where(here).values(ended_at=over).returning(CONVERSATIONS.c.conversation_id)
    if (await work.connection.execute(ending)).first() is None:
        return None
    waiting = sa.select(CALLS.c.call_id).where(
        CALLS.c.conversation_id == conversation_id, CALLS.c.state != CallState.ANSWERED
    )
    ordered = waiting.order_by(CALLS.c.turn_id, CALLS.c.step, CALLS.c.position)
    return list((await work.connection.execute(ordered)).scalars())


async def answer(work: Work, answers: Sequence[Answer], lease: timedelta) -> list[Answered | None]:
    """Give open calls of different conversations their results; return what came of each, None where none is open."""
    values = spread("b_answering", statements.ANSWERING, map(_of_answering, answers))
    rows = await work.connection.execute(statements.ANSWER, {**values, "b_lease": lease})
    kinds = {each.call_id: each.result.kind for each in answers}
    # What the statement itself writes it does not see.
    found = {
        row.call_id: Answered(row.turn_id, _claim_if_last(row), row.superseded or kinds[row.call_id] == "superseded")
        for row in rows
    }
    return [found.get(each.call_id) for each in answers]


def _claim_if_last(row: Any) -> Claim | None:
    return claim_of(row) if row.state == State.THINKING else None


async def load_call(work: Work, call_id: str) -> StoredCall | None:
    """Return a tool call."""
    wanted = [CALLS.c[name] for name in ("tenant", "conversation_id", "turn_id", "state")]
    row = (await work.connection.execute(sa.select(*wanted).where(CALLS.c.call_id == call_id))).one_or_none()
    return None if row is None else StoredCall(row.tenant, row.conversation_id, row.turn_id, CallState(row.state))


async def add_fact(work: Work, resolved: CallResolved, text: str) -> bool:
    """Store what became known of a call; False where the conversation has no such call or knows it already.

    The conversation is locked, so that every message with a lower number is there: what the model has read once stays.
    """
    place = (CALLS.c.tenant == resolved.tenant) & (CALLS.c.conversation_id == resolved.conversation_id)
    call = sa.select(CALLS.c.call_id).where(place, CALLS.c.call_id == resolved.call_id)
    here = CONVERSATIONS.c.conversation_id == resolved.conversation_id
    await work.connection.execute(sa.select(CONVERSATIONS.c.tenant).where(here).with_for_update())
    number = sa.func.nextval(sa.func.pg_get_serial_sequence("agent.messages", "number"))
    ours = (sa.literal(each) for each in (resolved.tenant, resolved.conversation_id))
    source = call.add_columns(*ours, number, sa.literal(storable(text)))
    names = ["call_id", "tenant", "conversation_id", "number", "text"]
    added = pg.insert(FACTS).from_select(names, source).on_conflict_do_nothing()
    return (await work.connection.execute(added.returning(FACTS.c.call_id))).first() is not None


async def settle(
    work: Work, claim: Claim, settlement: Settlement, said: ModelAnswer | None, *, next_turn: str, lease: timedelta
) -> Settled | None:
    """Store what became of a claimed step; None where the claim is no longer good, and then nothing is stored."""
    statement = statements.settle(settlement.state, spoken=said is not None, called=bool(settlement.calls))
    whole = of_settlement(claim, settlement) | (of_answer(said) if said else {})
    values = {
        **{f"b_{name}": value for name, value in whole.items()},
        **(spread("b_calls", CALL_BROUGHT, map(of_call, settlement.calls)) if settlement.calls else {}),
        "b_new_turn": next_turn,
        "b_lease": lease,
    }
    row = (await work.connection.execute(statement, values)).one_or_none()
    return None if row is None else Settled(row.next_turn_id)


async def turn_now(work: Work, turn_id: str) -> tuple[State, int]:
    """Return the state and the fence of a turn."""
    statement = sa.select(TURNS.c.state, TURNS.c.fence).where(TURNS.c.turn_id == turn_id)
    row = (await work.connection.execute(statement)).one()
    return State(row.state), row.fence


async def lock_queue(work: Work, claim: Claim) -> tuple[int, bool]:
    """Lock turn and conversation; return how many messages wait and whether it ended, (0, False) for a lost claim.

    What waits for people, who hold the conversation, does not wait for the turn.
    """
    statement = (
        sa.select(
            sa.case((CONVERSATIONS.c.held, 0), else_=CONVERSATIONS.c.queued), CONVERSATIONS.c.ended_at.is_not(None)
        )
        .join_from(TURNS, CONVERSATIONS, TURNS.c.conversation_id == CONVERSATIONS.c.conversation_id)
        .where(statements.claimed())
        .with_for_update(of=[TURNS, CONVERSATIONS])
    )
    values = {"b_turn_id": claim.turn_id, "b_fence": claim.fence, "b_step": claim.step}
    row = (await work.connection.execute(statement, values)).one_or_none()
    return (0, False) if row is None else (row[0], row[1])


async def queued(work: Work, conversation_id: str) -> list[Queued]:
    """Return what waits for a turn, in its order: messages of people, and late outcomes of calls.

    Nothing does where people hold the conversation.
    """
    answers = sa.func.coalesce(CALLS.c.message_id, MESSAGES.c.message_id)
    statement = (
        sa.select(MESSAGES.c.message_id, answers, MESSAGES.c.author, MESSAGES.c.cause, MESSAGES.c.call_id.is_not(None))
        .outerjoin_from(MESSAGES, CALLS, CALLS.c.call_id == MESSAGES.c.call_id)
        .join(CONVERSATIONS, CONVERSATIONS.c.conversation_id == MESSAGES.c.conversation_id)
        .where(MESSAGES.c.conversation_id == conversation_id, MESSAGES.c.turn_id.is_(None))
        .where(sa.not_(MESSAGES.c.by_operator), sa.not_(CONVERSATIONS.c.held))
        .order_by(MESSAGES.c.number)
    )
    return [Queued(*row) for row in await work.connection.execute(statement)]


async def begin_queued(work: Work, claim: Claim, run: Sequence[Queued], left: int, lease: timedelta) -> None:
    """Store the turn of `claim` for queued messages; `left` of them stay queued."""
    await _give(work, run, claim)
    values = {f"b_{name}": value for name, value in _of_claim(claim).items()}
    await work.connection.execute(statements.BEGIN, {**values, "b_lease": lease})
    await _set_queued(work, claim, sa.literal(left))


async def join(work: Work, claim: Claim, run: Sequence[Queued]) -> None:
    """Let queued messages join the turn of `claim` at its step."""
    await _give(work, run, claim)
    values = {"message_id": claim.message_id, "cause": claim.cause}
    await work.connection.execute(sa.update(TURNS).where(TURNS.c.turn_id == claim.turn_id).values(values))
    await _set_queued(work, claim, CONVERSATIONS.c.queued - len(run))


async def take_over(work: Work, limit: int, lease: timedelta) -> list[tuple[Claim, int]]:
    """Claim at most `limit` turns whose lease ran out; return each with how often its step was taken over."""
    rows = await work.connection.execute(statements.TAKE_OVER, {"b_limit": limit, "b_lease": lease})
    return [(claim_of(row), row.takeovers) for row in rows]


async def renew(connection: Connection, claim: Claim, lease: timedelta) -> bool:
    """Renew the lease of a claim; False where a newer fence was given.

    A turn that this very claim has just settled has no lease to renew, and is not lost either.
    """
    thinking = sa.case((TURNS.c.state == State.THINKING, statements.lease_end()))
    same = (TURNS.c.turn_id == claim.turn_id) & (TURNS.c.fence == claim.fence)
    result = await connection.execute(sa.update(TURNS).where(same).values(lease_until=thinking), {"b_lease": lease})
    return bool(result.rowcount)


async def give_back(connection: Connection, claim: Claim) -> None:
    """End the lease of a claim now, so that another worker takes the turn over at once."""
    same = (TURNS.c.turn_id == claim.turn_id) & (TURNS.c.fence == claim.fence) & (TURNS.c.state == State.THINKING)
    await connection.execute(sa.update(TURNS).where(same).values(lease_until=sa.func.clock_timestamp()))


async def give_back_all(connection: Connection) -> None:
    """End every lease now: for who knows that no other worker is there, as on the embedded footing at start."""
    thinking = TURNS.c.state == State.THINKING
    await connection.execute(sa.update(TURNS).where(thinking).values(lease_until=sa.func.clock_timestamp()))


async def _give(work: Work, run: Sequence[Queued], claim: Claim) -> None:
    chosen = MESSAGES.c.message_id.in_([message.message_id for message in run])
    same = (MESSAGES.c.conversation_id == claim.conversation_id) & chosen
    await work.connection.execute(sa.update(MESSAGES).where(same).values(turn_id=claim.turn_id, step=claim.step))


async def _set_queued(work: Work, claim: Claim, number: sa.ColumnElement[int]) -> None:
    same = CONVERSATIONS.c.conversation_id == claim.conversation_id
    await work.connection.execute(sa.update(CONVERSATIONS).where(same).values(queued=number))


def _of_claim(claim: Claim) -> dict[str, Any]:
    names = ("tenant", "conversation_id", "turn_id", "message_id", "author", "cause")
    return {name: getattr(claim, name) for name in names}


def _of_arriving(arriving: Arriving) -> dict[str, Any]:
    posted = arriving.posted
    texts = {"labels": storable(posted.labels), "text": storable(posted.text)}
    return _of_claim(arriving.claim) | {"agent": posted.agent, "language": posted.language, **texts}


def _of_answering(answer: Answer) -> dict[str, Any]:
    return {
        "call_id": answer.call_id,
        "tenant": answer.tenant,
        "conversation_id": answer.conversation_id,
        "kind": answer.result.kind,
        "result": storable(answer.result.as_json()),
        "cause": {"id": answer.cause.id, "traceparent": answer.cause.traceparent},
    }
