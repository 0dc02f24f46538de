"""What both OpenAI dialects do: find the conversation, decide, write, and listen until nothing goes on.

How far a client was told is kept with the conversation, so what people decided elsewhere reaches it with its next
request. That is kept just before a response's last words are sent: a client that vanished is told again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from services.gateway.answers import approves_several, decide_in
from services.gateway.api.conversations import may_read
from services.gateway.api.events import stream_of
from services.gateway.auth import Caller
from services.gateway.conversations import Plan, Writing, no_conversation, open_conversation
from services.gateway.deps import Deps
from services.gateway.dialects.moves import Move
from services.gateway.dialects.posted import Answer
from services.gateway.dialects.talk import LOOK_BACK, Talk
from services.gateway.keys import Scope
from services.gateway.live import Topic, Transient
from services.gateway.resting import Resting, look
from services.gateway.store import reading
from services.gateway.store.conversations import Conversation, load_conversation, mark_told
from services.gateway.store.turns import load_newest_start, load_usage
from shared.errors import Refused
from shared.ids import derived_id

#: Pause between two looks whether a turn waits for people, in seconds: the feed may be ahead of what the agent stored.
LOOK_SECONDS = 1.0


@dataclass
class Asked:
    """What a client waits for."""

    conversation: Conversation
    talk: Talk
    #: Number of the feed item after which it reads: before the first untold one, where the calls are told of.
    after: int
    #: Approvals that the client answered, and that wait for more people.
    asked_again: set[str] = field(default_factory=set)
    #: How the conversation rests when all was told; None where something was left out.
    resting: Resting | None = None

    @property
    def topic(self) -> Topic:
        """The conversation, as streams name it."""
        return Topic(self.conversation.tenant, self.conversation.conversation_id)


def agent_of(deps: Deps, caller: Caller, conversation: Conversation | None, model: str | None) -> str:
    """Return the agent that a request is for; raise Refused where there is none of the name (404), or another (400)."""
    at_home = conversation.agent if conversation else None
    name = model or at_home or "default"
    if name not in deps.agents.of(caller.tenant) and name != at_home:
        raise no_model(name)
    if at_home is not None and name != at_home:
        fault = {"detail": f"this conversation is with {at_home}", "pointer": "#/model"}
        raise Refused("The conversation has another agent.", status=400, kind="model-mismatch", errors=[fault])
    return name


def no_model(name: str) -> Refused:
    """Return the answer for an agent that nobody may name."""
    fault = {"detail": "no such agent", "pointer": "#/model"}
    return Refused(f"There is no model {name[:64]!r}.", status=404, kind="model-not-found", errors=[fault])


async def find(deps: Deps, caller: Caller, conversation_id: str) -> Conversation | None:
    """Return a conversation that exists for the caller; raise Refused (403) for one who may not chat."""
    caller.need(Scope.CHAT)
    if not caller.sees(conversation_id):
        return None
    async with reading(deps.runtime.database) as connection:
        return await load_conversation(connection, caller.tenant, conversation_id)


async def found(deps: Deps, caller: Caller, conversation_id: str) -> Conversation:
    """Return a conversation that exists for the caller; raise Refused (403, 404)."""
    conversation = await find(deps, caller, conversation_id)
    if conversation is None:
        raise no_conversation()
    return conversation


async def begin(deps: Deps, caller: Caller, agent: str, language: str, conversation_id: str = "") -> Conversation:
    """Open a conversation, under an id of the client's where it has one."""
    opened, _ = await open_conversation(
        deps.runtime.units, caller, Plan(agent, language), conversation_id, agents=deps.agents
    )
    return await found(deps, caller, opened)


