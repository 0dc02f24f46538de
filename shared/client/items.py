"""What happens in a conversation, one model for each type; pydantic picks it by `type`.

Data keeps what these models do not name: a newer Placet may say more.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter


class Open(BaseModel):
    """A part of an answer, with whatever else the answer has."""

    model_config = ConfigDict(extra="allow", frozen=True)


class _Item(Open):
    id: int = 0
    """Its number in the conversation; they have no gaps."""
    at: datetime | None = None
    """When it happened."""


class Author(Open):
    """Who wrote a message."""

    kind: str
    id: str = ""


class Message(Open):
    """What somebody said."""

    role: Literal["user", "assistant", "operator"]
    message_id: str
    text: str
    turn_id: str | None = None
    author: Author | None = None
    while_waiting: bool = False


class MessageItem(_Item):
    """A message: the visitor's, the agent's or an operator's."""

    type: Literal["message"]
    data: Message


class ToolCallState(Open):
    """Where a call stands; `kind`, `data` and `error` come with `success` and `error`."""

    call_id: str
    tool: str
    status: Literal["proposed", "pending_confirmation", "success", "error"]
    turn_id: str | None = None
    arguments: Any = None
    kind: str = ""
    data: Any = None
    error: str = ""
    ui_blocks: list[dict[str, Any]] = Field(default_factory=list)
    idle: bool | None = None
    """With a result that came after its turn's end: whether no turn goes on or begins with it."""


class ToolCallItem(_Item):
    """A call was proposed, waits, runs or has its result."""

    type: Literal["tool_call"]
    data: ToolCallState


class ApprovalState(Open):
    """Where an approval stands. Only a card that can be decided has a `digest`."""

    approval_id: str
    state: str
    revision: int | None = None
    call_id: str | None = None
    turn_id: str | None = None
    digest: str | None = None
    summary: str | None = None
    reason: str | None = None
    tool: str | None = None
    arguments: Any = None
    expires_at: datetime | None = None
    decided_by: str | None = None

    @property
    def waits(self) -> bool:
        """Whether this is a card that can be decided now."""
        return self.state == "pending" and self.digest is not None


class ApprovalItem(_Item):
    """A call waits for people, somebody voted or edited, or it is decided."""

    type: Literal["approval"]
    data: ApprovalState


class Turn(Open):
    """Where a turn of the agent stands: `started`, `paused` for people, `continued`, or how it ended."""

    state: str
    turn_id: str
    reason: str = ""
    limit: str = ""
    """With its end: the limit that is why, `steps` or one of a budget's."""
    idle: bool = False
    """With its end: no other turn begins."""

    @property
    def is_over(self) -> bool:
        """Whether the turn has ended."""
        return self.state not in {"started", "paused", "continued"}


class TurnItem(_Item):
    """A turn began, pauses or ended."""

    type: Literal["turn"]
    data: Turn


class Progress(Open):
    """How far a call is; `fraction` from 0 to 1."""

    call_id: str
    tool: str | None = None
    fraction: float | None = None
    text: str | None = None


class ProgressItem(_Item):
    """A tool reported how far it is."""

    type: Literal["progress"]
    data: Progress


class Decision(Open):
    """What became of a message that was taken for a decision."""

    approval_id: str
    decision: Literal["approve", "deny"]
    message_id: str
    outcome: str


class DecisionItem(_Item):
    """A message was taken for a decision, and this came of it."""

    type: Literal["decision"]
    data: Decision


class Holder(Open):
    """Who answers: the agent, nobody while an operator is awaited, or the operator named."""

    state: Literal["agent", "waiting", "operator"]
    operator: str = ""


class HolderItem(_Item):
    """An operator took the conversation over, or gave it back."""

    type: Literal["holder"]
    data: Holder


class Resolution(Open):
    """Whether a call ran of which nobody knew."""

    call_id: str
    outcome: str
    note: str = ""


class ResolutionItem(_Item):
    """A person said what became of a call of unknown outcome."""

    type: Literal["resolution"]
    data: Resolution


class EndedItem(_Item):
    """The conversation has ended."""

    type: Literal["conversation"]
    data: Open


class OtherItem(_Item):
    """An item of a type that this client does not know."""

    type: str
    data: dict[str, Any]


class Delta(Open):
    """A piece of a text that is being written; the whole text follows as a message."""

    type: Literal["delta"] = "delta"
    message_id: str
    offset: int
    text: str
    turn_id: str | None = None
    reset: bool = False
    """The text of this message so far is void."""


_KNOWN = {"message", "tool_call", "approval", "turn", "progress", "decision", "holder", "resolution", "conversation"}


def _tag(value: Any) -> str:
    found = value.get("type") if isinstance(value, dict) else getattr(value, "type", "")
    return str(found) if found in _KNOWN else "other"


Item: TypeAlias = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[ToolCallItem, Tag("tool_call")]
    | Annotated[ApprovalItem, Tag("approval")]
    | Annotated[TurnItem, Tag("turn")]
    | Annotated[ProgressItem, Tag("progress")]
    | Annotated[DecisionItem, Tag("decision")]
    | Annotated[HolderItem, Tag("holder")]
    | Annotated[ResolutionItem, Tag("resolution")]
    | Annotated[EndedItem, Tag("conversation")]
    | Annotated[OtherItem, Tag("other")],
    Discriminator(_tag),
]

items: TypeAdapter[Item] = TypeAdapter(Item)
