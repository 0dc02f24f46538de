"""What the agent does with its messages. A handler never asks a model: it claims; the worker asks after the commit.

Messages that arrive together are taken in their order: one statement reads their conversations, one stores what became
of them, with inbox, history and outbox, unless somebody changed a conversation in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from placet.agent import rules, store
from placet.agent.changes import Saving, save
from placet.agent.conversation import Answer, Conversation
from placet.agent.profiles import Profile, Profiles
from placet.agent.rules import Behaviour, Result
from placet.agent.staging import named_in, staged_data
from placet.agent.store import Wanted
from placet.contracts import messages as m
from placet.contracts.errors import NotYet, Poison, Refused
from placet.contracts.messages import Message
from placet.contracts.messages.conversations import TAKEN_TEXT_MAX
from placet.contracts.permit import CONSENT_VOID, comes_after, permit_expired, verify_permit
from placet.contracts.signed import refuse_void
from placet.contracts.signing import Verifier
from placet.domain.conditions import consent_lost
from placet.domain.directory import Directory
from placet.runtime.consumer import Arrival
from placet.runtime.driver import DatabaseError
from placet.runtime.work import Cause, UnitOfWork, Work


class Turnstile:
    """Lets one task of this process at a time work on a conversation: who else would only come too late."""

    def __init__(self) -> None:
        self._inside: set[str] = set()
        self._left = asyncio.Condition()

    @asynccontextmanager
    async def only(self, conversation_ids: set[str]) -> AsyncIterator[None]:
        """Return when no other task works on any of these conversations."""
        async with self._left:
            await self._left.wait_for(lambda: not self._inside & conversation_ids)
            self._inside |= conversation_ids
        try:
            yield
        finally:
            async with self._left:
                self._inside -= conversation_ids
                self._left.notify_all()


#: Queues whose messages find in the call's revision of its card that they came before.
KEYED = frozenset({"agent.approvals"})


@dataclass(frozen=True)
class Deps:
    """What the handlers need beside their messages."""

    saving: Saving
    profiles: Profiles
    units: UnitOfWork
    #: Public keys, and who may decide today, read when the first permit comes.
    verifier: Callable[[], Verifier]
    directory: Callable[[], Directory]
    turnstile: Turnstile = field(default_factory=Turnstile)


async def take(arrivals: Sequence[Arrival[Any]], work: Work, deps: Deps, queue: str) -> None:
    """Take messages in their order, by one statement that reads and one that writes.

    Where somebody was faster, or some of them were handled before, by locking what they are about; permits always, so
    that whether they may still begin is asked after every wait for somebody else. Messages of a queue
    in `KEYED` show by themselves that they came before, and have no rows of the inbox. Raises Poison for what fits no
    conversation, SecurityAlert for a forged permit, Refused where it has ended, NotYet for a permit behind calls that
    go on, and Transient for news of an approval that come before its card, and of entries that come before the word
    that they were staged.
    """
    event_ids = [arrival.cause.id for arrival in arrivals]
    inbox = None if queue in KEYED else (queue, event_ids)
    wanted = _wanted([arrival.message for arrival in arrivals])
    has_permits = any(isinstance(arrival.message, m.ToolCallPermitted) for arrival in arrivals)
    async with deps.turnstile.only(wanted.conversation_ids):
        once = Work(work.connection, deps.units.database, now=work.now, cause=Cause(), arrived=inbox)
        if has_permits or not await _taken_at_once(arrivals, wanted, once, deps):
            await _take_locked(arrivals, wanted, inbox, deps)
            work.written = True
            return
        work.written = once.written
    await deps.units.finish(once)


async def _taken_at_once(arrivals: Sequence[Arrival[Any]], wanted: Wanted, once: Work, deps: Deps) -> bool:
    """Take messages without locks; tell whether nobody was faster, and none was handled before."""
    try:
        found = await _remembered(arrivals, wanted, once, deps)
        if found is None:
            found = await store.read(once.connection, wanted)
            await _take_all(arrivals, found, once, deps.profiles, {})
        await save(once, found.values(), deps.saving, once=True)
    except DatabaseError as error:
        if not store.came_too_late(error):
            raise
        return False
    return True


async def _take_locked(
    arrivals: Sequence[Arrival[Any]], wanted: Wanted, inbox: tuple[str, Sequence[str]] | None, deps: Deps
) -> None:
    deps.saving.memory.forget(wanted.conversation_ids)
    async with deps.units.begin() as own:
        if inbox is not None:
            queue, event_ids = inbox
            taken = await own.run(deps.units.database.queries.take_new, queue=queue, ids=event_ids)
            fresh = {row["message_id"] for row in taken}
            arrivals = [arrival for arrival in arrivals if arrival.cause.id in fresh]
        found = await store.lock(own.connection, wanted)
        now = await own.clock()
        refused = {
            arrival.cause.id: (await _why_not(arrival.message, own, deps), permit_expired(arrival.message.permit, now))
            for arrival in arrivals
            if isinstance(arrival.message, m.ToolCallPermitted)
        }
        for arrival in arrivals:
            if refused.get(arrival.cause.id) == ("", False):
                await _check_turn(arrival.message, own)
        await _take_all(arrivals, found, own, deps.profiles, refused)
        await save(own, found.values(), deps.saving)


async def _why_not(permitted: m.ToolCallPermitted, work: Work, deps: Deps) -> str:
    """Return why a call that was permitted may not begin after all; empty where it may. Raises SecurityAlert.

    As where executors claim: such calls are stopped, or somebody whose yes is behind it may decide nothing any more.
    """
    permit = verify_permit(deps.verifier(), permitted.permit, permitted.call, pool=m.JOBS_POOL)
    refuse_void(permit.iat, work.restored_at)
    if permit.has_consent and consent_lost(permit, permitted.call, deps.directory()):
        return CONSENT_VOID
    return await store.why_void(work.connection, permitted.call, permit.keys)


async def _check_turn(permitted: m.ToolCallPermitted, work: Work) -> None:
    """Raise NotYet while calls of the same answer that this one comes after have no result."""
    if after := set(comes_after(permitted.permit, "run")):
        going_on = after.intersection(await store.unanswered(work.connection, permitted.call.conversation_id))
        if going_on:
            raise NotYet(f"{len(going_on)} earlier calls have not ended")


async def _remembered(
    arrivals: Sequence[Arrival[Any]], wanted: Wanted, work: Work, deps: Deps
) -> Mapping[str, Conversation] | None:
    """Return conversations as they are remembered, with what these messages did to them.

    None where one of them must be read: it is not remembered, or nothing was to do, or something wrong with a message,
    which a later version may see otherwise.
    """
    found = deps.saving.memory.recall(wanted)
    if found is None:
        return None
    try:
        await _take_all(arrivals, found, work, deps.profiles, {})
    except Exception:  # noqa: BLE001 - what was read says it again
        return None
    return found if all(each.items or each.changes for each in found.values()) else None


async def _take_all(
    arrivals: Sequence[Arrival[Any]],
    found: Mapping[str, Conversation],
    work: Work,
    profiles: Profiles,
    refused: Mapping[str, tuple[str, bool]],
) -> None:
    for arrival in arrivals:
        message = arrival.message
        conversation = found.get(_conversation_id(message))
        if conversation is None or conversation.tenant != message.tenant:
            # A job's workspace may end before people were asked about it: then there is no conversation of it here.
            if not isinstance(message, _MAY_BE_FOREIGN):
                kind = Refused if isinstance(message, m.AbandonCall) else Poison
                where = f"conversation {_conversation_id(message)}"
                reason = f"{where} belongs to another tenant than {message.tenant}" if conversation else f"no {where}"
                raise kind(reason)
            continue
        conversation.cause = arrival.cause
        if isinstance(message, m.ToolCallPermitted):
            profile = profiles.find(conversation.tenant, conversation.agent)
            reason, expired = refused[arrival.cause.id]
            conversation.take_permitted(message, behaviour_of(profile), refused=reason, expired=expired)
        elif isinstance(message, m.ConversationEnded):
            conversation.end(message, await store.unanswered(work.connection, message.conversation_id))
        else:
            agent = conversation.agent or (
                message.agent if isinstance(message, m.MessagePosted | m.AttemptRequested | m.ProposeJob) else ""
            )
            _TAKERS[type(message)](conversation, message, profiles.find(conversation.tenant, agent))


def _abandon(conversation: Conversation, abandoned: m.AbandonCall, profile: Profile | None) -> None:
    """Give a call a result in place of the lost one: an operator discarded the dead letter that held it."""
    answer = Answer(abandoned.call_id, rules.abandoned(may_have_run=abandoned.may_have_run))
    try:
        conversation.take_result(answer, behaviour_of(profile))
    except Poison as error:
        # The letter held no result of a call of ours: nothing waits for it, and this must be no letter again.
        raise Refused(str(error)) from error


def _ran(finished: m.ToolCallFinished) -> Answer:
    data = staged_data(finished.data) if finished.kind == "staged" else finished.data
    result = Result(finished.kind, data=data, error=finished.error, edited=rules.edit_text(finished))
    handover = finished.handover.reason if finished.handover else ""
    staged = finished.staged if finished.kind == "staged" else None
    return Answer(finished.call_id, result, ui_blocks=finished.ui_blocks, handover=handover, staged=staged)


def _never_ran(refused: m.ToolCallRefused) -> Answer:
    by = refused.decided_by if refused.ends_turn else ""
    return Answer(refused.call_id, rules.never_ran(refused), error=refused.reason, ended_by=by)


def _conversation_id(message: Any) -> str:
    carries = isinstance(message, m.ApprovalOpened | m.ToolCallPermitted)
    found: str = (message.call if carries else message).conversation_id
    return found


def _wanted(messages: Sequence[Any]) -> Wanted:
    """Return what has to be known of conversations to take these messages."""
    wanted = Wanted()
    for message in messages:
        conversation_id = _conversation_id(message)
        wanted.conversation_ids.add(conversation_id)
        match message:
            case m.MessagePosted() | m.OperatorSpoke() | m.AttemptRequested() | m.ProposeJob():
                wanted.message_ids.add(message.message_id)
                # A copy of what was taken for a decision may come without saying so.
                if isinstance(message, m.MessagePosted) and len(message.text.strip()) <= TAKEN_TEXT_MAX:
                    wanted.consent_ids.add(message.message_id)
            case m.StopTurn():
                wanted.turn_ids.add(message.turn_id)
            case _ if isinstance(message, _ABOUT_NO_CALL):
                pass
            case _:
                wanted.call_ids.update(_call_ids(message))
        if isinstance(message, _FIRST):
            wanted.born.setdefault(conversation_id, message.tenant)
    return wanted


def _call_ids(message: Any) -> Sequence[str]:
    """Return the calls that a message is about."""
    match message:
        case m.ApprovalOpened() | m.ToolCallPermitted():
            return [message.call.call_id]
        case m.EntriesDiscarded():
            return message.call_ids
        case m.ToolCallFinished():
            return [message.call_id, *(named_in(message.data) if message.tool == m.COMMIT_TOOL else ())]
    return [message.call_id]


def behaviour_of(profile: Profile | None) -> Behaviour | None:
    """Return how an agent behaves; None where there is no such agent."""
    return profile.behaviour if profile else None


#: What comes of conversations too that are not the agent's.
_MAY_BE_FOREIGN = (m.ApprovalOpened, m.ApprovalProgressed, m.ApprovalClosed, m.WorkspaceExpired)
#: What is about a conversation or its workspace alone.
_ABOUT_NO_CALL = (
    m.AttemptWithdrawn,
    m.HolderChanged,
    m.ConversationEnded,
    m.ConsentAnswered,
    m.ProposeChanges,
    m.DiscardChanges,
    m.WorkspaceExpired,
)
#: What a conversation may begin with, as messages come in any order.
_FIRST = (
    m.MessagePosted,
    m.OperatorSpoke,
    m.HolderChanged,
    m.ConversationEnded,
    m.AttemptRequested,
    m.AttemptWithdrawn,
    m.ProposeJob,
)

_Taker: TypeAlias = Callable[[Conversation, Any, Profile | None], None]
#: What each message does.
_TAKERS: Mapping[type[Message], _Taker] = {
    m.MessagePosted: lambda here, it, agent: here.take_message(it, behaviour_of(agent), agent.labels if agent else {}),
    m.AttemptRequested: lambda here, it, agent: here.take_attempt(
        it, behaviour_of(agent), agent.labels if agent else {}
    ),
    m.ProposeJob: lambda here, it, agent: here.propose_job(it, agent.labels if agent else {}),
    m.CallSurfaced: lambda here, it, _: here.take_surfaced(it),
    m.AttemptWithdrawn: lambda here, it, _: here.take_withdrawn(it),
    m.OperatorSpoke: lambda here, it, _: here.take_spoken(it),
    m.HolderChanged: lambda here, it, agent: here.take_holder(it, behaviour_of(agent)),
    m.ConsentAnswered: lambda here, it, _: here.take_decision(it),
    m.StopTurn: lambda here, it, _: here.stop(it),
    m.ProposeChanges: lambda here, it, _: here.propose_changes(it),
    m.DiscardChanges: lambda here, it, _: here.discard_changes(it),
    m.WorkspaceExpired: lambda here, it, _: here.take_expired(it),
    m.EntriesDiscarded: lambda here, it, _: here.take_discarded(it),
    m.ToolCallFinished: lambda here, it, agent: here.take_result(_ran(it), behaviour_of(agent)),
    m.ToolCallRefused: lambda here, it, agent: here.take_result(_never_ran(it), behaviour_of(agent)),
    m.AbandonCall: _abandon,
    m.CallResolved: lambda here, it, _: here.take_resolved(it),
    m.ApprovalOpened: lambda here, it, agent: here.take_opened(it, behaviour_of(agent)),
    m.ApprovalProgressed: lambda here, it, _: here.take_progressed(it),
    m.ApprovalClosed: lambda here, it, _: here.take_closed(it),
    m.ToolCallProgressed: lambda here, it, _: here.take_progress(it),
}