async def ask(
    deps: Deps, caller: Caller, conversation: Conversation, text: str, answers: Sequence[Answer] = (), key: str = ""
) -> Asked:
    """Decide what the client answered and post what it wrote; return what it then waits for.

    The same `key` is the same message, told again. Raises Refused as deciding and writing do; what was decided before
    the refusal stays decided.
    """
    may_read(caller, conversation.conversation_id)
    told = conversation.feed_seq if conversation.told_seq is None else min(conversation.told_seq, conversation.feed_seq)
    asked = Asked(conversation, Talk(told, newest=conversation.feed_seq), 0)
    several = await approves_several(deps.decisions, caller, asked.topic, answers)
    for answer in answers:
        row = await decide_in(deps.decisions, caller, asked.topic, answer, several=several)
        _decided(asked, answer.approval_id, over=row is not None and row["state"] != "pending")
    if text:
        await _write(deps, caller, text, asked, key)
    asked.after = await _start(deps, asked)
    return asked


def _decided(asked: Asked, approval_id: str, *, over: bool) -> None:
    """Note a decision: what is over goes on, and is listened for; the rest waits for others, and is asked again."""
    (asked.talk.decided if over else asked.asked_again).add(approval_id)


async def _write(deps: Deps, caller: Caller, text: str, asked: Asked, key: str) -> None:
    conversation = asked.conversation
    message_id = derived_id("openai", conversation.conversation_id, caller.person, key) if key else None
    writing = Writing(text, message_id)
    taken = await deps.consents.take(caller, conversation.conversation_id, writing)
    if taken is not None and taken.posted.taken_as is not None:
        if taken.outcome not in {None, "accepted"}:
            title = "The message was taken for a decision, which did not count."
            raise Refused(title, status=409, kind="decision-refused", outcome=taken.outcome)
        approval = await deps.decisions.find(caller, taken.posted.taken_as["approval_id"])
        _decided(asked, approval["approval_id"], over=approval["state"] != "pending")
        return
    posted = await deps.posts.post(caller, conversation.conversation_id, writing)
    if posted.taken_as is not None:
        return
    asked.talk.posted, asked.talk.message_id = posted.event_id, posted.message_id
    if posted.event_id <= conversation.feed_seq:
        # Told again from there, whatever came after.
        asked.talk.told = posted.event_id


async def _start(deps: Deps, asked: Asked) -> int:
    """Return the number after which the feed must be read to know every call that may still wait."""
    place, after = (asked.topic.tenant, asked.topic.conversation_id), max(0, asked.talk.told - LOOK_BACK)
    async with reading(deps.runtime.database) as connection:
        began = await load_newest_start(connection, *place)
    return after if began is None else min(after, began - 1)


async def listen(
    deps: Deps, caller: Caller, asked: Asked, gone: Callable[[], Awaitable[bool]] | None = None
) -> AsyncIterator[list[Move]]:
    """Yield what is new, an empty list for silence, until the conversation rests.

    `asked.resting` says how: it may also end because the stream does, or the client is `gone`, which is asked in
    silence.
    """
    talk = asked.talk
    stream = stream_of(deps, caller, (asked.topic,), asked.topic, asked.after, LOOK_SECONDS)
    async for signal in stream.signals():
        if signal is None:
            yield []
            if gone is not None and await gone():
                return
        elif isinstance(signal, Transient):
            yield talk.read(signal.event, signal.data)
        else:
            yield talk.read(signal["type"], signal["data"], signal["id"])
        asked.resting = await rests(deps, asked.topic, talk)
        if asked.resting is not None:
            return


async def rests(deps: Deps, topic: Topic, talk: Talk) -> Resting | None:
    """Return how the conversation rests; None while the agent goes on, which knows of things before the feed does."""
    if not talk.rests:
        return None
    return await look(deps.runtime.database, topic, talk.reader, talk.message_id, partial=True)


async def tell(deps: Deps, asked: Asked) -> tuple[int, int] | None:
    """Keep that the client was told all that there was; return the tokens that it took, None where nobody knows."""
    place = (asked.topic.tenant, asked.topic.conversation_id)
    async with deps.runtime.database.transaction() as connection:
        await mark_told(connection, place, asked.talk.number)
        return await load_usage(connection, *place, asked.talk.told, asked.talk.number)


def unread(pieces: Iterable[object]) -> None:
    """Have a writer write what nobody reads in pieces."""
    deque(pieces, maxlen=0)
