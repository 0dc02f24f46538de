"""What an operator wants done with a dead letter."""

from __future__ import annotations

from typing import ClassVar, Literal

from shared.messages.message import Identifier, Message


class ResolveDeadLetter(Message):
    """Send a dead letter back to the queue it came from, or give it up. Sent by the gateway to audit."""

    type_name: ClassVar[str] = "placet.dead-letter.resolve.v1"

    dead_letter_id: Identifier
    action: Literal["replay", "discard"]
    by: str
