"""The moves of a turn that a person stops. One transaction each, with what it records and sends.

The turn ends at once, under its lock: the model's answer under way finds a newer fence and is thrown away. Calls that
people think about are withdrawn; those that run go on, and what became of them is read with the next message. So a
stop is true of the turn and claims nothing about a call.
"""

from __future__ import annotations

from datetime import timedelta

from services.agent import rules, turns
from services.agent.rules import Claim
from services.agent.states import CallState
from services.agent.store import Answer
from services.agent.store import stopping as rows
from shared.ids import new_id
from shared.messages import CallsWithdrawn, StopTurn
from shared.work import Work


async def stop(work: Work, asked: StopTurn, lease: timedelta) -> Claim | None:
    """Stop a turn; return the claim of the turn that begins for what waited behind it, if anything did.

    A turn that is over stays as it ended. Raises Poison for a turn that is not this conversation's, and Transient while
    a result of one of its calls is being stored.
    """
    turn = await rows.lock(work, asked.tenant, asked.conversation_id, asked.turn_id)
    if turn is None:
        await turns.record_late_stop(work, asked.tenant, asked.turn_id, asked.by)
        return None
    reason = rules.stopped_by(asked.by)
    next_turn = await rows.stop(work, turn, reason, next_turn=new_id())
    turns.stopped(work, turn.claim, turn.state, reason)
    turns.calls_stopped(work, turn.claim, turn.calls)
    if turn.calls:
        place = {"tenant": asked.tenant, "conversation_id": asked.conversation_id}
        call_ids = [call_id for call_id, _ in turn.calls]
        work.emit(CallsWithdrawn(**place, call_ids=call_ids, kind="cancelled", reason=rules.withdrawn_by(asked.by)))
    return await turns.begin_next(work, turn.claim, next_turn, lease) if next_turn else None


async def take_result(work: Work, answer: Answer) -> bool:
    """Keep the result of a call whose turn was stopped; False where another result was faster."""
    if not await rows.answer(work, answer):
        return False
    turns.answered(work, answer, None, before=CallState.STOPPED)
    return True
