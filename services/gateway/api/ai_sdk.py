"""The Vercel AI SDK's own addresses: what `useChat` posts to and resumes from, without any code of ours beside it.

The chat's id is the conversation's. A stream ends where calls wait for people, as the SDK expects; the page goes on by
posting the answers, or by resuming, which stays open until the turn is over.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from services.gateway.answers import approves_several, decide_in
from services.gateway.api.callers import CallerOf, DepsOf, PathId
from services.gateway.api.conversations import may_read
from services.gateway.api.errors import described
from services.gateway.api.events import HEADERS, stream_of
from services.gateway.api.strict import StrictRoute
from services.gateway.auth import Caller
from services.gateway.conversations import Plan, Posted, Writing, no_conversation
from services.gateway.deps import Deps
from services.gateway.dialects.ai_sdk import AiSdk, Chunk, Version
from services.gateway.dialects.ai_sdk_history import History
from services.gateway.dialects.ai_sdk_posted import ChatIn, Seen, answers_of, seen_of
from services.gateway.dialects.follow import Heard, HolderTold, follow_reply
from services.gateway.dialects.moves import TurnEnded
from services.gateway.dialects.posted import Answer
from services.gateway.dialects.unseen import Unseen
from services.gateway.holder import shown
from services.gateway.live import Topic
from services.gateway.resting import look, waits_behind
from services.gateway.store import reading
from services.gateway.store.conversations import load_conversation
from services.gateway.store.turns import (
    load_hearer,
    load_newest_turn,
    load_reply,
    load_turn_start,
    load_waiting_step,
    turns_had_approval,
)
from services.gateway.stream import Stream, data_frame, replay
from shared.errors import Refused

router = APIRouter(prefix="/api/chat", tags=["ai-sdk"], route_class=StrictRoute)

#: Pause between two looks whether a turn waits for people, in seconds: the feed may be ahead of what the agent stored.
LOOK_SECONDS = 1.0
#: Feed items that a history is made of, the newest ones.
HISTORY_MAX = 5_000
_HEADERS = {**HEADERS, "x-vercel-ai-ui-message-stream": "v1"}
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "Chunks.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
}
VersionOf = Annotated[
    Version, Query(description="Major version of the client's `ai` package; 6 also suits later ones.")
]


@dataclass
class _Goal:
    """What a stream shall tell, and when it is done."""

    topic: Topic
    writer: AiSdk
    #: Number of the feed item after which it reads, and of the newest one when it began.
    after: int
    newest: int
    turn_id: str = ""
    #: The message that is gone on with; empty for a new one.
    message_id: str = ""
    #: The user's message whose answer is wanted; empty where none was written.
    written: str = ""
    seen: Seen = field(default_factory=Seen)
    #: Approvals that were just decided: the turn goes on, although the feed does not say so yet.
    decided: set[str] = field(default_factory=set)
    #: Answers that were refused: approval id -> the problem.
    refused: dict[str, Any] = field(default_factory=dict)
    #: Whether it stays open while people think.
    stays: bool = False
    #: Who answers, where that is not the agent: {state, operator, text}.
    holder: dict[str, Any] | None = None


@router.post(
    "",
    response_class=StreamingResponse,
    responses={**_STREAM, **described(400, 401, 403, 404, 409, 413, 415, 422, 429, 503)},
)
async def chat(deps: DepsOf, caller: CallerOf, body: ChatIn, version: VersionOf = "6") -> StreamingResponse:
    """Take what a chat's user wrote, or how they answered approval requests, and stream what the agent does then.

    Of the posted history only the newest message counts. A chat that is not known begins.
    """
    topic, writer = Topic(caller.tenant, body.id), AiSdk(version)
    if body.newest.role == "user":
        posted = await _post(deps, caller, body)
        written = "" if posted.taken_as else posted.message_id
        goal = _Goal(topic, writer, after=posted.event_id, newest=posted.event_id, written=written)
        async with reading(deps.runtime.database) as connection:
            conversation = await load_conversation(connection, *_place(topic))
        if conversation is not None and conversation.held.by_people:
            goal.holder = shown(conversation.held, conversation.language)
        return _streaming(deps, caller, goal)
    may_read(caller, body.id)
    turn_id, _, joined_at = body.newest.id.partition(".")
    goal = _Goal(topic, writer, after=0, newest=0, turn_id=turn_id, seen=seen_of(body.newest))
    answers = answers_of(body.newest)
    several = await approves_several(deps.decisions, caller, topic, answers)
    for answer in answers:
        await _decide(deps, caller, answer, goal, several=several)
    async with reading(deps.runtime.database) as connection:
        conversation = await load_conversation(connection, *_place(topic))
        began = await load_turn_start(connection, *_place(topic), turn_id)
    if conversation is None:
        raise no_conversation()
    if began is None:
        raise _no_message(goal.refused)
    goal.after = int(joined_at) - 1 if joined_at.isdecimal() else began - 1
    goal.newest, goal.message_id = conversation.feed_seq, body.newest.id
    return _streaming(deps, caller, goal)


@router.get("/{chat_id}", responses=described(401, 403, 404, 503))
async def history(deps: DepsOf, caller: CallerOf, chat_id: PathId, version: VersionOf = "6") -> dict[str, Any]:
    """Return the chat's messages as the SDK keeps them, for `useChat({messages})`: `{id, messages}`."""
    may_read(caller, chat_id)
    topic, kept = Topic(caller.tenant, chat_id), History(AiSdk(version))
    async with reading(deps.runtime.database) as connection:
        conversation = await load_conversation(connection, *_place(topic))
    if conversation is None:
        raise no_conversation()
    async for item in replay(deps.runtime.database, topic, max(0, conversation.feed_seq - HISTORY_MAX)):
        kept.add(item.as_wire())
    return {"id": chat_id, "messages": kept.messages()}


