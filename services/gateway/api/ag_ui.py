"""AG-UI's own address: what `HttpAgent` and its like post to, without any code of ours beside it.

The thread is the conversation. A run begins with what the store has, tells what happens then, and ends when nothing
goes on: asking where calls wait for people. Answers to that decide like every other decision, in the caller's name.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from services.gateway.answers import approves_several, decide_in
from services.gateway.api.ai_sdk import HISTORY_MAX, LOOK_SECONDS
from services.gateway.api.callers import CallerOf, DepsOf
from services.gateway.api.conversations import may_read
from services.gateway.api.errors import described
from services.gateway.api.events import HEADERS, stream_of
from services.gateway.api.strict import StrictRoute
from services.gateway.auth import Caller
from services.gateway.conversations import Writing, no_conversation
from services.gateway.deps import Deps
from services.gateway.dialects.ag_ui import AgUi, Event, finished, interrupt_of
from services.gateway.dialects.ag_ui_posted import Resumed, RunIn
from services.gateway.dialects.follow import unpacked
from services.gateway.dialects.reader import Reader
from services.gateway.holder import shown
from services.gateway.keys import Scope
from services.gateway.live import Topic
from services.gateway.resting import Resting, look
from services.gateway.store import reading
from services.gateway.store.conversations import load_conversation
from services.gateway.store.feed import find_item
from services.gateway.store.turns import load_newest_start
from services.gateway.stream import Stream, data_frame
from shared.errors import Refused

router = APIRouter(prefix="/agui", tags=["ag-ui"], route_class=StrictRoute)

#: Refusals that end no run: the store has the truth, and the run tells it and asks again.
_TOLD = frozenset({"already-decided", "approve-alone", "stale-card", "not-found"})
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "Events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
}


@dataclass(frozen=True, slots=True)
class _Answered:
    """What became of one answer to an interrupt."""

    resumed: Resumed
    #: Whether it decided something; None while nobody knows.
    counted: bool | None = False
    #: Why it did not count.
    problem: Mapping[str, Any] | None = None

    @property
    def fatal(self) -> bool:
        """Whether the caller asked for what they may not."""
        return self.problem is not None and self.problem["kind"] not in _TOLD and not self.resumed.abandoned


@dataclass(frozen=True)
class _Goal:
    """What a run shall tell, and when it is done."""

    body: RunIn
    topic: Topic
    #: Number of the feed item after which it reads, and of the newest one when it began.
    after: int
    newest: int
    #: The message that the agent must have heard; empty where there is none.
    message_id: str
    #: Who answered when it began, where that was not the agent: {state, operator, text}.
    holder: Mapping[str, Any] | None = None
    answered: Sequence[_Answered] = field(default_factory=tuple)

    @property
    def error(self) -> Mapping[str, Any] | None:
        """Why the run ends at once: answers of which none counted, and one that the caller may not give."""
        if any(each.counted is not False for each in self.answered):
            return None
        return next((each.problem for each in self.answered if each.fatal), None)

    @property
    def problems(self) -> dict[str, Mapping[str, Any]]:
        """Why answers did not count: approval id -> problem."""
        return {each.resumed.approval_id: each.problem for each in self.answered if each.problem}

    @property
    def unsettled(self) -> set[str]:
        """The approvals about which a decision is on its way."""
        return {each.resumed.approval_id for each in self.answered if each.counted is None}


@router.post(
    "",
    response_class=StreamingResponse,
    responses={**_STREAM, **described(400, 401, 403, 404, 409, 413, 415, 422, 429, 503)},
)
async def run(deps: DepsOf, caller: CallerOf, body: RunIn) -> StreamingResponse:
    """Take what the user wrote, or how they answered interrupts, and stream what is and what happens then.

    With nothing new it shows the thread and follows what goes on. A thread that is not known begins with a message.
    """
    may_read(caller, body.threadId)
    resumed, written = body.resumed(), body.written()
    topic = Topic(caller.tenant, body.threadId)
    if any(each.answer is not None and not each.abandoned for each in resumed):
        caller.need(Scope.DECIDE)
    answers = [each.answer for each in resumed if each.answer is not None]
    several = await approves_several(deps.decisions, caller, topic, answers)
    answered = await asyncio.gather(*(_answer(deps, caller, topic, each, several=several) for each in resumed))
    message_id = await _post(deps, caller, body, written) if written else ""
    async with reading(deps.runtime.database) as connection:
        conversation = await load_conversation(connection, topic.tenant, topic.conversation_id)
        began = await load_newest_start(connection, topic.tenant, topic.conversation_id)
    if conversation is None:
        raise no_conversation()
    newest = conversation.feed_seq
    after = min(max(0, newest - HISTORY_MAX), newest if began is None else began - 1)
    held = conversation.held
    holder = shown(held, conversation.language) if held.by_people else None
    goal = _Goal(body, topic, after, newest, message_id, holder, answered)
    stream = stream_of(deps, caller, (topic,), topic, goal.after, LOOK_SECONDS)
    return StreamingResponse(_frames(deps, stream, goal), media_type="text/event-stream", headers=HEADERS)


async def _post(deps: Deps, caller: Caller, body: RunIn, written: tuple[str, str]) -> str:
    """Post the user's newest message unless it is known; return its id, empty where the agent never gets it."""
    message_id, text = written
    async with reading(deps.runtime.database) as connection:
        known = await find_item(connection, caller.tenant, body.threadId, f"message:{message_id}")
    if known is not None and known.data["text"] == text:
        return "" if known.data.get("taken_as") else message_id
    if known is not None:
        message_id = body.edited_id(message_id, text)
    posted = await deps.posts.post_or_open(caller, body.threadId, Writing(text, message_id), body.plan)
    return posted.message_id


