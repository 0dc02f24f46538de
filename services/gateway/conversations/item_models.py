"""The items of a conversation as clients get them, for the API's description: what has which members, by its type.

They describe and check nothing while items are sent; tests hold what is sent against them. A client passes over
members that it does not know.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, Field

from placet.contracts.messages.approvals import ClosedState

T = TypeVar("T")
D = TypeVar("D")


class ItemAuthor(BaseModel):
    """Who wrote a message."""

    kind: Literal["visitor", "person", "operator"]
    id: str = Field(description="Stable id, for example `person:ada`.")


class TakenAsDecision(BaseModel):
    """The decision that a message was taken for."""

    approval_id: str
    decision: Literal["approve", "deny"]
    summary: str = ""


class UserMessage(BaseModel):
    """A user wrote."""

    role: Literal["user"]
    message_id: str
    text: str
    author: ItemAuthor | None = None
    taken_as: TakenAsDecision | None = Field(default=None, description="Set: no agent answers the message.")
    waits: bool = Field(default=False, description="Nobody answers it until people act.")


class AssistantMessage(BaseModel):
    """The agent said something; the text may be empty where it made calls only."""

    role: Literal["assistant"]
    message_id: str
    turn_id: str
    step: int = Field(default=1, description="The answer of the model within its turn; from 1.")
    text: str
    heard_meanwhile: bool = Field(default=False, description="It answers what was written while the turn ran.")
    while_waiting: bool = Field(default=False, description="Chatter about a call that waits: not to be shown.")


class OperatorMessage(BaseModel):
    """A person said something in the agent's place."""

    role: Literal["operator"]
    message_id: str
    text: str
    author: ItemAuthor


class WaitingCall(BaseModel):
    """A call that waits for people."""

    call_id: str
    approval_id: str


class TurnData(BaseModel):
    """A turn began, paused for people, went on, or is over."""

    turn_id: str
    state: str = Field(description="started, paused, continued; any other state is the turn's end.")
    message_id: str | None = Field(default=None, description="started, continued: the message that it answers.")
    step: int | None = None
    waiting: list[WaitingCall] = Field(default_factory=list, description="paused: the calls that people decide.")
    reason: str = Field(default="", description="Why it ended, where it did not just finish.")
    limit: str = Field(default="", description="Its end: the limit that is why, `steps` or one of a budget's.")
    final_answer: dict[str, Any] | None = None
    idle: bool = Field(default=False, description="Its end: no other turn begins.")
    open: list[str] = Field(default_factory=list, description="Its end: calls whose outcome comes later.")


class EntryLine(BaseModel):
    """One entry of a job's commit, as its card says it."""

    call_id: str
    tool: str
    summary: str


class ToolCallData(BaseModel):
    """A call was proposed, is held, or has its one result."""

    call_id: str
    status: Literal["proposed", "pending_confirmation", "success", "error"] = Field(
        description="success and error are final."
    )
    turn_id: str | None = None
    step: int | None = None
    tool: str = ""
    arguments: Any = Field(default=None, description="As people may see them; null where the model wrote no JSON.")
    caller: str | None = Field(default=None, description="Of a call in a job: the call that began the job.")
    entries: list[EntryLine] | None = Field(
        default=None, description="Of the commit of a job: what its attempts staged, in order."
    )
    kind: str = Field(default="", description="A result's: succeeded, denied, expired, unknown, ….")
    data: Any = None
    error: str = ""
    outcome: str | None = Field(
        default=None,
        description="The end of a staged call, whose result was `staged` before: committed, conflicted, left_out, "
        "discarded, succeeded, failed, refused or unknown.",
    )
    ui_blocks: list[dict[str, Any]] = Field(default_factory=list)
    decided_by: str = ""
    answer_kind: Literal["result", "instruction"] | None = None
    answer: str = ""
    idle: bool | None = Field(
        default=None, description="A result that came after its turn's end: whether no turn goes on or begins with it."
    )


