"""Opening a conversation, writing in it, stopping its turn and ending it.

What is written goes to the agent, which owns the log: it appears there, and so on every stream, when the agent has it.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from placet.contracts.errors import Refused
from placet.contracts.ids import is_of_job, new_id, own_id
from placet.contracts.messages import ConversationEnded, MessagePosted, StopTurn
from placet.contracts.visitors import ANSWERED
from placet.domain.agents import AgentEntry, Agents
from placet.gateway.conversations import access, store
from placet.gateway.conversations.rules import author_of
from placet.gateway.conversations.store import Conversation, Place
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope, hash_secret, new_token
from placet.gateway.identity.rates import Rates
from placet.gateway.texts import time_text
from placet.runtime.batcher import Batcher
from placet.runtime.sql import Connection
from placet.runtime.work import Cause, Change, UnitOfWork, Work, cause_of_request

#: Conversations, and messages just posted, that are remembered; those used longest ago go.
REMEMBERED_MAX = 10_000
#: Tries to store a message whose conversation changes under it.
TRIES_MAX = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """What the opener of a conversation says about it."""

    agent: str = "default"
    language: str = "en"
    labels: dict[str, str] = field(default_factory=dict)
    visitor: str | None = None


@dataclass(frozen=True, slots=True)
class Writing:
    """What somebody writes."""

    text: str
    message_id: str | None = None
    #: In whose name a key writes; None: the visitor's where one was named, else its owner's.
    author: Literal["visitor", "person"] | None = None


@dataclass(frozen=True, slots=True)
class Posted:
    """A message that is safe."""

    conversation_id: str
    message_id: str
    #: The decision that it was taken for, {approval_id, decision, summary}; None for an ordinary message.
    taken_as: Mapping[str, str] | None = None


def may_open(caller: Caller) -> None:
    """Raise Refused (403) where the caller may not open conversations."""
    caller.need(Scope.CHAT)
    if caller.conversation_id is not None:
        detail = "It is good for its one conversation; a key with the scope chat opens others."
        title = "A conversation token cannot open conversations."
        raise Refused(title, status=403, kind="scope-missing", detail=detail)


def known_agent(agents: Agents, tenant: str, name: str) -> AgentEntry:
    """Return a tenant's agent; raise Refused (422) with the names that it may be called by where there is none."""
    agent = agents.find(tenant, name)
    if agent is None:
        raise Refused("There is no such agent.", status=422, kind="unknown-agent", agents=list(agents.of(tenant)))
    return agent


async def open_conversation(
    units: UnitOfWork,
    caller: Caller,
    plan: Plan,
    conversation_id: str = "",
    *,
    agents: Agents,
    token_seconds: int = 0,
) -> tuple[str, str]:
    """Open a conversation and return its id, made of the one given or of a new one, and its token, shown this once.

    One that is open already stays as it is, and the token that is returned then is worth nothing; so is one that is to
    be good for no seconds. Raises Refused: 401 (the caller's key was revoked meanwhile), 403 (or an id that only jobs
    give), 422 (there is no such agent).
    """
    may_open(caller)
    agent = known_agent(agents, caller.tenant, plan.agent)
    token, place = new_token(), (caller.tenant, own_id(caller.tenant, conversation_id or new_id()))
    if is_of_job(*place):
        title = "Ids of this form are those of conversations of jobs: choose another one."
        raise Refused(title, status=403, kind="conversation-of-job")
    decides = caller.may(Scope.DECIDE)
    async with units.database.transaction() as connection:
        await access.check_credentials(connection, caller)
        await store.open_conversation(
            connection,
            tenant=place[0],
            conversation_id=place[1],
            agent=plan.agent,
            language=plan.language,
            labels={**agent.labels, **plan.labels},
            visitor=plan.visitor,
            token_hash=hash_secret(token),
            token_seconds=token_seconds,
            created_by=caller.person,
            opener_decides=decides,
            relayed_by=" ".join(each for each in caller.holders if not (decides and each == caller.person)),
        )
    return place[1], token


async def renew_token(
    units: UnitOfWork, caller: Caller, conversation_id: str, token_seconds: int, *, revoke: bool = False
) -> tuple[str, datetime]:
    """Give a conversation another token, or none where it is to be taken back; return it and when it ends.

    The one before is good no more. Raises Refused: 401 (the caller came with a token that is good no more itself), 403,
    404, 409 (the conversation has ended, and is to have another).
    """
    caller.need(Scope.CHAT)
    place, token = (caller.tenant, conversation_id), new_token()
    async with access.writing(units, caller) as work:
        found = await access.check_for(work.connection, caller, conversation_id)
        if not revoke:
            await store.note_relay(work.connection, place, caller.holders)
        taker = caller.person if caller.holders else None
        hashed = None if revoke else hash_secret(token)
        ends = await store.renew_token(work.connection, place, hashed, token_seconds, taker, caller.token_hash)
        if ends is None and found.ended_at is None and caller.token_hash:
            raise access.no_token()
        if ends is None:
            raise Refused("This conversation has ended.", status=409, kind="conversation-ended")
        event, state = ("revoked", "none") if revoke else ("renewed", "good")
        about = {"conversation_id": conversation_id}
        work.record(Change(caller.tenant, "token", conversation_id, event, None, state, caller.person, about=about))
    return token, ends


