"""SQL of turns that people stop, and of the results that their calls have afterwards.

A stop locks the turn before its calls, so it waits for none of these: whoever brings a result has locked the call and
waits for the turn, and the stop comes again after it.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from services.agent.rules import Claim, storable
from services.agent.states import CALL_MACHINE, MACHINE, CallEvent, CallState, Event, State
from services.agent.store import Answer
from services.agent.store.statements import ANSWERED, CALLS, CLAIM_COLUMNS, CONVERSATIONS, TURNS, claim_of
from shared.errors import Poison, Transient
from shared.work import Work

_STOPPED = MACHINE.next_state(State.WAITING, Event.STOPPED)
_CALL_STOPPED = CALL_MACHINE.next_state(CallState.OPEN, CallEvent.TURN_STOPPED)
_NUMBER = sa.func.nextval(sa.func.pg_get_serial_sequence("agent.messages", "number"))


@dataclass(frozen=True, slots=True)
class Running:
    """A locked turn that goes on, and its calls that have no result yet with their states."""

    claim: Claim
    state: State
    calls: tuple[tuple[str, CallState], ...]


async def lock(work: Work, tenant: str, conversation_id: str, turn_id: str) -> Running | None:
    """Lock a turn with its unanswered calls; None where it is over.

    Raises Poison where the conversation has no such turn, and Transient while another transaction holds a call.
    """
    here = (TURNS.c.turn_id == turn_id, TURNS.c.tenant == tenant, TURNS.c.conversation_id == conversation_id)
    chosen = sa.select(TURNS.c.state, *CLAIM_COLUMNS).where(*here).with_for_update(key_share=True)
    row = (await work.connection.execute(chosen)).one_or_none()
    if row is None:
        raise Poison(f"conversation {conversation_id} has no turn {turn_id}")
    if row.state in MACHINE.final:
        return None
    unanswered = (CALLS.c.turn_id == turn_id, CALLS.c.state.in_([CallState.OPEN, CallState.CONTINUED]))
    number = (await work.connection.execute(sa.select(sa.func.count()).where(*unanswered))).scalar_one()
    mine = sa.select(CALLS.c.call_id, CALLS.c.state).where(*unanswered).order_by(CALLS.c.step, CALLS.c.position)
    found = (await work.connection.execute(mine.with_for_update(key_share=True, skip_locked=True))).all()
    if len(found) < number:
        raise Transient(f"a call of turn {turn_id} is just getting its result")
    return Running(claim_of(row), State(row.state), tuple((call_id, CallState(state)) for call_id, state in found))


async def stop(work: Work, turn: Running, reason: str, *, next_turn: str) -> str | None:
    """End a locked turn; return `next_turn` where its conversation was given to it for what waits in it."""
    claim = turn.claim
    same = CONVERSATIONS.c.conversation_id == claim.conversation_id
    # The lock of the conversation stands before the number: whatever has a lower one is there.
    locked = sa.select(CONVERSATIONS.c.queued, CONVERSATIONS.c.held).where(same).with_for_update()
    place = (await work.connection.execute(locked)).one()
    call_ids = [call_id for call_id, _ in turn.calls]
    stopped_calls = sa.update(CALLS).where(CALLS.c.call_id.in_(call_ids)).values(state=_CALL_STOPPED.value)
    await work.connection.execute(stopped_calls)
    values = {
        "state": _STOPPED.value,
        "fence": claim.fence + 1,
        "open_calls": 0,
        "lease_until": None,
        "ended_at": sa.func.clock_timestamp(),
        "reason": storable(reason),
        "stopped_number": _NUMBER,
    }
    await work.connection.execute(sa.update(TURNS).where(TURNS.c.turn_id == claim.turn_id).values(values))
    begins = place.queued > 0 and not place.held
    given = {"turn_id": next_turn if begins else None} | ({"queued": 0} if begins else {})
    await work.connection.execute(sa.update(CONVERSATIONS).where(same).values(given))
    return next_turn if begins else None


async def answer(work: Work, answer: Answer) -> bool:
    """Give a call of a stopped turn its result, to be read with the next message; False where it has one."""
    same = CONVERSATIONS.c.conversation_id == answer.conversation_id
    names = ("call_id", "tenant", "conversation_id")
    here = [CALLS.c[name] == getattr(answer, name) for name in names] + [CALLS.c.state == CallState.STOPPED]
    held = await work.connection.execute(sa.select(CALLS.c.call_id).where(*here).with_for_update(key_share=True))
    if held.first() is None:
        return False
    await work.connection.execute(sa.select(CONVERSATIONS.c.tenant).where(same).with_for_update())
    values = {
        "state": ANSWERED.value,
        "result_kind": answer.result.kind,
        "result": storable(answer.result.as_json()),
        "answered_at": sa.func.clock_timestamp(),
        "told_number": _NUMBER,
    }
    await work.connection.execute(sa.update(CALLS).where(*here).values(values))
    return True
