"""Conversations over HTTP: open one, write in it, see how it stands."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from services.gateway.api.approval_forms import ApprovalOut, approval_out
from services.gateway.api.callers import CallerOf, DepsOf, PathId
from services.gateway.api.errors import described
from services.gateway.api.strict import StrictRoute
from services.gateway.auth import Caller
from services.gateway.conversations import Plan, Posted, Writing, known_agent, no_conversation, open_conversation
from services.gateway.feed import arguments_value, status_of
from services.gateway.keys import Scope
from services.gateway.operators import Answer
from services.gateway.stopping import stop
from services.gateway.store import reading
from services.gateway.store.conversations import load_conversation
from services.gateway.store.feed import StoredItem, load_messages
from services.gateway.store.inbox import Filters, list_approvals
from services.gateway.store.read import Row, list_calls
from services.gateway.store.standing import UNKNOWN, Standing, load_standings
from services.gateway.store.turns import load_newest_turn, turn_end_is_kept
from services.gateway.texts import Text
from shared.messages.conversations import TEXT_MAX, Holder
from shared.messages.message import Identifier
from shared.visitors import NAME_PATTERN, checked_visitor, visitor_id

router = APIRouter(prefix="/v1/conversations", tags=["conversations"], route_class=StrictRoute)

#: Messages, calls and approvals that a look at a conversation shows, the newest of each.
SHOWN_MAX = 200

_Label = Annotated[Text, Field(min_length=1, max_length=64)]
_Value = Annotated[Text, Field(max_length=256)]


class ConversationIn(BaseModel):
    """How a conversation begins."""

    model_config = ConfigDict(extra="forbid")

    agent: Identifier = "default"
    language: Annotated[str, Field(pattern=r"^[a-z]{2}$", description="ISO 639-1, for cards.")] = "en"
    labels: Annotated[dict[_Label, _Value], Field(max_length=32, description="For rules.")] = Field(
        default_factory=dict
    )
    visitor: Annotated[str, Field(pattern=NAME_PATTERN), AfterValidator(checked_visitor)] | None = Field(
        default=None, description="Your id of the end user, in whose name messages and decisions are made."
    )


_PLAIN = ConversationIn()


class OpenedOut(BaseModel):
    """A conversation that is open, with its token."""

    id: str
    token: str = Field(description="Lets the end user read, write and decide here, and nowhere else. Shown once.")
    agent: str
    language: str
    labels: dict[str, str]
    requester: str = Field(description="Stable id of the token's holder.")


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


class MessageIn(BaseModel):
    """What somebody writes."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[Text, Field(min_length=1, max_length=TEXT_MAX), AfterValidator(_said)]
    message_id: Identifier | None = Field(default=None, description="Yours; the same id again is the same message.")
    author: Literal["visitor", "person", "operator"] | None = Field(
        default=None,
        description="In whose name a key writes: the end user's, or its owner's; `operator`: as who holds the "
        "conversation, which needs the scope operate.",
    )
    seen_event_id: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="For an operator: the newest event that they had seen. What visitors wrote up to it counts as "
        "answered; the agent answers the rest when it gets the conversation back. Without it, all that is there.",
    )


class PostedOut(BaseModel):
    """The message is safe and will be answered, or was taken for a decision."""

    message_id: str
    conversation_id: str
    event_id: int = Field(description="Its number in the conversation's event stream.")
    taken_as: dict[str, str] | None = Field(
        default=None,
        description="The decision that the message was taken for: approval_id, decision, summary. The agent does not "
        "get such a message.",
    )
    outcome: str | None = Field(
        default=None, description="What became of that decision: `accepted` or why not; null while nobody knows."
    )


