"""The moves of a turn that goes on while people think, and of the outcomes that come later.

Beside `turns`, which has the moves that every turn makes. One transaction each, with what it records.
"""

from __future__ import annotations

from datetime import timedelta

from services.agent import meanwhile, rules, store, turns
from services.agent.meanwhile import Waiting
from services.agent.rules import Claim
from services.agent.states import CallState
from services.agent.store import Answer
from services.agent.store import meanwhile as rows
from services.agent.store.meanwhile import Late
from shared.work import Work


async def go_on_if_due(work: Work, turn: Waiting, lease: timedelta) -> Claim | None:
    """Let a locked turn go on without its open calls where it need not wait for them; return its next step.

    What its requester wrote meanwhile joins that step, and so does what came late of their earlier calls.
    """
    if not meanwhile.goes_on(turn, spoken=await _spoken(work, turn)):
        return None
    found = await rows.go_on(work, turn, lease)
    if found is None:
        return None
    claim, call_ids = found
    turns.went_on(work, claim, call_ids)
    return await turns.join_queued(work, claim)


async def take_late(work: Work, answer: Answer, new_turn: str) -> Late | None:
    """Keep the outcome of a call that the model went on without; an idle conversation is given to `new_turn`.

    None where the call has its result already.
    """
    late = await rows.take_late(work, answer, new_turn)
    if late is not None:
        turns.answered(work, answer, None, before=CallState.CONTINUED)
    return late


async def _spoken(work: Work, turn: Waiting) -> bool:
    if not turn.queued:
        return False
    return bool(rules.leading_run(await store.queued(work, turn.conversation_id), turn.author))
