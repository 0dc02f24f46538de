"""Messages of a conversation: what a person wrote, and what every frontend is told."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from shared.messages.message import Identifier, Message, Value

#: Longest message text, in characters.
TEXT_MAX = 32_000


class Author(Value):
    """Who wrote a message."""

    kind: Literal["visitor", "person"] = Field(
        description="visitor: an end user by conversation token; person: a key holder."
    )
    id: Annotated[str, Field(min_length=1, max_length=128)] = Field(
        description="Stable id of the author within the tenant."
    )


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


class ConversationEnded(Message):
    """A conversation is over: nobody writes in it any more, and calls that wait are withdrawn. Sent by the gateway."""

    type_name: ClassVar[str] = "placet.conversation.ended.v1"

    conversation_id: Identifier
    by: Annotated[str, Field(min_length=1, max_length=128)] = Field(description="Stable id of who ended it.")


class ConversationEvent(Message):
    """Something every frontend of the conversation shows; kept and replayed by the gateway."""

    type_name: ClassVar[str] = "placet.conversation.event.v1"

    conversation_id: Identifier
    turn_id: Identifier
    kind: Literal["assistant_message", "turn_started", "turn_ended", "call_answered"]
    payload: dict[str, Any] = Field(
        description="assistant_message: {message_id, step, text, heard_meanwhile? (a person wrote since the turn "
        "began, and this answers them too)}; turn_started: {message_id}; "
        "turn_ended: {state, reason, final_answer?}; call_answered: {call_id, tool, kind, error}."
    )


class ConversationDelta(Message):
    """A piece of a text that the model is writing. Transient: never stored; the whole text follows in an event."""

    type_name: ClassVar[str] = "placet.conversation.delta.v1"

    conversation_id: Identifier
    turn_id: Identifier
    message_id: Identifier = Field(description="The assistant message that this text will become.")
    offset: int = Field(ge=0, description="Characters of the same message sent before this piece; 0 also starts over.")
    text: str
    reset: bool = Field(default=False, description="True: forget the text so far, the attempt was thrown away.")


class FeedAdvanced(Message):
    """The gateway stored new feed items; every gateway instance passes them to its clients. Transient."""

    type_name: ClassVar[str] = "placet.conversation.feed-advanced.v1"

    conversation_id: Identifier
    items: list[dict[str, Any]] = Field(description="Feed items as `GET …/events` sends them: {id, type, at, data}.")
