"""AG-UI's own address: what `HttpAgent` and its like post to, without any code of ours beside it.

The thread is the conversation. A run begins with what the log has, tells what happens then, and ends when nothing goes
on: asking where calls wait for people. Of a posted history we believe nothing but the newest message of the user; what
counts is what the caller asks for now, in their own name: a new text, or answers to interrupts.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field, StrictBool, ValidationInfo, field_validator

from placet.contracts.ids import derived_id, own_id
from placet.contracts.messages.approvals import REASON_MAX
from placet.contracts.messages.message import Identifier
from placet.gateway.approvals.answers import Answer
from placet.gateway.conversations.access import may_read
from placet.gateway.conversations.live import Topic
from placet.gateway.conversations.service import Plan, Writing
from placet.gateway.conversations.sse import data_frames, described_stream, event_stream
from placet.gateway.dialects import streams
from placet.gateway.dialects.ag_ui import AgUiState, Goal
from placet.gateway.dialects.conversation_state import replay
from placet.gateway.dialects.posted import MESSAGE_ID, LeaveOut, checked_answers, checked_text
from placet.gateway.dialects.streams import Snapshot
from placet.gateway.http.callers import CallerOf, DepsOf
from placet.gateway.http.deps import Deps
from placet.gateway.http.errors import described, invalid_request
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.texts import Body, Text

router = APIRouter(prefix="/agui", tags=["ag-ui"], route_class=StrictRoute)

#: Messages of a posted history.
MESSAGES_MAX = 2_000
#: Interrupts that one run may name; clients name all of them, also those that they do not decide.
RESUME_MAX = 200
#: Reason of a decision that a client makes by abandoning a question.
ABANDONED = "Abandoned in the chat."
#: Refusals that end no run: the log has the truth, and the run tells it and asks again.
_TOLD = frozenset({"already-decided", "approve-alone", "stale-card", "not-found"})
_INTERRUPT = re.compile(r"([A-Za-z0-9_-]{1,64})\.([0-9a-f]{64})")
_STREAM = described_stream("Events.")


class InterruptAnswer(Body):
    """An answer to an interrupt, as its `responseSchema` says."""

    approved: StrictBool | None = None
    reason: Annotated[Text, Field(max_length=REASON_MAX)] = ""
    leave_out: LeaveOut = Field(default=(), description="Of a commit that is approved: entries that do not run.")

    @field_validator("leave_out")
    @classmethod
    def goes_with_a_yes(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        """Refuse entries to leave out of what is not approved."""
        if value and not info.data.get("approved"):
            raise ValueError("'leave_out' goes with 'approved': true")
        return value


class ResumeEntry(BaseModel):
    """What the client says to one interrupt."""

    interruptId: Annotated[str, Field(min_length=1, max_length=200)]  # noqa: N815 - the wire's name
    status: Literal["resolved", "cancelled"]
    payload: InterruptAnswer | None = None


class RunProps(BaseModel):
    """What of `forwardedProps` counts, where a thread begins."""

    agent: Identifier = "default"
    language: Annotated[str, Field(pattern=r"^[a-z]{2}$")] = "en"


@dataclass(frozen=True, slots=True)
class Resumed:
    """What a client says to one interrupt."""

    interrupt_id: str
    #: Empty where it is none of ours.
    approval_id: str
    #: None where the client only wants to know whether others have decided.
    answer: Answer | None
    #: Whether the question was abandoned: then it is no error where that decides nothing.
    abandoned: bool = False


class RunIn(BaseModel):
    """The input of a run. Front-end tools and context are taken and passed over, as is what an application adds."""

    threadId: Identifier = Field(  # noqa: N815 - the wire's name
        description="The conversation's id is this, behind the tenant's name and `_`."
    )
    runId: Annotated[Text, Field(min_length=1, max_length=200)]  # noqa: N815 - the wire's name
    protocolVersion: Annotated[str, Field(pattern=r"^\d{1,4}\.\d{1,4}$")] | None = Field(  # noqa: N815 - the wire's name
        default=None, description="Clients from before 1.0 leave it out."
    )
    messages: Annotated[list[dict[str, Any]], Field(max_length=MESSAGES_MAX)] = Field(
        description="The history; only the newest message of the user is believed."
    )
    state: Any = Field(default=None, description="Given back with our part of it under `placet`.")
    tools: list[Any] = Field(default_factory=list)
    context: list[Any] = Field(default_factory=list)
    forwardedProps: RunProps | None = Field(  # noqa: N815 - the wire's name
        default=None, description="For a thread that begins: `agent` and `language`."
    )
    resume: Annotated[list[ResumeEntry], Field(max_length=RESUME_MAX)] = Field(default_factory=list)

    @property
    def plan(self) -> Plan:
        """What is said of a thread that begins."""
        props = self.forwardedProps or RunProps()
        return Plan(props.agent, props.language)

    def written(self) -> Writing | None:
        """Return the user's newest message; None where there is none.

        Raises Refused: 400 where it is more than text, 413 where it is too much of it.
        """
        newest = next((each for each in reversed(self.messages) if each.get("role") == "user"), None)
        if newest is None:
            return None
        text, message_id = _text_of(newest.get("content")), newest.get("id")
        if isinstance(message_id, str) and MESSAGE_ID.fullmatch(message_id):
            return Writing(text, message_id)
        return Writing(text, derived_id("ag-ui", self.threadId, str(message_id), text))

    def resumed(self) -> list[Resumed]:
        """Return what the caller says to interrupts; raise Refused (400) for two things said to one, or too many."""
        if len({entry.interruptId for entry in self.resume}) < len(self.resume):
            raise invalid_request("must name each interrupt once", pointer="#/resume")
        found = [_resumed(entry) for entry in self.resume]
        answers = [each.answer for each in found if each.answer is not None]
        checked_answers(answers, partial(invalid_request, pointer="#/resume"))
        return found


def _resumed(entry: ResumeEntry) -> Resumed:
    ours = _INTERRUPT.fullmatch(entry.interruptId)
    approval_id, digest = ours.groups() if ours else ("", "")
    if entry.status == "cancelled":
        no = Answer(approval_id, digest, approved=False, reason=ABANDONED)
        return Resumed(entry.interruptId, approval_id, no, abandoned=True)
    said = entry.payload or InterruptAnswer()
    answer = None if said.approved is None else Answer(approval_id, digest, said.approved, said.reason, said.leave_out)
    return Resumed(entry.interruptId, approval_id, answer)


def _text_of(content: Any) -> str:
    """Return the text of a message, its parts joined."""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        whole = len(texts) == len(content) and all(isinstance(text, str) for text in texts)
        content = "\n".join(map(str, texts)) if whole else None
    if not isinstance(content, str):
        raise invalid_request("the user's newest message must be text, or parts that are texts", pointer="#/messages")
    return checked_text(content, partial(invalid_request, pointer="#/messages"))


@router.post(
    "",
    response_class=StreamingResponse,
    responses={**_STREAM, **described(400, 401, 403, 404, 409, 413, 415, 422, 429, 503)},
)
async def run(deps: DepsOf, caller: CallerOf, body: RunIn) -> StreamingResponse:
    """Take what the user wrote, or how they answered interrupts, and stream what is and what happens then.

    With nothing new it shows the thread and follows what goes on. A thread that is not known begins with a message.
    """
    conversation_id = own_id(caller.tenant, body.threadId)
    may_read(caller, conversation_id)
    deps.log.limits.check(caller, Topic(caller.tenant, conversation_id))
    resumed, written = body.resumed(), body.written()
    if any(each.answer is not None and not each.abandoned for each in resumed):
        caller.need(Scope.DECIDE)
    answers = [each.answer for each in resumed if each.answer is not None]
    decided, problems = await streams.decide(deps, caller, conversation_id, answers)
    snapshot = await streams.find(deps, caller, conversation_id, streams.HISTORY_MAX)
    message_id = await _post(deps, caller, body, written, snapshot) if written else ""
    snapshot = snapshot or await streams.read(deps, caller, conversation_id)
    goal = Goal(
        body.threadId,
        body.runId,
        body.messages,
        body.state,
        message_id=message_id,
        resumes=bool(resumed),
        decided=decided | await streams.decided_since(deps, caller, snapshot.log),
        refused=[
            {"interruptId": each.interrupt_id, "approval_id": each.approval_id, **problems[each.approval_id]}
            for each in resumed
            if each.answer is not None and each.approval_id in problems
        ],
        error=_error(resumed, problems),
        holder=snapshot.holder,
        holder_revision=snapshot.conversation.holder_revision,
        older=snapshot.older,
    )
    return event_stream(_frames(deps, caller, goal, snapshot))


async def _post(deps: Deps, caller: Caller, body: RunIn, written: Writing, snapshot: Snapshot | None) -> str:
    """Post the user's newest message unless it is known; return its id, empty where the agent never gets it."""
    for item in snapshot.items if snapshot else ():
        if item.type == "message" and item.data["message_id"] == written.message_id:
            if item.data["text"] == written.text:
                return "" if item.data.get("taken_as") else str(written.message_id)
            edited_id = derived_id("ag-ui-edited", body.threadId, str(written.message_id), written.text)
            written = Writing(written.text, edited_id)
            break
    conversation_id = own_id(caller.tenant, body.threadId)
    return (await deps.posts.post_or_open(caller, conversation_id, written, body.plan)).message_id


def _error(resumed: Sequence[Resumed], problems: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return why the run ends at once: no answer counted, and one is of a caller who may not give it; else {}."""
    answered = [each for each in resumed if each.answer is not None]
    if any(each.approval_id not in problems for each in answered):
        return {}
    fatal = (problems[each.approval_id] for each in answered if not each.abandoned)
    return next((problem for problem in fatal if problem["kind"] not in _TOLD), {})


async def _frames(deps: Deps, caller: Caller, goal: Goal, snapshot: Snapshot) -> AsyncIterator[bytes]:
    state = AgUiState(goal)
    with streams.breaking_off():
        state, events = replay(state, snapshot.items)
        yield data_frames(*events)
        async for after, told in streams.follow(deps, caller, snapshot.conversation.conversation_id, state):
            state = after
            yield data_frames(*told) or b": keep-alive\n\n"
    if not state.done:
        yield data_frames(*state.let_go())