@dataclass(frozen=True, slots=True)
class _Post:
    """One message that somebody wants posted."""

    caller: Caller
    place: Place
    writing: Writing
    #: What its request is part of.
    cause: Cause = field(default_factory=cause_of_request)

    @property
    def key(self) -> MessageKey:
        """Tenant, conversation and the message's id; empty where its sender chose none."""
        return *self.place, self.writing.message_id or ""

    def is_copy(self, other: _Post) -> bool:
        """Tell whether the same caller sent the same."""
        return (self.caller, self.writing) == (other.caller, other.writing)


#: A message's key: tenant, conversation and the id that its sender chose.
MessageKey = tuple[str, str, str]


class PostedTexts:
    """Hashes of what was posted under ids of its senders: what the agent has, and here what it may not have yet."""

    def __init__(self) -> None:
        self._posted: OrderedDict[MessageKey, bytes] = OrderedDict()

    async def known(self, connection: Connection, keys: Collection[MessageKey]) -> dict[MessageKey, bytes]:
        """Return the hashes of the texts that are known under these ids."""
        asked = [key for key in keys if key not in self._posted]
        found = await store.known_texts(connection, asked) if asked else {}
        stored = {key: _hash(found[key[1:]]) for key in asked if key[1:] in found}
        return stored | {key: self._posted[key] for key in keys if key in self._posted}

    def remember(self, key: MessageKey, text: str) -> None:
        """Remember what was posted here."""
        self._posted[key] = _hash(text)
        if len(self._posted) > REMEMBERED_MAX:
            self._posted.popitem(last=False)


