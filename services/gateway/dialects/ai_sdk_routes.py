"""The Vercel AI SDK's own addresses: what `useChat` posts to and resumes from, without any code of ours beside it.

The chat's id is the conversation's. Of what a client posts we believe a new text in the newest message, or answers to
approval requests, each bound to the digest of the card that was shown, and given in the caller's own name.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from placet.contracts.errors import Refused
from placet.contracts.ids import own_id
from placet.contracts.messages import ACCOMPLISH_TOOL
from placet.gateway.conversations.live import Topic
from placet.gateway.conversations.service import Plan, Posted, Writing
from placet.gateway.conversations.sse import data_frames, described_stream, event_stream
from placet.gateway.dialects import ai_sdk_again, streams
from placet.gateway.dialects.ai_sdk import AiSdkState, Chunk, Goal, Version, begin, holder_part
from placet.gateway.dialects.ai_sdk_history import ChatOut, ChatStopOut, history
from placet.gateway.dialects.ai_sdk_posted import ChatIn
from placet.gateway.dialects.conversation_state import ConversationState, replay
from placet.gateway.http.callers import CallerOf, DepsOf, PathId
from placet.gateway.http.deps import Deps
from placet.gateway.http.errors import described
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.auth import Caller
from placet.gateway.store import reading
from placet.gateway.store.read import load_verdict

router = APIRouter(prefix="/api/chat", tags=["ai-sdk"], route_class=StrictRoute)

#: What a page is told whose answers stand in another message than it names, and none of them counted now: no stream of
#: such a post can change the message that has them, and a page that goes on posting them must end.
_ELSEWHERE = "What became of your answers stands in the chat: load the chat again."
#: What a page is told whose stream ends before its answer does: this gateway stops, or the page may not hear more.
_LET_GO = "The stream was let go; load the chat again to go on."
#: How long a stop waits for what it stops, in seconds; an agent that is away does it later.
STOP_SECONDS = 10.0
#: How often it looks whether policy lets a call run, in seconds: no log tells of that.
VERDICT_SECONDS = 0.2
#: Verdicts by which nobody is asked.
_RUNS = frozenset({"allow", "stage"})
_HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
_STREAM = described_stream("Chunks.")
VersionOf = Annotated[
    Version, Query(description="Major version of the client's `ai` package; 6 also suits later ones.")
]


@router.post(
    "",
    response_class=StreamingResponse,
    responses={**_STREAM, **described(400, 401, 403, 404, 409, 413, 415, 422, 429, 503)},
)
async def chat(deps: DepsOf, caller: CallerOf, body: ChatIn, version: VersionOf = "6") -> StreamingResponse:
    """Take what a chat's user wrote, or how they answered approval requests, and stream what the agent does then.

    The stream ends where the answer is over or waits for people. A chat that is not known begins.
    """
    conversation_id, answers = own_id(caller.tenant, body.id), body.answers()
    deps.log.limits.check(caller, Topic(caller.tenant, conversation_id))
    if body.newest.role == "user":
        return await _write(deps, caller, body, version)
    snapshot = await streams.read(deps, caller, conversation_id)
    decided, refused = await streams.decide(deps, caller, conversation_id, answers)
    elsewhere = answers and not body.newest.answers() and decided <= refused.keys()
    said = {each.approval_id: each for each in answers}
    # A page that is loaded while a call runs, which the history has as answered, posts that answer once more.
    problems = {key: why for key, why in refused.items() if not streams.was_said(why, said[key])}
    goal = Goal(
        version,
        body.newest.id,
        newest=snapshot.newest,
        seen=body.newest.seen(),
        decided=decided,
        refused=problems,
        fault=_ELSEWHERE if elsewhere else "",
    )
    state, chunks = replay(begin(goal), snapshot.items)
    if not state.is_known:
        raise _no_message(refused)
    return _streaming(deps, caller, conversation_id, state, chunks)


@router.get("/{chat_id}", response_model=None, responses={200: {"model": ChatOut}, **described(401, 403, 404, 503)})
async def show(deps: DepsOf, caller: CallerOf, chat_id: PathId, version: VersionOf = "6") -> dict[str, Any]:
    """Return the chat's messages as the SDK keeps them, for `useChat({messages})`: `{id, messages}`.

    Every version keeps them in the same form. `older: true` beside them: there are more, which are left out.
    """
    del version
    snapshot = await streams.read(deps, caller, own_id(caller.tenant, chat_id), streams.HISTORY_MAX)
    older = {"older": True} if snapshot.older else {}
    return {"id": chat_id, "messages": history(snapshot.items), **older}


@router.get(
    "/{chat_id}/stream",
    response_class=StreamingResponse,
    response_model=None,
    responses={**_STREAM, 204: {"description": "Nothing streams."}, **described(401, 403, 404, 503)},
)
async def resume(
    deps: DepsOf, caller: CallerOf, chat_id: PathId, version: VersionOf = "6"
) -> StreamingResponse | Response:
    """Replay the newest answer from its beginning, and stay until it is over or waits for people.

    Also where it is over or waits already: the page may have read its history before, or lost its stream, and the SDK
    puts a replay in the place of what it shows. 204 where there is no answer, and where version 6 could not be told of
    it as the history tells it. Where people hold the conversation, and nothing waits for a decision, stay for what an
    operator says.
    """
    conversation_id = own_id(caller.tenant, chat_id)
    deps.log.limits.check(caller, Topic(caller.tenant, conversation_id))
    # As far back as the history, so that no replay takes away what that one showed.
    snapshot = await streams.read(deps, caller, conversation_id, streams.HISTORY_MAX)
    log = snapshot.log
    # One that waited is answered next where a turn follows, and nothing waits any more.
    is_next = log.follows and not log.waiting
    coming = [message_id for message_id, waits in log.unanswered.items() if is_next or not waits]
    newest = next(reversed(log.turns.values()), None)
    goal = Goal(version, newest=snapshot.newest, holder=snapshot.holder)
    goal = replace(goal, message_id=coming[0]) if coming else replace(goal, reply_id=newest.reply_id if newest else "")
    goal = replace(goal, decided=await streams.decided_since(deps, caller, log))
    state, chunks = replay(begin(goal), snapshot.items)
    if not coming and (state.done or not state.reply_id):
        if snapshot.holder and not log.waiting and not snapshot.conversation.ended_at:
            # What was said so far is in the history; what comes next may be an operator's word.
            goal = replace(goal, reply_id="")
            state, chunks = replay(begin(goal), snapshot.items)
        elif not state.reply_id or not state.is_tellable:
            return Response(status_code=204)
    return _streaming(deps, caller, conversation_id, state, chunks)


@router.post(
    "/{chat_id}/stop", responses=described(401, 403, 404, 503) | {202: {"description": "It is being stopped."}}
)
async def stop(deps: DepsOf, caller: CallerOf, chat_id: PathId, response: Response) -> ChatStopOut:
    """Stop the answer that is being made: 202, and its stream ends; 200 where none is.

    It answers when the turn is over and what waited is withdrawn, for at most some seconds: a page that asks for
    another answer next must neither be shown a request that goes away nor have a second one beside it.
    """
    conversation_id = own_id(caller.tenant, chat_id)
    turn_id = await deps.posts.stop(caller, conversation_id)
    if turn_id:
        await _end_of(deps, caller, conversation_id, turn_id)
    response.status_code = 202 if turn_id else 200
    return ChatStopOut(id=chat_id, state="stopping" if turn_id else "idle")


async def _end_of(deps: Deps, caller: Caller, conversation_id: str, turn_id: str) -> None:
    """Wait until a turn is over and nobody is asked about its calls, nor will be."""
    log = (await streams.read(deps, caller, conversation_id)).log
    if await _withdrew(deps, caller, log, turn_id):
        return
    with suppress(TimeoutError):
        async with (
            asyncio.timeout(STOP_SECONDS),
            aclosing(deps.log.follow(caller, conversation_id, log.seq, heartbeat_seconds=VERDICT_SECONDS)) as entries,
        ):
            async for entry in entries:
                if entry is not None:
                    log.read(entry)
                if await _withdrew(deps, caller, log, turn_id):
                    return


async def _withdrew(deps: Deps, caller: Caller, log: ConversationState, turn_id: str) -> bool:
    """Tell whether a turn is over and asks nobody: a call without a card or a result runs, or policy still looks at it.

    What runs goes on behind a stop and is not waited for; but a job is cancelled, with what is asked in it.
    """
    if not log.withdrew(turn_id):
        return False
    unclear = log.unclear(turn_id)
    if not unclear or any(call.tool == ACCOMPLISH_TOOL for call in unclear):
        return not unclear
    async with reading(deps.runtime.database) as connection:
        verdicts = [await load_verdict(connection, caller.tenant, call.call_id) for call in unclear]
    return all(verdict is not None and verdict["effect"] in _RUNS for verdict in verdicts)


async def _write(deps: Deps, caller: Caller, body: ChatIn, version: Version) -> StreamingResponse:
    """Post the user's message, opening the chat where it is new, and stream the reply.

    Where another answer is asked for while the newest one is being made, or waits, that one is told again: it must not
    ask for a second payment.
    """
    conversation_id, writing = own_id(caller.tenant, body.id), body.written()
    again = body.trigger == "regenerate-message"
    # As far back as a page that is loaded shows messages which it may have answered again.
    snapshot = await streams.find(deps, caller, conversation_id, *([streams.HISTORY_MAX] if again else []))
    if again and snapshot:
        newest, is_known = ai_sdk_again.newest_id(body.id, str(writing.message_id), writing.text, snapshot.items)
        goal = Goal(version, message_id=newest, newest=snapshot.newest, holder=snapshot.holder)
        state, chunks = replay(begin(goal), snapshot.items)
        if ai_sdk_again.needs_somebody(state):
            return _streaming(deps, caller, conversation_id, state, chunks)
        # What the log does not have was never taken: then it is written for the first time.
        another = ai_sdk_again.following_id(body.id, newest) if is_known or snapshot.older else newest
        writing = replace(writing, message_id=another)
    posted = await _post(deps, caller, body, writing)
    snapshot = snapshot or await streams.read(deps, caller, conversation_id)
    goal = Goal(version, message_id=posted.message_id, newest=snapshot.newest, holder=snapshot.holder)
    state, chunks = replay(begin(goal), snapshot.items)
    told = [holder_part(snapshot.holder)] if snapshot.holder else []
    return _streaming(deps, caller, conversation_id, state, [*told, *chunks])


async def _post(deps: Deps, caller: Caller, body: ChatIn, writing: Writing) -> Posted:
    conversation_id = own_id(caller.tenant, body.id)
    try:
        return await deps.posts.post_or_open(caller, conversation_id, writing, Plan(body.agent, body.language))
    except Refused as refusal:
        if refusal.kind != "message-id-used":
            raise
        edited = ai_sdk_again.edited_id(body.id, str(writing.message_id), writing.text)
        return await deps.posts.post(caller, conversation_id, replace(writing, message_id=edited))


def _streaming(
    deps: Deps, caller: Caller, conversation_id: str, state: AiSdkState, chunks: Iterable[Chunk]
) -> StreamingResponse:
    async def frames() -> AsyncIterator[bytes]:
        done = state.done
        yield b": stream-open\n\n" + data_frames(*chunks)
        with streams.breaking_off():
            async for after, told in streams.follow(deps, caller, conversation_id, state):
                done = after.done
                yield data_frames(*told) or b": keep-alive\n\n"
        if not done:
            yield data_frames({"type": "error", "errorText": _LET_GO})
        yield b"data: [DONE]\n\n"

    return event_stream(frames(), _HEADERS)


def _no_message(refused: dict[str, Any]) -> Refused:
    """Return why there is nothing to stream: an answer that was refused, or else that nothing of the kind was said."""
    for problem in refused.values():
        return Refused(problem["title"], status=problem["status"], kind=problem["kind"])
    fault = {"detail": "no such message of the assistant in this chat", "pointer": "#/messages"}
    return Refused("There is no such message in this chat.", status=404, kind="not-found", errors=[fault])
