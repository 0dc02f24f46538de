"""Operators: taking a conversation over from the agent, answering in it, and giving it back.

Each move is one transaction under the lock of the gateway's row, so that of two operators one wins. The agent follows
by the messages, and its log tells everybody.
"""

from __future__ import annotations

from dataclasses import dataclass

from placet.contracts.errors import Refused
from placet.contracts.ids import new_id
from placet.contracts.messages import HandoverRequested, HolderChanged, OperatorSpoke
from placet.contracts.transitions import ExpectedRace
from placet.domain.approvers import name_of
from placet.gateway.conversations.access import check_writable, writing
from placet.gateway.conversations.holder import Held, told
from placet.gateway.conversations.service import Posted, PostedTexts, has_ended, refuse_other
from placet.gateway.conversations.store import Conversation, lock_conversation, note_relay
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.operators.store import move_holder
from placet.gateway.states import MACHINE, Event, State
from placet.runtime.work import Change, UnitOfWork, Work


@dataclass(frozen=True, slots=True)
class Answer:
    """What an operator writes."""

    text: str
    message_id: str | None = None
    #: Number of the newest item that they had seen; None: all that is there.
    seen: int | None = None


@dataclass(frozen=True)
class Operators:
    """What operators do to conversations. Every method needs the scope `operate`, and no job's: else Refused (403)."""

    units: UnitOfWork
    texts: PostedTexts

    async def take_over(self, caller: Caller, conversation_id: str) -> Held:
        """Take a conversation over; one that the caller holds stays theirs.

        Raises Refused: 403, 404, 409 (another operator holds it: `operator` says who; it ended).
        """
        async with writing(self.units, caller) as work:
            conversation = await _locked(work, caller, conversation_id)
            _refuse_ended(conversation)
            held = conversation.held
            if held.operator == caller.person:
                return held
            try:
                return await _move(work, conversation, Event.TAKEN, caller.person)
            except ExpectedRace as race:
                raise _held_by(held.operator) from race

    async def release(self, caller: Caller, conversation_id: str) -> Held:
        """Give a conversation back to the agent, whoever holds it; one that the agent holds stays so.

        Raises Refused: 403, 404, 409 (it has ended).
        """
        async with writing(self.units, caller) as work:
            conversation = await _locked(work, caller, conversation_id)
            _refuse_ended(conversation)
            try:
                return await _move(work, conversation, Event.RELEASED, caller.person)
            except ExpectedRace:
                return conversation.held

    async def answer(self, caller: Caller, conversation_id: str, answer: Answer) -> Posted:
        """Write as the operator who holds a conversation; the same message id again is the same message.

        What visitors wrote up to what the operator had seen counts as answered, and no model answers it. Raises
        Refused: 403, 404, 409 (the caller does not hold it; it has ended; the message id was used for another text).
        """
        async with writing(self.units, caller) as work:
            conversation = await _locked(work, caller, conversation_id)
            message_id = answer.message_id or new_id()
            key = (*conversation.place, message_id)
            if known := (await self.texts.known(work.connection, [key])).get(key) if answer.message_id else None:
                refuse_other(known, answer.text)
                return Posted(conversation_id, message_id)
            _refuse_ended(conversation)
            if conversation.operator != caller.person:
                raise _not_yours(conversation)
            spoke = OperatorSpoke(
                tenant=caller.tenant,
                conversation_id=conversation_id,
                message_id=message_id,
                text=answer.text,
                operator=caller.person,
                seen=answer.seen,
            )
            work.emit(spoke)
            await note_relay(work.connection, conversation.place, caller.writers)
        self.texts.remember(key, answer.text)
        return Posted(conversation_id, message_id)


async def escalate(asked: HandoverRequested, work: Work) -> None:
    """Let a conversation wait for an operator, as a tool asked; one that is held, has ended or is a job's stays."""
    conversation = await lock_conversation(work.connection, asked.tenant, asked.conversation_id)
    if conversation is None or conversation.ended_at is not None or conversation.job_id is not None:
        return
    try:
        await _move(work, conversation, Event.ESCALATED, asked.call_id, asked.reason)
    except ExpectedRace as race:
        detail, state = {"refused": race.event, "call_id": asked.call_id}, conversation.holder
        place = asked.conversation_id
        work.record(Change(asked.tenant, MACHINE.name, place, race.event, state, state, "gateway", detail=detail))


async def _move(work: Work, conversation: Conversation, event: Event, by: str, reason: str = "") -> Held:
    """Move the holder of a locked conversation, and tell everybody; raise ExpectedRace where somebody was faster."""
    before = conversation.held
    after = before.moved(event, by)
    if not await move_holder(work.connection, conversation, after, reason):
        raise RuntimeError(f"conversation {conversation.conversation_id} moved under its own lock")
    place, detail = conversation.conversation_id, {"revision": after.revision}
    work.record(Change(conversation.tenant, MACHINE.name, place, event, before.state, after.state, by, detail=detail))
    work.emit(
        HolderChanged(
            tenant=conversation.tenant,
            conversation_id=conversation.conversation_id,
            holder=after.state.value,
            revision=after.revision,
            event=event.value,
            by=by,
            operator=after.operator,
            text=told(after, conversation.language),
        )
    )
    return after


async def _locked(work: Work, caller: Caller, conversation_id: str) -> Conversation:
    caller.need(Scope.OPERATE)
    conversation = await lock_conversation(work.connection, caller.tenant, conversation_id)
    return check_writable(caller, conversation)


def _refuse_ended(conversation: Conversation) -> None:
    if conversation.ended_at is not None:
        raise has_ended(conversation)


def _held_by(operator: str) -> Refused:
    title = f"{name_of(operator)} holds this conversation."
    return Refused(title, status=409, kind="conversation-held", operator=operator)


def _not_yours(conversation: Conversation) -> Refused:
    if conversation.holder == State.OPERATOR:
        return _held_by(conversation.operator)
    title = "Take this conversation over before you answer in it."
    return Refused(title, status=409, kind="conversation-not-held", holder=conversation.holder)
