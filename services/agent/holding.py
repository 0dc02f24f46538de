"""The moves of a conversation that people take over and give back. One transaction each.

The gateway keeps who holds a conversation; the agent follows. While people hold it no turn begins: a turn that runs
goes on to its end without hearing what is written meanwhile, one that waits for approvals goes on when they are
decided. When the conversation comes back, what operators did not answer is answered by the model, and what they said is
told to it.
"""

from __future__ import annotations

from datetime import timedelta

from services.agent import store, turns
from services.agent.rules import Claim
from services.agent.store import holders
from services.agent.store.holders import Place
from shared.ids import new_id
from shared.messages import HolderChanged
from shared.work import Work


async def hold(work: Work, tenant: str, conversation_id: str, revision: int) -> None:
    """Let people hold a conversation, unless a newer change is known; raise Transient before its first message."""
    if await holders.knows(work, tenant, conversation_id, revision):
        return
    place = await holders.lock(work, tenant, conversation_id)
    if place.revision < revision:
        await holders.take(work, conversation_id, revision)


async def give_back(work: Work, changed: HolderChanged, lease: timedelta) -> tuple[Claim | None, Place | None]:
    """Let the agent hold a conversation again, unless a newer change is known.

    Return the claim of the turn that begins for what waits, or else the conversation where a turn goes on in it and
    something waits behind it. Raises Transient before its first message.
    """
    tenant, conversation_id = changed.tenant, changed.conversation_id
    place = await holders.lock(work, tenant, conversation_id)
    if place.revision >= changed.revision:
        return None, None
    begins = bool(place.queued) and place.turn_id is None
    turn_id = new_id() if begins else place.turn_id
    await holders.move_behind(work, conversation_id)
    await holders.give_back(work, conversation_id, changed.revision, turn_id)
    if turn_id is None or not place.queued:
        return None, None
    if not begins:
        return None, place
    # All that a turn's beginning does not find in the queue.
    before = Claim(tenant, conversation_id, turn_id, 1, 1, "", {}, work.cause.as_json())
    return await turns.begin_next(work, before, turn_id, lease), None


async def next_author(work: Work, conversation_id: str) -> dict[str, str] | None:
    """Return whose words wait first in a conversation."""
    queued = await store.queued(work, conversation_id)
    return next((each.author for each in queued if not each.is_outcome), None)
