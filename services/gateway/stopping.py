"""Stopping the turn that runs in a conversation. The agent owns turns, so the stop is a message to it."""

from __future__ import annotations

from services.gateway.auth import Caller
from services.gateway.conversations import no_conversation
from services.gateway.keys import Scope
from services.gateway.store import reading
from services.gateway.store.conversations import load_conversation
from services.gateway.store.turns import load_newest_turn
from shared.messages import StopTurn
from shared.work import UnitOfWork


async def stop(units: UnitOfWork, caller: Caller, conversation_id: str) -> str | None:
    """Ask the agent to stop the turn that runs; return its id, None where none runs.

    It names the turn, so that it can never stop a later one, however often and late it comes. Raises Refused: 403
    (scope), 404.
    """
    caller.need(Scope.CHAT)
    async with reading(units.database) as connection:
        conversation = await load_conversation(connection, caller.tenant, conversation_id)
        if conversation is None or not caller.sees(conversation_id):
            raise no_conversation()
        turn = await load_newest_turn(connection, caller.tenant, conversation_id)
    if turn is None or turn["ended_at"] is not None:
        return None
    turn_id = str(turn["turn_id"])
    async with units.begin() as work:
        work.emit(StopTurn(tenant=caller.tenant, conversation_id=conversation_id, turn_id=turn_id, by=caller.person))
    return turn_id
