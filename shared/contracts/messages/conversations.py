"""Messages of a conversation: what a person wrote, and what every frontend is told."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from placet.contracts.messages.message import Identifier, Message, Value

#: Longest message text, in characters.
TEXT_MAX = 32_000
#: Labels of a conversation at most, and their longest names and texts, in characters.
LABELS_MAX, LABEL_NAME_MAX, LABEL_TEXT_MAX = 32, 64, 256

#: Who answers in a conversation: the agent; nobody, because an operator is awaited; or an operator.
Holder = Literal["agent", "waiting", "operator"]


class Author(Value):
    """Who wrote a message."""

    kind: Literal["visitor", "person"] = Field(
        description="visitor: an end user by conversation token, or by the word of a frontend on RabbitMQ, which may "
        "write for nobody else; person: a key holder."
    )
    id: Annotated[str, Field(min_length=1, max_length=128)] = Field(
        description="Stable id of the author within the tenant."
    )


#: Longest message that may be taken for a decision, in characters.
TAKEN_TEXT_MAX = 200


class TakenAs(Value):
    """The decision that the gateway took an exact yes or no in the chat for."""

    approval_id: Identifier
    decision: Literal["approve", "deny"]
    summary: str = Field(default="", description="What it is about, for people.")


class MessagePosted(Message):
    """A person wrote in a conversation. Sent by the gateway, or by a chat frontend straight to RabbitMQ."""

    type_name: ClassVar[str] = "placet.message.posted.v1"

    conversation_id: Identifier
    message_id: Identifier = Field(description="Chosen by the sender; the same id again is the same message.")
    text: Annotated[str, Field(min_length=1, max_length=TEXT_MAX)]
    author: Author
    agent: Identifier = Field(
        default="default",
        description="Which agent answers; only the first message of a conversation decides.",
    )
    language: Annotated[str, Field(pattern=r"^[a-z]{2}$")] = Field(default="en", description="ISO 639-1, for cards.")
    labels: dict[str, str] = Field(
        default_factory=dict, description="Conversation labels for rules; the first message decides."
    )
    held_revision: int = Field(
        default=0,
        ge=0,
        description="Set by the gateway where people held the conversation when this was written: revision of its "
        "holder. No model is asked then, in whatever order this and HolderChanged arrive.",
    )
    taken_as: TakenAs | None = Field(
        default=None,
        description="Set by the gateway where the text was taken for a decision: no model hears of it.",
    )


class ConsentAnswered(Message):
    """What became of a message that was taken for a decision. Sent by the gateway; shown in the conversation."""

    type_name: ClassVar[str] = "placet.message.consent-answered.v1"

    conversation_id: Identifier
    message_id: Identifier
    taken_as: TakenAs
    outcome: str = Field(description="As in DecisionAnswered.")
    detail: str = ""
    state: str = Field(default="", description="State of the approval now.")


class OperatorSpoke(Message):
    """An operator who holds a conversation wrote in it. Sent by the gateway; nobody else may."""

    type_name: ClassVar[str] = "placet.conversation.operator-spoke.v1"

    conversation_id: Identifier
    message_id: Identifier = Field(description="Chosen by the sender; the same id again is the same message.")
    text: Annotated[str, Field(min_length=1, max_length=TEXT_MAX)]
    operator: Annotated[str, Field(min_length=1, max_length=128)] = Field(
        description="Stable id of the operator, for example `person:ada`."
    )
    seen: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="Number of the newest item that they had seen; empty: all. What visitors wrote up to it counts as "
        "answered, and no model answers it.",
    )


class HolderChanged(Message):
    """Who answers in a conversation is another from now on. Sent by the gateway, which keeps the holder."""

    type_name: ClassVar[str] = "placet.conversation.holder-changed.v1"

    conversation_id: Identifier
    holder: Holder
    revision: int = Field(ge=1, description="Grows with each change; an older one that comes late has no effect.")
    event: Literal["escalated", "taken", "released"] = Field(
        description="escalated: a tool handed it over; taken and released: an operator took it, or gave it back."
    )
    by: Annotated[str, Field(max_length=128)] = Field(description="Stable id of who did it; for a tool, its call's id.")
    operator: Annotated[str, Field(max_length=128)] = Field(
        default="", description="Stable id of the operator who answers now; empty where none does."
    )
    text: str = Field(default="", description="What the visitor is told, in the conversation's language.")


class ConversationEnded(Message):
    """A conversation is over: nobody writes in it any more, and calls that wait are withdrawn. Sent by the gateway."""

    type_name: ClassVar[str] = "placet.conversation.ended.v1"

    conversation_id: Identifier
    by: Annotated[str, Field(min_length=1, max_length=128)] = Field(description="Stable id of who ended it.")


class StopTurn(Message):
    """A person does not want to wait for the end of a turn. Sent by the gateway; one that is over stays as it ended."""

    type_name: ClassVar[str] = "placet.turn.stop.v1"

    conversation_id: Identifier
    turn_id: Identifier = Field(description="The turn that was running when they asked; no other is stopped.")
    by: Annotated[str, Field(min_length=1, max_length=128)] = Field(description="Stable id of who stops it.")


class HandoverRequested(Message):
    """A tool wants people to take the conversation over. Sent by the agent, once per call, to the gateway."""

    type_name: ClassVar[str] = "placet.conversation.handover-requested.v1"

    conversation_id: Identifier
    call_id: Identifier
    reason: str = Field(description="Why, for operators; the visitor is not told it.")


class ConversationItems(Message):
    """New items of a conversation's log. Transient: what is lost is found in the log."""

    type_name: ClassVar[str] = "placet.conversation.items.v1"

    conversation_id: Identifier
    items: list[dict[str, Any]] = Field(
        description="Items as `GET …/events` sends them: {id, type, at, data}; ids are gapless per conversation."
    )


class ConversationDelta(Message):
    """A piece of a text that the model is writing. Transient: never stored; the whole text follows in an item."""

    type_name: ClassVar[str] = "placet.conversation.delta.v1"

    conversation_id: Identifier
    turn_id: Identifier
    step: int = Field(ge=1, description="The model step of the turn that writes it.")
    message_id: Identifier = Field(description="The assistant message that this text will become.")
    offset: int = Field(ge=0, description="Characters of the same message sent before this piece; 0 also starts over.")
    text: str
    reset: bool = Field(default=False, description="True: forget the text so far, the attempt was thrown away.")
    while_waiting: bool = Field(
        default=False,
        description="Written while a call of its turn waits for people, and nobody wrote since: not to be shown.",
    )