class MessageOut(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(extra="allow")

    id: str
    event_id: int
    role: str
    text: str
    at: datetime
    author: dict[str, str] | None = None
    while_waiting: bool = Field(default=False, description="Written while a call of its turn waited for people.")
    taken_as: dict[str, str] | None = Field(default=None, description="The decision that it was taken for.")


class CallSummary(BaseModel):
    """One tool call, renderable from its status alone."""

    id: str
    turn_id: str
    tool: str
    arguments: Any
    status: Literal["proposed", "pending_confirmation", "decided", "executing", "success", "error"]
    kind: str | None = Field(description="How it ended; null while it has not.")
    approval_id: str | None = Field(default=None, description="Of a call that people were asked about.")
    proposed_at: datetime
    answered_at: datetime | None = None


class ConversationOut(BaseModel):
    """A conversation as it stands."""

    id: str
    state: Literal["idle", "working", "waiting", "ended"] = Field(
        description="ended: nobody writes here any more; waiting: an approval waits for people; working: a turn runs; "
        "else idle."
    )
    agent: str | None
    language: str
    labels: dict[str, str]
    requester: str
    created_at: datetime
    ended_at: datetime | None = None
    holder: Holder = Field(
        description="Who answers: the agent; waiting: nobody, an operator is awaited; operator: the one named beside."
    )
    operator: str | None = Field(default=None, description="Stable id of the operator who answers here.")
    last_event_id: int = Field(description="Follow the event stream from here on.")
    messages: list[MessageOut]
    calls: list[CallSummary]
    approvals: list[ApprovalOut] = Field(description="Those that wait for people.")


class StopOut(BaseModel):
    """What a stop meets."""

    conversation_id: str
    state: Literal["stopping", "idle"] = Field(description="idle: no turn runs, and nothing was stopped.")
    turn_id: str | None = Field(description="The turn that is being stopped.")


@router.post("", status_code=201, responses=described(400, 401, 403, 413, 415, 422, 503))
async def open_one(deps: DepsOf, caller: CallerOf, response: Response, body: ConversationIn = _PLAIN) -> OpenedOut:
    """Open a conversation; everything about it has a default."""
    plan = Plan(body.agent, body.language, body.labels, body.visitor)
    conversation_id, token = await open_conversation(deps.runtime.units, caller, plan, agents=deps.agents)
    labels = {**known_agent(deps.agents, caller.tenant, plan.agent).labels, **plan.labels}
    response.headers["location"] = f"/v1/conversations/{conversation_id}"
    requester = visitor_id(body.visitor, conversation_id)
    fields = body.model_dump(exclude={"visitor", "labels"})
    return OpenedOut(id=conversation_id, token=token, requester=requester, labels=labels, **fields)


@router.post(
    "/{conversation_id}/messages",
    status_code=202,
    responses=described(400, 401, 403, 404, 409, 413, 415, 422, 429, 503),
)
async def post(deps: DepsOf, caller: CallerOf, conversation_id: PathId, body: MessageIn) -> PostedOut:
    """Write in a conversation; the answer comes by its event stream."""
    if body.author == "operator":
        answer = Answer(body.text, body.message_id, body.seen_event_id)
        return _posted_out(await deps.operators.answer(caller, conversation_id, answer))
    writing = Writing(body.text, body.message_id, body.author)
    taken = await deps.consents.take(caller, conversation_id, writing)
    posted = taken.posted if taken else await deps.posts.post(caller, conversation_id, writing)
    return _posted_out(posted, taken.outcome if taken else None)


def _posted_out(posted: Posted, outcome: str | None = None) -> PostedOut:
    return PostedOut(
        message_id=posted.message_id,
        conversation_id=posted.conversation_id,
        event_id=posted.event_id,
        taken_as=dict(posted.taken_as) if posted.taken_as else None,
        outcome=outcome,
    )


@router.post("/{conversation_id}/end", status_code=204, responses=described(401, 403, 404, 503))
async def end(deps: DepsOf, caller: CallerOf, conversation_id: PathId) -> None:
    """End a conversation: calls that wait are withdrawn, nobody writes in it again. A second time does nothing."""
    await deps.posts.end(caller, conversation_id)


@router.post(
    "/{conversation_id}/stop", responses=described(401, 403, 404, 503) | {202: {"description": "It is being stopped."}}
)
async def stop_one(deps: DepsOf, caller: CallerOf, conversation_id: PathId, response: Response) -> StopOut:
    """Stop the turn that runs: 202, and its end comes by the event stream; 200 where none runs."""
    turn_id = await stop(deps.runtime.units, caller, conversation_id)
    response.status_code = 202 if turn_id else 200
    return StopOut(conversation_id=conversation_id, state="stopping" if turn_id else "idle", turn_id=turn_id)


@router.get("/{conversation_id}", responses=described(401, 403, 404, 503))
async def show(deps: DepsOf, caller: CallerOf, conversation_id: PathId) -> ConversationOut:
    """Show a conversation: its newest messages and calls, and what waits for people."""
    may_read(caller, conversation_id)
    place = (caller.tenant, conversation_id)
    async with reading(deps.runtime.database) as connection:
        conversation = await load_conversation(connection, *place)
        if conversation is None:
            raise no_conversation()
        messages = await load_messages(connection, *place, conversation.feed_seq, SHOWN_MAX)
        calls = await list_calls(connection, *place, SHOWN_MAX)
        here = Filters(state="pending", conversation_id=conversation_id)
        waiting = await list_approvals(connection, caller.tenant, here, limit=SHOWN_MAX)
        standings = await load_standings(connection, caller.tenant, [row["call_id"] for row in calls])
        turn = await load_newest_turn(connection, *place)
        told = turn is None or turn["ended_at"] is None or await turn_end_is_kept(connection, *place, turn["turn_id"])
    return ConversationOut(
        id=conversation_id,
        state="ended" if conversation.ended_at else _state(waiting, turn, told=told),
        agent=conversation.agent,
        language=conversation.language,
        labels=conversation.labels,
        requester=visitor_id(conversation.visitor, conversation_id),
        created_at=conversation.created_at,
        ended_at=conversation.ended_at,
        holder=conversation.held.state.value,
        operator=conversation.operator or None,
        last_event_id=conversation.feed_seq,
        messages=[_message_out(item) for item in messages],
        calls=[_call_out(row, standings.get(row["call_id"], UNKNOWN)) for row in calls],
        approvals=[approval_out(row) for row in waiting],
    )


def may_read(caller: Caller, conversation_id: str) -> None:
    """Raise Refused where the caller may not read the conversation: 403 without a scope, 404 where it is foreign."""
    caller.need(Scope.CHAT, Scope.DECIDE, Scope.OPERATE)
    if not caller.sees(conversation_id):
        raise no_conversation()


def _state(waiting: Sequence[Row], turn: Row | None, *, told: bool) -> Literal["idle", "working", "waiting"]:
    """Return where the conversation stands; it is idle only when the end of its turn is told in the feed too."""
    if waiting:
        return "waiting"
    ended = turn is None or turn["ended_at"] is not None
    return "idle" if ended and told else "working"


def _message_out(item: StoredItem) -> MessageOut:
    return MessageOut.model_validate({**item.data, "id": item.data["message_id"], "event_id": item.seq, "at": item.at})


def _call_out(row: Row, standing: Standing) -> CallSummary:
    kind = row["result_kind"]
    return CallSummary.model_validate(
        {
            **row,
            "id": row["call_id"],
            "arguments": arguments_value(row["arguments"]),
            "status": status_of(kind) if kind else standing.status,
            "kind": kind,
            "approval_id": standing.approval_id or None,
        }
    )