@router.get(
    "/{chat_id}/stream",
    response_class=StreamingResponse,
    response_model=None,
    responses={**_STREAM, 204: {"description": "Nothing goes on."}, **described(401, 403, 404, 503)},
)
async def resume(
    deps: DepsOf, caller: CallerOf, chat_id: PathId, version: VersionOf = "6"
) -> StreamingResponse | Response:
    """Replay what answers the newest message from its beginning and stay until it is over; 204 where nothing goes on.

    Where people hold the conversation and no turn runs, stay for what an operator says next.

    What waited for people is replayed after its end too: who posted last was not told how it went on.
    """
    may_read(caller, chat_id)
    topic = Topic(caller.tenant, chat_id)
    async with reading(deps.runtime.database) as connection:
        conversation = await load_conversation(connection, *_place(topic))
        if conversation is None:
            raise no_conversation()
        turn = await load_newest_turn(connection, *_place(topic))
        reply = await load_reply(connection, *_place(topic), turn["turn_id"]) if turn else {}
        over = turn is None or (
            turn["ended_at"] is not None and not await turns_had_approval(connection, caller.tenant, reply)
        )
    if over and conversation.held.by_people and conversation.ended_at is None:
        # What was said so far is in the history; what comes next may be an operator's word.
        now = conversation.feed_seq
        goal = _Goal(
            topic, AiSdk(version), now, now, stays=True, holder=shown(conversation.held, conversation.language)
        )
        return _streaming(deps, caller, goal)
    if over or not reply:
        return Response(status_code=204)
    turn_id, began = next(iter(reply.items()))
    goal = _Goal(topic, AiSdk(version), began - 1, conversation.feed_seq, turn_id, stays=True)
    return _streaming(deps, caller, goal)


async def _post(deps: Deps, caller: Caller, body: ChatIn) -> Posted:
    """Post the user's message, opening the chat where it is new."""
    message_id, text = body.written()
    plan = Plan(body.agent, body.language)
    try:
        return await deps.posts.post_or_open(caller, body.id, Writing(text, message_id), plan)
    except Refused as refusal:
        if refusal.kind != "message-id-used":
            raise
        return await deps.posts.post(caller, body.id, Writing(text, body.edited_id()))


async def _decide(deps: Deps, caller: Caller, answer: Answer, goal: _Goal, *, several: bool) -> None:
    """Have one answer decided; a refusal is told in the stream, beside the card that still waits."""
    try:
        row = await decide_in(deps.decisions, caller, goal.topic, answer, several=several)
    except Refused as refusal:
        goal.refused[answer.approval_id] = {"title": refusal.title, "status": refusal.status, "kind": refusal.kind}
        return
    if row is None or row["state"] != "pending":
        goal.decided.add(answer.approval_id)


