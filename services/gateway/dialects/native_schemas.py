"""What the API takes and tells about conversations: how they stand, the items of their log, pieces of text."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from placet.contracts.messages.conversations import TEXT_MAX, Holder
from placet.contracts.messages.message import Identifier
from placet.contracts.visitors import NAME_PATTERN, checked_visitor
from placet.gateway.approvals.forms import ApprovalOut
from placet.gateway.conversations.item_models import FeedItem
from placet.gateway.conversations.rules import CallState
from placet.gateway.texts import Body, Labels, Text


class FeedOut(BaseModel):
    """What is new in a conversation."""

    items: list[FeedItem] = Field(description="Empty where nothing came in time.")
    last_event_id: int = Field(description="Ask again `after` this one; the event stream goes on from it, too.")


class ConversationIn(Body):
    """How a conversation begins."""

    agent: Identifier = "default"
    language: Annotated[str, Field(pattern=r"^[a-z]{2}$", description="ISO 639-1, for cards.")] = "en"
    labels: Labels = Field(default_factory=dict)
    visitor: Annotated[str, Field(pattern=NAME_PATTERN), AfterValidator(checked_visitor)] | None = Field(
        default=None, description="Your id of the end user, in whose name messages and decisions are made."
    )


class OpenedOut(BaseModel):
    """A conversation that is open, with its token."""

    id: str
    token: str = Field(description="Lets the end user read, write and decide here, and nowhere else. Shown once.")
    agent: str
    language: str
    labels: dict[str, str]
    requester: str = Field(description="Stable id of the token's holder.")


class TokenOut(BaseModel):
    """Another token of a conversation."""

    token: str = Field(description="Shown once. The one before is good no more.")
    expires_at: datetime = Field(description="Until when it is good; renew it in time.")


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


class MessageIn(Body):
    """What somebody writes."""

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
    """The message is safe and will be answered, or was taken for a decision. It appears in the event stream."""

    message_id: str
    conversation_id: str
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
    message_id: str = Field(description="The same as `id`, as the feed calls it.")
    event_id: int
    role: str
    text: str
    at: datetime
    author: dict[str, str] | None = None
    turn_id: str | None = Field(default=None, description="Of what the agent said.")
    step: int | None = Field(default=None, description="The answer of the model within that turn; from 1.")
    waits: bool = Field(default=False, description="Of a user's message: nobody answers it until people act.")
    heard_meanwhile: bool = Field(default=False, description="It answers what was written while the turn ran.")
    while_waiting: bool = Field(default=False, description="Written while a call of its turn waited for people.")
    taken_as: dict[str, str] | None = Field(default=None, description="The decision that it was taken for.")


class CallSummary(BaseModel):
    """One tool call, renderable from its status alone."""

    id: str
    turn_id: str
    tool: str
    arguments: Any
    status: CallState
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


class AgentOut(BaseModel):
    """One agent."""

    name: str
    description: str = Field(description="For people who choose; may be empty.")


class AgentList(BaseModel):
    """The tenant's agents, in the order of their file."""

    items: list[AgentOut]
