"""What happened to conversations, on its way to the database and out of the agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from placet.agent import store
from placet.agent.conversation import Conversation
from placet.agent.memory import Memory
from placet.agent.rules import Claim
from placet.contracts.messages import ConversationItems, Event
from placet.runtime.work import Act, Work

Announce = Callable[[Event], None]


class Acts(Protocol):
    """Whoever asks models."""

    def asking(self, claim: Claim) -> Act:
        """Return the act that begins to work on a claim."""

    def leaving(self, turn_id: str) -> Act:
        """Return the act that leaves a turn alone which is over for another reason."""


@dataclass(frozen=True)
class Saving:
    """What saving needs beside the conversations."""

    acts: Acts
    #: Sends a transient event.
    announce: Announce
    lease: timedelta
    memory: Memory = field(default_factory=Memory)


async def save(work: Work, conversations: Iterable[Conversation], saving: Saving, *, once: bool = False) -> None:
    """Store what happened to conversations, and hand over what follows from it once that is committed.

    They are locked; or, with `once`, `work` has neither transaction nor inbox yet, and the error `came_too_late` is
    raised where somebody was faster.
    """
    changed = [each for each in conversations if each.items or each.changes or each.emitted]
    if not changed:
        return
    for conversation in changed:
        conversation.finish()
        hand_over(conversation, work)
    if once:
        chosen, values = store.effect(changed, saving.lease, all_or_nothing=True, arrived=work.has_inbox)
        moments = {row["key"]: row["at"] for row in await work.execute_once(chosen, **values)}
        saving.memory.keep(changed)
    else:
        # Not committed yet.
        saving.memory.forget(each.conversation_id for each in changed)
        moments = await store.write(work.connection, changed, saving.lease)
    for conversation in changed:
        work.act(telling(conversation, moments[conversation.conversation_id], saving.announce))
        work.act(*map(saving.acts.asking, conversation.begun), *map(saving.acts.leaving, conversation.left))


def hand_over(conversation: Conversation, work: Work) -> None:
    """Hand over a conversation's messages and its history; their key is its id."""
    key = conversation.conversation_id
    for message, cause in conversation.emitted:
        work.cause = cause
        work.emit(message, key=key)
    for change, cause in conversation.changes:
        work.cause = cause
        work.record(change, key=key)


def telling(conversation: Conversation, moment: datetime, announce: Announce) -> Act:
    """Return the act that tells a conversation's new items; lost ones are found in the log."""

    async def tell() -> None:
        if conversation.items:
            announce(items_event(conversation, moment))

    return tell


def items_event(conversation: Conversation, moment: datetime) -> Event:
    """Return the event of a conversation's new items; `moment` is when they were stored."""
    first, at = conversation.log_seq - len(conversation.items) + 1, moment.isoformat()
    numbered = enumerate(conversation.items, first)
    # Made of what was just stored: there is nothing to validate.
    message = ConversationItems.model_construct(
        tenant=conversation.tenant,
        conversation_id=conversation.conversation_id,
        items=[{"id": seq, "type": kind, "at": at, "data": data} for seq, (kind, data) in numbered],
    )
    return conversation.cause.event(message, source="agent", time=moment)