def _streaming(deps: Deps, caller: Caller, goal: _Goal) -> StreamingResponse:
    heartbeat = deps.settings.gateway_heartbeat_seconds if goal.stays else LOOK_SECONDS
    stream = stream_of(deps, caller, (goal.topic,), goal.topic, goal.after, heartbeat)
    return StreamingResponse(_frames(deps, stream, goal), media_type="text/event-stream", headers=_HEADERS)


async def _frames(deps: Deps, stream: Stream, goal: _Goal) -> AsyncIterator[bytes]:
    yield b": stream-open\n\n"
    if goal.holder:
        yield _encode(goal.writer.holder(goal.holder))
    writer, unseen = goal.writer, Unseen(goal.seen, goal.refused)
    last: Heard | None = None
    ends: list[Mapping[str, Any]] = []
    async for heard in follow_reply(stream, goal.turn_id, partial(_hears, deps, goal) if goal.written else None):
        if isinstance(heard, HolderTold):
            yield _encode(writer.holder(heard.data))
            continue
        if heard is None:
            yield b": keep-alive\n\n"
        else:
            if last is None:
                yield _encode(writer.begin(goal.message_id or heard.reply.message_id))
                yield _encode(_problem(approval_id, told) for approval_id, told in goal.refused.items())
            last = heard
            ends += (move.end for move in heard.moves if isinstance(move, TurnEnded))
            yield _encode(chunk for move in unseen.of(heard.moves) for chunk in writer.chunks(move))
        if last is not None and not goal.stays and await _pauses(deps, last, goal):
            yield _encode(chunk for move in unseen.of(last.reply.pause()) for chunk in writer.chunks(move))
            yield _encode(writer.pause())
            break
        if last is not None and await _is_over(deps, last, goal):
            break
        if last is None and goal.written and await waits_behind(deps.runtime.database, goal.topic, goal.written):
            yield _encode(writer.waits(goal.written))
            break
    yield _encode(chunk for end in ends[-1:] for chunk in writer.fail(end))
    yield b"data: [DONE]\n\n"


async def _hears(deps: Deps, goal: _Goal, turn_id: str) -> bool:
    """Tell whether a turn hears the message that was written: others may be answered before it."""
    async with reading(deps.runtime.database) as connection:
        return await load_hearer(connection, *_place(goal.topic), goal.written) == turn_id


async def _pauses(deps: Deps, heard: Heard, goal: _Goal) -> bool:
    """Tell whether nothing goes on in the turn until people decide, and everything before was told.

    The agent knows of calls before the feed does, and what the model said beside them may come behind their cards.
    """
    reply, waiting = heard.reply, heard.reply.waiting
    if heard.number < goal.newest or not reply.waits or goal.decided.intersection(waiting.values()):
        return False
    async with reading(deps.runtime.database) as connection:
        step = await load_waiting_step(connection, goal.topic.tenant, reply.newest, waiting.keys())
    return step is not None and reply.reader.step(reply.newest) >= step


async def _is_over(deps: Deps, heard: Heard, goal: _Goal) -> bool:
    """Tell whether nothing follows: the turn ended, and so did those that tell what became of its calls later."""
    reply = heard.reply
    if heard.number < goal.newest or not reply.over:
        return False
    if not reply.late or not (goal.stays or goal.decided):
        return True
    if reply.runs or (goal.stays and reply.waiting):
        return False
    return await look(deps.runtime.database, goal.topic, reply.reader, partial=True) is not None


def _no_message(refused: Mapping[str, Any]) -> Refused:
    """Return why there is nothing to stream: an answer that was refused, or else that nothing of the kind was said."""
    for problem in refused.values():
        return Refused(problem["title"], status=problem["status"], kind=problem["kind"])
    fault = {"detail": "no such message of the assistant in this chat", "pointer": "#/messages"}
    return Refused("There is no such message in this chat.", status=404, kind="not-found", errors=[fault])


def _problem(approval_id: str, told: Any) -> Chunk:
    return {"type": "data-approval-problem", "id": approval_id, "data": {"approval_id": approval_id, **told}}


def _encode(chunks: Iterable[Chunk]) -> bytes:
    return b"".join(map(data_frame, chunks))


def _place(topic: Topic) -> tuple[str, str]:
    return topic.tenant, topic.conversation_id