async def _answer(deps: Deps, caller: Caller, topic: Topic, resumed: Resumed, *, several: bool) -> _Answered:
    """Have one answer decided; a refusal is told in the run."""
    if resumed.answer is None:
        return _Answered(resumed)
    try:
        row = await decide_in(deps.decisions, caller, topic, resumed.answer, several=several)
    except Refused as refusal:
        problem = {"kind": refusal.kind, "title": refusal.title, "status": refusal.status, **refusal.facts}
        return _Answered(resumed, problem=problem)
    return _Answered(resumed, counted=None if row is None else True)


async def _frames(deps: Deps, stream: Stream, goal: _Goal) -> AsyncIterator[bytes]:
    writer, reader, body = AgUi(goal.body.state), Reader(), goal.body
    yield data_frame(writer.begin(body.threadId, body.runId, modern=body.modern))
    live, number = goal.newest == goal.after, goal.after
    if live:
        yield _encode(_opening(writer, goal))
    async for signal in stream.signals():
        if signal is None:
            yield b": keep-alive\n\n"
        else:
            kind, data, number = unpacked(signal, number)
            events = list(_read(reader, writer, kind, data, number))
            if live:
                yield _encode(events)
            elif number >= goal.newest:
                live = True
                yield _encode(_opening(writer, goal))
        if not live:
            continue
        if goal.error is not None:
            yield data_frame(_error(str(goal.error["title"]), str(goal.error["kind"])))
            return
        resting = await _rests(deps, reader, goal)
        if resting is not None:
            asked = [interrupt_of(row, goal.problems.get(row["approval_id"])) for row in reversed(resting.waiting)]
            result = writer.result(held=resting.held.by_people)
            yield _encode(writer.end())
            yield _encode(finished(body.threadId, body.runId, result, asked, modern=body.modern))
            return
    yield data_frame(_error("The stream was let go; post again to go on.", "let-go"))


def _read(reader: Reader, writer: AgUi, kind: str, data: Mapping[str, Any], number: int) -> Iterator[Event]:
    """Yield the events of a feed item, or of a delta."""
    if kind == "holder":
        yield from writer.hold(data)
    for told in reader.read(kind, data, number):
        yield from writer.events(told.move)


def _opening(writer: AgUi, goal: _Goal) -> Iterator[Event]:
    """Yield how things stand, and which answers did not count."""
    # Also where they took it long before the oldest item that was read.
    if goal.holder:
        deque(writer.hold(goal.holder), maxlen=0)
    yield from writer.snapshots(goal.body.messages)
    for each in goal.answered:
        if each.problem:
            known = {"interruptId": each.resumed.interrupt_id, "approval_id": each.resumed.approval_id}
            yield {"type": "CUSTOM", "name": "placet.refused", "value": {**known, **each.problem}}


async def _rests(deps: Deps, reader: Reader, goal: _Goal) -> Resting | None:
    """Return how the thread rests, with every decision answered; None while something goes on."""
    if not (reader.quiet and reader.settled):
        return None
    resting = await look(deps.runtime.database, goal.topic, reader, goal.message_id, partial=goal.after > 0)
    if resting is None or goal.unsettled.intersection(row["approval_id"] for row in resting.waiting):
        return None
    return resting


def _error(message: str, code: str) -> Event:
    return {"type": "RUN_ERROR", "message": message, "code": code}


def _encode(events: Iterable[Event]) -> bytes:
    return b"".join(map(data_frame, events))
