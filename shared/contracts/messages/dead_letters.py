"""What an operator wants done with a dead letter, and what that means for the call behind it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from placet.contracts.messages.message import Identifier, Message
from placet.contracts.messages.tool_calls import ToolName


class ResolveDeadLetter(Message):
    """Send a dead letter back to the queue it came from, or give it up. Sent by the gateway to dead_letters."""

    type_name: ClassVar[str] = "placet.dead-letter.resolve.v1"

    dead_letter_id: Identifier
    action: Literal["replay", "discard"]
    by: str


class AbandonCall(Message):
    """A dead letter was discarded that a call waited for: end the call, unless it has gone on all the same.

    Sent by dead_letters to the queue that the letter came from: only that queue's owner knows whether the call has
    gone on, and only it can see to it that a second copy of the letter does nothing any more.
    """

    type_name: ClassVar[str] = "placet.tool-call.abandon.v1"

    queue: Annotated[str, Field(pattern=r"^[a-z]+\.[a-z0-9-]+$", description="The queue that the letter came from.")]
    call_id: Identifier
    conversation_id: Identifier
    tool: ToolName
    digest: Annotated[str, Field(max_length=64, description="Of the call, as far as the letter tells it.")] = ""
    schema_digest: Annotated[str, Field(max_length=64)] = ""
    may_have_run: bool = Field(description="True: what was lost is the result of a call that ran, or may have run.")
    by: Annotated[str, Field(description="Who discarded the letter.")]
