"""Moving who answers in a conversation: its state, its history and what everybody is told, in one transaction."""

from __future__ import annotations

from functools import partial

from services.gateway.announcing import announce
from services.gateway.feed import items_of
from services.gateway.holder import Held, told
from services.gateway.states import MACHINE, Event
from services.gateway.store.conversations import Conversation, lock_conversations
from services.gateway.store.feed import StoredItem, add_items
from services.gateway.store.holders import move_holder
from shared.messages import HolderChanged, Message, ToolCallFinished
from shared.outbox import Outbox
from shared.transitions import ExpectedRace
from shared.work import Change, Work


async def escalate(work: Work, outbox: Outbox, finished: ToolCallFinished) -> None:
    """Let a conversation wait for an operator, as a tool asked; one that people hold or that ended stays as it is."""
    place = (finished.tenant, finished.conversation_id)
    conversation = (await lock_conversations(work.connection, [place])).get(place)
    if finished.handover is None or conversation is None or conversation.ended_at is not None:
        return
    try:
        await move(work, outbox, conversation, Event.ESCALATED, finished.call_id, finished.handover.reason)
    except ExpectedRace as race:
        detail = {"refused": race.event, "call_id": finished.call_id}
        state = conversation.holder
        work.record(Change(finished.tenant, MACHINE.name, place[1], race.event, state, state, "gateway", detail=detail))


async def move(work: Work, outbox: Outbox, conversation: Conversation, event: Event, by: str, reason: str = "") -> Held:
    """Move the holder of a locked conversation, and tell everybody; raise ExpectedRace where somebody was faster."""
    before, place = conversation.held, (conversation.tenant, conversation.conversation_id)
    after = before.moved(event, by)
    if not await move_holder(work.connection, place, before, after, reason):
        raise RuntimeError(f"conversation {place[1]} moved under its own lock")
    detail = {"revision": after.revision}
    work.record(Change(place[0], MACHINE.name, place[1], event, before.state, after.state, by, detail=detail))
    changed = HolderChanged(
        tenant=place[0],
        conversation_id=place[1],
        holder=after.state.value,
        revision=after.revision,
        event=event.value,
        by=by,
        operator=after.operator,
        text=told(after, conversation.language),
    )
    await tell(work, outbox, changed)
    return after


async def tell(work: Work, outbox: Outbox, message: Message) -> list[StoredItem]:
    """Put a message into the feed of its locked conversation, and send it."""
    stored = await add_items(work.connection, items_of(message, ""))
    work.act(partial(announce, outbox, stored))
    work.emit(message)
    return stored