class ApprovalData(BaseModel):
    """The card of a held call: opened, changed, or over. A lower revision is older."""

    approval_id: str
    call_id: str
    #: One enumeration: of a union of two, generated clients take the first alone.
    state: Literal["pending", ClosedState]
    revision: int
    turn_id: str | None = None
    digest: str | None = Field(default=None, description="Name it to decide: it says which arguments were shown.")
    summary: str | None = None
    reason: str = Field(default="", description="Why the call is held; of a decision, the person's words.")
    tool: str | None = None
    arguments: Any = Field(
        default=None, description="Of the call; an edit tells new ones, and the end the last of them."
    )
    approvers: list[Any] | None = None
    asked_too: list[Any] | None = Field(default=None, description="Who is asked beside the others since this change.")
    expires_at: datetime | None = None
    quote: str | None = Field(default=None, description="What the agent said with the call.")
    kind: str | None = Field(default=None, description="A change: voted, edited, ….")
    note: str | None = Field(default=None, description="A change in words.")
    person: str | None = None
    decided_by: str = ""
    answer_kind: Literal["result", "instruction"] | None = None
    closed_at: datetime | None = None
    votes: list[dict[str, Any]] = Field(default_factory=list)


class ProgressData(BaseModel):
    """A call that runs says how far it is."""

    call_id: str
    tool: str = ""
    turn_id: str | None = None
    status: Literal["executing"] = "executing"
    fraction: float | None = Field(description="From 0 to 1; null where the tool cannot say.")
    text: str
    attempt: int = 1


class DecisionData(TakenAsDecision):
    """What became of a message that was taken for a decision."""

    message_id: str
    outcome: str
    detail: str = ""
    state: str = ""


class HolderData(BaseModel):
    """Who answers is another from now on."""

    state: Literal["agent", "waiting", "operator"]
    event: Literal["escalated", "taken", "released"]
    operator: str = ""
    revision: int
    text: str = ""
    idle: bool | None = Field(default=None, description="Given back: whether no turn goes on or begins with that.")


class ResolutionData(BaseModel):
    """Whether a call ran whose result was `unknown`."""

    call_id: str
    tool: str
    outcome: str
    note: str = ""
    by: str
    resolved_at: datetime


class EndData(BaseModel):
    """The conversation is over."""

    state: Literal["ended"]
    by: str


class _Item(BaseModel, Generic[T, D]):
    id: int = Field(description="Its number; they have no gaps.")
    at: datetime
    type: T
    data: D


Message = Annotated[UserMessage | AssistantMessage | OperatorMessage, Field(discriminator="role")]


class MessageItem(_Item[Literal["message"], Message]):
    """Somebody said something."""


class TurnItem(_Item[Literal["turn"], TurnData]):
    """What a turn does."""


class ToolCallItem(_Item[Literal["tool_call"], ToolCallData]):
    """What happens to a call."""


class ApprovalItem(_Item[Literal["approval"], ApprovalData]):
    """How an approval stands."""


class ProgressItem(_Item[Literal["progress"], ProgressData]):
    """How far a call is."""


class DecisionItem(_Item[Literal["decision"], DecisionData]):
    """What a decision in words did."""


class HolderItem(_Item[Literal["holder"], HolderData]):
    """Who answers."""


class ResolutionItem(_Item[Literal["resolution"], ResolutionData]):
    """What became of an unknown outcome."""


class ConversationItem(_Item[Literal["conversation"], EndData]):
    """The conversation's end."""


FeedItem = Annotated[
    MessageItem
    | TurnItem
    | ToolCallItem
    | ApprovalItem
    | ProgressItem
    | DecisionItem
    | HolderItem
    | ResolutionItem
    | ConversationItem,
    Field(discriminator="type"),
]


class DeltaEvent(BaseModel):
    """A piece of a text that the model writes; the whole text follows as a message. It has no number."""

    turn_id: str
    message_id: str
    step: int | None = None
    offset: int = Field(description="Characters of the same message before this piece; 0 also starts over.")
    text: str
    reset: bool = False
    while_waiting: bool = Field(default=False, description="Not to be shown.")
