"""Operators: taking a conversation over from the agent, answering in it, and giving it back.

Each move is one transaction under the lock of the conversation's feed, so that of two operators one wins, and what a
visitor was told stands in the feed in the order in which it became true. The agent follows by the messages.
"""

from __future__ import annotations

from dataclasses import dataclass

from services.gateway.auth import Caller
from services.gateway.conversations import Posted, no_conversation
from services.gateway.feed import Place
from services.gateway.holder import Held
from services.gateway.holding import move, tell
from services.gateway.keys import Scope
from services.gateway.states import Event, State
from services.gateway.store.conversations import Conversation, lock_conversations
from services.gateway.store.feed import StoredItem, find_item
from services.gateway.store.holders import note_answer, unanswered_of
from services.gateway.texts import time_text
from shared.approvers import name_of
from shared.errors import Refused
from shared.ids import new_id
from shared.messages import OperatorSpoke
from shared.transitions import ExpectedRace
from shared.work import UnitOfWork, Work


@dataclass(frozen=True, slots=True)
class Answer:
    """What an operator writes."""

    text: str
    message_id: str | None = None
    #: Number of the newest feed item that they had seen; None: all that is there.
    seen: int | None = None


@dataclass(frozen=True)
class Operators:
    """What operators do to conversations. Every method needs the scope `operate`: else Refused (403)."""

    units: UnitOfWork

    async def take_over(self, caller: Caller, conversation_id: str) -> Held:
        """Take a conversation over; one that the caller holds stays theirs.

        Raises Refused: 403, 404, 409 (another operator holds it: `operator` says who; nobody has written; it ended).
        """
        async with self.units.begin() as work:
            conversation = await _locked(work, caller, conversation_id)
            _refuse_ended(conversation)
            held = conversation.held
            if held.operator == caller.person:
                return held
            if not conversation.feed_seq:
                raise Refused("Nobody has written in this conversation yet.", status=409, kind="nothing-written")
            try:
                return await move(work, self.units.outbox, conversation, Event.TAKEN, caller.person)
            except ExpectedRace as race:
                raise _held_by(held.operator) from race

    async def release(self, caller: Caller, conversation_id: str) -> Held:
        """Give a conversation back to the agent, whoever holds it; one that the agent holds stays so.

        Raises Refused: 403, 404, 409 (it has ended).
        """
        async with self.units.begin() as work:
            conversation = await _locked(work, caller, conversation_id)
            _refuse_ended(conversation)
            try:
                return await move(work, self.units.outbox, conversation, Event.RELEASED, caller.person)
            except ExpectedRace:
                return conversation.held

    async def answer(self, caller: Caller, conversation_id: str, answer: Answer) -> Posted:
        """Write as the operator who holds a conversation; the same message id again is the same message.

        What visitors wrote up to what the operator had seen counts as answered, and no model answers it. Raises
        Refused: 403, 404, 409 (the caller does not hold it; it has ended; the message id was used for another text).
        """
        async with self.units.begin() as work:
            conversation = await _locked(work, caller, conversation_id)
            place = (conversation.tenant, conversation.conversation_id)
            message_id = answer.message_id or new_id()
            if known := await find_item(work.connection, *place, f"message:{message_id}"):
                return _known_again(known, caller, answer)
            _refuse_ended(conversation)
            if conversation.operator != caller.person:
                raise _not_yours(conversation)
            seen = min(conversation.feed_seq if answer.seen is None else answer.seen, conversation.feed_seq)
            spoke = OperatorSpoke(
                tenant=caller.tenant,
                conversation_id=conversation_id,
                message_id=message_id,
                text=answer.text,
                operator=caller.person,
                answers=await unanswered_of(work.connection, place, conversation.answered_seq, seen),
            )
            await note_answer(work.connection, place, seen)
            (item,) = await tell(work, self.units.outbox, spoke)
            return Posted(conversation_id, message_id, item.seq)


async def _locked(work: Work, caller: Caller, conversation_id: str) -> Conversation:
    caller.need(Scope.OPERATE)
    place: Place = (caller.tenant, conversation_id)
    conversation = (await lock_conversations(work.connection, [place])).get(place)
    if conversation is None or not caller.sees(conversation_id):
        raise no_conversation()
    return conversation


def _refuse_ended(conversation: Conversation) -> None:
    if conversation.ended_at is not None:
        at = time_text(conversation.ended_at)
        raise Refused("This conversation has ended.", status=409, kind="conversation-ended", ended_at=at)


def _held_by(operator: str) -> Refused:
    title = f"{name_of(operator)} holds this conversation."
    return Refused(title, status=409, kind="conversation-held", operator=operator)


def _not_yours(conversation: Conversation) -> Refused:
    if conversation.holder == State.OPERATOR:
        return _held_by(conversation.operator)
    title = "Take this conversation over before you answer in it."
    return Refused(title, status=409, kind="conversation-not-held", holder=conversation.holder)


def _known_again(known: StoredItem, caller: Caller, answer: Answer) -> Posted:
    data = known.data
    if (data["role"], data["text"], data["author"]["id"]) != ("operator", answer.text, caller.person):
        raise Refused("This message id was used for another text.", status=409, kind="message-id-used")
    return Posted(known.conversation_id, str(data["message_id"]), known.seq)
