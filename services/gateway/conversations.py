"""Opening a conversation and writing in it: the two things a chat frontend does.

A message and its feed item commit together, so whoever posts it sees it in the feed at once, and the copy that comes
back through the broker is known by the message's id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from services.gateway.announcing import announce
from services.gateway.auth import Caller
from services.gateway.feed import Place, items_of
from services.gateway.handlers import openings_of
from services.gateway.keys import Scope, hash_secret, new_token
from services.gateway.rates import Rates
from services.gateway.store.conversations import (
    Conversation,
    Opening,
    end_conversation,
    lock_conversations,
    open_conversations,
    taken_elsewhere,
)
from services.gateway.store.feed import add_items, find_item
from services.gateway.texts import time_text
from services.gateway.together import Together
from shared.agents import AgentEntry, Agents
from shared.errors import Refused
from shared.ids import new_id
from shared.messages import Author, ConversationEnded, MessagePosted
from shared.visitors import visitor_id
from shared.work import UnitOfWork, Work


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
    #: Its number in the conversation's feed.
    event_id: int
    #: The decision that it was taken for, {approval_id, decision, summary}; None for an ordinary message.
    taken_as: Mapping[str, str] | None = None


def may_open(caller: Caller) -> None:
    """Raise Refused (403) where the caller may not open conversations."""
    caller.need(Scope.CHAT)
    if caller.conversation_id is not None:
        detail = "It is good for its one conversation; a key with the scope chat opens others."
        title = "A conversation token opens no conversations."
        raise Refused(title, status=403, kind="scope-missing", detail=detail)


def known_agent(agents: Agents, tenant: str, name: str) -> AgentEntry:
    """Return a tenant's agent; raise Refused (422) with the names that it may be called by where there is none."""
    agent = agents.find(tenant, name)
    if agent is None:
        raise Refused("There is no such agent.", status=422, kind="unknown-agent", agents=list(agents.of(tenant)))
    return agent


async def open_conversation(
    units: UnitOfWork, caller: Caller, plan: Plan, conversation_id: str = "", *, agents: Agents
) -> tuple[str, str]:
    """Open a conversation, under an id of its own where none is given; return its id and its token, shown this once.

    One that is open already stays as it is, and the token that is returned then is worth nothing. Raises Refused: 403,
    409 (the id is another tenant's), 422 (there is no such agent).
    """
    may_open(caller)
    agent = known_agent(agents, caller.tenant, plan.agent)
    chosen = bool(conversation_id)
    conversation_id, token = conversation_id or new_id(), new_token()
    opening = Opening(
        caller.tenant,
        conversation_id,
        agent=plan.agent,
        language=plan.language,
        labels={**agent.labels, **plan.labels},
        visitor=plan.visitor,
        token_hash=hash_secret(token),
        created_by=caller.person,
        opener_decides=caller.may(Scope.DECIDE),
    )
    async with units.database.transaction() as connection:
        if chosen and await taken_elsewhere(connection, [opening.place], written=False):
            raise _id_taken()
        await open_conversations(connection, [opening])
    return conversation_id, token


@dataclass(frozen=True, slots=True)
class _Post:
    """One message that somebody wants posted."""

    caller: Caller
    place: Place
    writing: Writing