class Posts:
    """Posts messages; those that come at the same moment share a statement.

    What is remembered of a conversation is checked by the very statement that stores its message.
    """

    def __init__(self, units: UnitOfWork, agents: Agents, rates: Rates, texts: PostedTexts) -> None:
        self._units = units
        self._agents = agents
        self._rates = rates
        self._batcher = Batcher[_Post, Posted](self._post_all, isolate=True)
        self._conversations: OrderedDict[Place, Conversation] = OrderedDict()
        self._texts = texts

    async def post(self, caller: Caller, conversation_id: str, writing: Writing) -> Posted:
        """Post a message; the same message id again is the same message and has the same answer.

        Raises Refused: 403 (scope, the visitor's name, or it is a job's), 404, 409 (it has ended, or the message id was
        used for another text), 422 (its agent is no more), 429.
        """
        self._admit(caller, conversation_id)
        return await self._ask(caller, conversation_id, writing)

    async def post_or_open(self, caller: Caller, conversation_id: str, writing: Writing, plan: Plan) -> Posted:
        """Post a message; a conversation that does not exist begins with it, under the id that `own_id` makes for it.

        Raises Refused like `post`, and 404 where a conversation token names another conversation.
        """
        self._admit(caller, conversation_id)
        try:
            return await self._ask(caller, conversation_id, writing)
        except Refused as refusal:
            if refusal.kind != "not-found" or caller.conversation_id is not None:
                raise
        await open_conversation(self._units, caller, plan, conversation_id, agents=self._agents)
        return await self._ask(caller, conversation_id, writing)

    async def end(self, caller: Caller, conversation_id: str) -> None:
        """End a conversation: what waits in it is withdrawn, nobody writes there again. A second time does nothing.

        Raises Refused: 403 (scope, or it is a job's), 404.
        """
        caller.need(Scope.CHAT, Scope.OPERATE)
        async with access.writing(self._units, caller) as work:
            found = await store.lock_conversation(work.connection, caller.tenant, conversation_id)
            conversation = access.check_writable(caller, found)
            if conversation.ended_at is not None:
                return
            await store.end_conversation(work.connection, conversation.place, caller.person)
            place = {"tenant": caller.tenant, "conversation_id": conversation_id}
            work.emit(ConversationEnded(**place, by=caller.person))

    async def stop(self, caller: Caller, conversation_id: str) -> str | None:
        """Ask the agent to stop the turn that runs; return its id, None where none runs.

        It names the turn, so that it can never stop a later one, however often and late it comes. Raises Refused: 403
        (scope, or it is a job's), 404.
        """
        caller.need(Scope.CHAT)
        place = {"tenant": caller.tenant, "conversation_id": conversation_id}
        async with self._units.database.single() as connection:
            access.check_writable(caller, await store.find_conversation(connection, **place))
            turn_id = await store.running_turn(connection, **place)
        if turn_id is not None:
            async with access.writing(self._units, caller) as work:
                work.emit(StopTurn(**place, turn_id=turn_id, by=caller.person))
        return turn_id

    def _admit(self, caller: Caller, conversation_id: str) -> None:
        """Raise Refused where the caller may not post there, or posts too fast."""
        caller.need(Scope.CHAT)
        if not caller.sees(conversation_id):
            raise access.no_conversation()
        self._rates.admit(caller)

    async def _ask(self, caller: Caller, conversation_id: str, writing: Writing) -> Posted:
        return await self._batcher.submit(_Post(caller, (caller.tenant, conversation_id), writing))

    async def _post_all(self, posts: Sequence[_Post]) -> list[Posted | Exception]:
        """Store messages and return an outcome for each; what is changing at the moment is tried again."""
        busy = Refused("This conversation is changing; try again.", status=409, kind="conversation-changed")
        outcomes: list[Posted | Exception] = [busy] * len(posts)
        waiting: Sequence[int] = range(len(posts))
        while waiting:
            # Of those that came at once under one id the first is tried, and its fate is that of its copies.
            first: dict[MessageKey, int] = {}
            chosen = {at: first.setdefault(posts[at].key, at) for at in waiting if posts[at].writing.message_id}
            left: Sequence[int] = [at for at in waiting if chosen.get(at, at) == at]
            for _ in range(TRIES_MAX):
                async with self._units.once() as work:
                    left = await self._try(work, posts, left, outcomes)
                if not left:
                    break
            waiting = []
            for at, same in chosen.items():
                if posts[at].is_copy(posts[same]):
                    outcomes[at] = outcomes[same]
                else:
                    waiting.append(at)
        return outcomes

    async def _try(
        self, work: Work, posts: Sequence[_Post], left: Sequence[int], outcomes: list[Posted | Exception]
    ) -> list[int]:
        """Store those of `posts` that are left; return those whose conversations are not as remembered."""
        chosen = {posts[at].key for at in left if posts[at].writing.message_id}
        texts = await self._texts.known(work.connection, chosen)
        sent: dict[str, Conversation] = {}
        posted: dict[str, Posted] = {}
        for at in left:
            post, key = posts[at], posts[at].key
            try:
                if known := texts.get(key):
                    refuse_other(known, post.writing.text)
                    outcomes[at] = Posted(post.place[1], post.writing.message_id or "")
                    continue
                conversation = await self._conversation(work.connection, post.caller, post.place)
                message = message_of(post.caller, post.writing, conversation)
                known_agent(self._agents, message.tenant, message.agent)
                holders = _askers(post.caller, message, conversation)
                if not conversation.knows(holders):
                    await store.note_relay(work.connection, conversation.place, holders)
                    self._conversations.pop(conversation.place, None)
                    conversation = await self._conversation(work.connection, post.caller, post.place)
            except Refused as refusal:
                outcomes[at] = refusal
                continue
            work.cause = post.cause
            work.emit(message, key=str(at))
            sent[str(at)] = conversation
            posted[str(at)] = Posted(message.conversation_id, message.message_id)
        tokens = {key: posts[int(key)].caller.token_hash for key in sent}
        stored = await store.post_messages(work, sent, tokens) if sent else set()
        changed = []
        for number, conversation in sent.items():
            at = int(number)
            if number in stored:
                outcomes[at] = posted[number]
                if posts[at].writing.message_id:
                    self._texts.remember(posts[at].key, posts[at].writing.text)
                continue
            self._conversations.pop(conversation.place, None)
            changed.append(at)
        return changed

    async def _conversation(self, connection: Connection, caller: Caller, place: Place) -> Conversation:
        """Return a conversation that can be written in, perhaps as it was a while ago; raise Refused."""
        if (known := self._conversations.get(place)) and access.came_in_time(caller, known):
            self._conversations.move_to_end(place)
            return known
        found = access.check_writable(caller, await store.find_conversation(connection, *place))
        if found.ended_at is not None:
            raise has_ended(found)
        self._conversations[place] = found
        if len(self._conversations) > REMEMBERED_MAX:
            self._conversations.popitem(last=False)
        return found


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def refuse_other(known: bytes, text: str) -> None:
    """Raise Refused (409) where a text is another than the one that is known under its message's id."""
    if known != _hash(text):
        raise message_id_used()


def has_ended(conversation: Conversation) -> Refused:
    """Return the answer for a conversation in which nobody writes any more."""
    at = time_text(conversation.ended_at) if conversation.ended_at else None
    return Refused("This conversation has ended.", status=409, kind="conversation-ended", ended_at=at)


def message_id_used() -> Refused:
    """Return the answer for a message's id under which another text is known."""
    return Refused("This message id was used for another text.", status=409, kind="message-id-used")


def _askers(caller: Caller, message: MessagePosted, conversation: Conversation) -> tuple[str, ...]:
    """Return who may ask for something with a message, for as long as the model reads it: its opener is known."""
    if message.author.kind == "visitor":
        return caller.holders
    return tuple(each for each in caller.writers if each != f"{ANSWERED}{conversation.created_by}")


def message_of(caller: Caller, writing: Writing, conversation: Conversation) -> MessagePosted:
    """Return what somebody writes as a message of its author."""
    return MessagePosted(
        tenant=caller.tenant,
        conversation_id=conversation.conversation_id,
        message_id=writing.message_id or new_id(),
        text=writing.text,
        author=author_of(caller, conversation, writing.author),
        agent=conversation.agent,
        language=conversation.language,
        labels=conversation.labels,
        held_revision=conversation.holder_revision if conversation.held.by_people else 0,
    )