class Posts:
    """Posts messages; those that come at the same moment share a transaction."""

    def __init__(self, units: UnitOfWork, agents: Agents, rates: Rates) -> None:
        self._units = units
        self._agents = agents
        self._rates = rates
        self._together = Together[_Post, Posted](self._post_all)

    async def post(self, caller: Caller, conversation_id: str, writing: Writing) -> Posted:
        """Post a message; the same message id again is the same message and has the same answer.

        Raises Refused: 403 (scope, or the visitor's name), 404, 409 (it has ended, its id is another tenant's, or the
        message id was used for another text), 422 (its agent is no more), 429.
        """
        self._admit(caller, conversation_id)
        return await self._ask(caller, conversation_id, writing)

    async def post_or_open(self, caller: Caller, conversation_id: str, writing: Writing, plan: Plan) -> Posted:
        """Post a message; a conversation that does not exist begins with it, under the caller's own id for it.

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

    def _admit(self, caller: Caller, conversation_id: str) -> None:
        """Raise Refused where the caller may not post there, or posts too fast."""
        caller.need(Scope.CHAT)
        if not caller.sees(conversation_id):
            raise no_conversation()
        self._rates.admit(caller)

    async def _ask(self, caller: Caller, conversation_id: str, writing: Writing) -> Posted:
        return await self._together.ask(_Post(caller, (caller.tenant, conversation_id), writing))

    async def end(self, caller: Caller, conversation_id: str) -> None:
        """End a conversation: what waits in it is withdrawn, nobody writes there again. A second time does nothing.

        Raises Refused: 403 (scope), 404.
        """
        caller.need(Scope.CHAT, Scope.OPERATE)
        place = (caller.tenant, conversation_id)
        async with self._units.begin() as work:
            conversation = (await lock_conversations(work.connection, [place])).get(place)
            if conversation is None or not caller.sees(conversation_id):
                raise no_conversation()
            if conversation.ended_at is not None:
                return
            ended = ConversationEnded(tenant=caller.tenant, conversation_id=conversation_id, by=caller.person)
            await end_conversation(work.connection, place, caller.person)
            stored = await add_items(work.connection, items_of(ended, ""))
            work.act(partial(announce, self._units.outbox, stored))
            # Where nobody wrote, the agent never heard of it.
            if conversation.feed_seq:
                work.emit(ended)

    async def _post_all(self, posts: Sequence[_Post]) -> list[Posted | Exception]:
        async with self._units.begin() as work:
            known = await lock_conversations(work.connection, {post.place for post in posts})
            foreign = await _foreign(work, [post.place for post in posts if post.place in known], known)
            messages = [
                _id_taken() if post.place in foreign else self._message_or_why_not(post, known.get(post.place))
                for post in posts
            ]
            writable = [
                message
                for post, message in zip(posts, messages, strict=True)
                if isinstance(message, MessagePosted) and not known[post.place].ended_at
            ]
            items = [item for message in writable for item in items_of(message, "")]
            stored = await add_items(work.connection, items) if items else []
            work.act(partial(announce, self._units.outbox, stored))
            fresh = {(item.tenant, item.conversation_id, item.data["message_id"]): item for item in stored}
            outcomes: list[Posted | Exception] = []
            for message in messages:
                if isinstance(message, Refused):
                    outcomes.append(message)
                elif item := fresh.pop((message.tenant, message.conversation_id, message.message_id), None):
                    outcomes.append(await _send(work, message, known[item.place], item.seq))
                else:
                    place = (message.tenant, message.conversation_id)
                    outcomes.append(await _again(work, message, known[place]))
        return outcomes

    def _message_or_why_not(self, post: _Post, conversation: Conversation | None) -> MessagePosted | Refused:
        if conversation is None:
            return no_conversation()
        try:
            message = message_of(post.caller, post.writing, conversation)
            known_agent(self._agents, message.tenant, message.agent)
        except Refused as refusal:
            return refusal
        return message


async def _foreign(work: Work, places: Sequence[Place], known: Mapping[Place, Conversation]) -> set[Place]:
    """Return the conversations that begin now under an id in which another tenant has written, or writes beside."""
    begin = list(dict.fromkeys(place for place in places if not known[place].feed_seq))
    if not begin:
        return set()
    first = {conversation_id: (tenant, conversation_id) for tenant, conversation_id in reversed(begin)}
    beside = {place for place in begin if first[place[1]] != place}
    return beside | await taken_elsewhere(work.connection, begin, written=True)


async def _send(work: Work, message: MessagePosted, conversation: Conversation, seq: int) -> Posted:
    if conversation.agent is None:
        await open_conversations(work.connection, openings_of([message]))
    work.emit(message)
    return Posted(message.conversation_id, message.message_id, seq)


async def _again(work: Work, message: MessagePosted, conversation: Conversation) -> Posted | Exception:
    (item,) = items_of(message, "")
    known = await find_item(work.connection, *item.place, item.source_id)
    if known is None and conversation.ended_at is not None:
        at = time_text(conversation.ended_at)
        return Refused("This conversation has ended.", status=409, kind="conversation-ended", ended_at=at)
    if known is None or known.data["text"] != message.text:
        return Refused("This message id was used for another text.", status=409, kind="message-id-used")
    return Posted(message.conversation_id, message.message_id, known.seq, known.data.get("taken_as"))


def no_conversation() -> Refused:
    """Return the answer for a conversation that does not exist for the caller."""
    return Refused("There is no such conversation.", status=404, kind="not-found")


def _id_taken() -> Refused:
    """Return the answer for a conversation's id that is in use where the caller cannot see it."""
    title = "This conversation id cannot be used here. Choose another one."
    return Refused(title, status=409, kind="conversation-id-used")


def message_of(caller: Caller, writing: Writing, conversation: Conversation) -> MessagePosted:
    """Return what somebody writes as a message of its author."""
    return MessagePosted(
        tenant=caller.tenant,
        conversation_id=conversation.conversation_id,
        message_id=writing.message_id or new_id(),
        text=writing.text,
        author=author_of(caller, conversation, writing.author),
        agent=conversation.agent or "default",
        language=conversation.language,
        labels=conversation.labels,
        held_revision=conversation.holder_revision if conversation.held.by_people else 0,
    )


def author_of(caller: Caller, conversation: Conversation, wanted: str | None) -> Author:
    """Return who a message is from; approvals ask this author as their `requester`.

    A conversation token always writes as the visitor and a signed-in person as themselves. A key may relay for the
    visitor, which is what it does unasked where its conversation was opened for one. A key that may decide too does so
    only in conversations that count as its owner's: it could ask in one name and decide in another. Raises Refused
    (403) where it is told to all the same.
    """
    visitor = Author(kind="visitor", id=visitor_id(conversation.visitor, conversation.conversation_id))
    if caller.proof == "conversation_token":
        return visitor
    trusted = not caller.may(Scope.DECIDE) or (conversation.opener_decides and conversation.created_by == caller.person)
    asked = wanted or ("visitor" if conversation.visitor and trusted else "person")
    if caller.proof != "api_key" or asked == "person":
        return Author(kind="person", id=caller.person)
    if not trusted:
        detail = "A key that may decide writes for the visitor only in a conversation that it opened itself."
        raise Refused(detail, status=403, kind="author-not-allowed")
    return visitor
