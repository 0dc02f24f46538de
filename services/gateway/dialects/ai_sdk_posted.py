"""What an AI SDK client posts: the whole history, of which we believe nothing but the newest message.

History is the client's: it can say that anything was approved. What counts is what the caller asks for now, in their
own name: a new text, or answers to approval requests, each bound to the digest of the card that was shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from services.gateway.dialects.posted import (
    MESSAGE_ID,
    Answer,
    checked_answers,
    checked_text,
    invalid_request,
    kept_reason,
)
from services.gateway.texts import Text
from shared.ids import derived_id
from shared.messages.message import Identifier

#: Messages of a posted history; older ones are never read.
MESSAGES_MAX = 2_000
_DIGEST = re.compile(r"[0-9a-f]{64}")


class _Part(BaseModel):
    """One part of a message; only texts and tool calls are read."""

    model_config = ConfigDict(extra="ignore")

    type: str = ""
    text: Text = ""
    toolCallId: str = ""  # noqa: N815 - the wire's name
    state: str = ""
    approval: dict[str, Any] | None = None
    input: Any = None
    id: str = ""
    data: Any = None


class UiMessage(BaseModel):
    """One message as the client keeps it."""

    model_config = ConfigDict(extra="ignore")

    id: str = ""
    role: Literal["system", "user", "assistant"]
    parts: list[_Part] = Field(default_factory=list)

    @property
    def text(self) -> str:
        """The texts of its parts, joined."""
        return "\n".join(part.text for part in self.parts if part.type == "text")


class ChatIn(BaseModel):
    """A request of `useChat`; members that an application adds are passed over."""

    model_config = ConfigDict(extra="ignore")

    id: Identifier = Field(description="The chat; it is the conversation's id.")
    messages: Annotated[list[UiMessage], Field(max_length=MESSAGES_MAX)] = Field(
        default_factory=list, description="The history; only the newest message is read."
    )
    message: UiMessage | None = Field(default=None, description="The newest message alone, in place of `messages`.")
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    messageId: str | None = None  # noqa: N815 - the wire's name
    agent: Identifier = Field(default="default", description="For a chat that begins: which agent answers.")
    language: Annotated[str, Field(pattern=r"^[a-z]{2}$")] = "en"

    @property
    def newest(self) -> UiMessage:
        """The message that this request is about; raise Refused (400) where there is none.

        That is the newest one, or an older one of the assistant that the client names: it was asked, and then written.
        """
        named = self.messageId if self.trigger == "submit-message" else None
        asked = (each for each in reversed(self.messages) if each.id == named and each.role == "assistant")
        found = next(asked, None) or self.message or (self.messages[-1] if self.messages else None)
        if found is None or found.role == "system":
            raise invalid_request("must end with a message of the user or the assistant", "#/messages")
        return found

    def written(self) -> tuple[str, str]:
        """Return the id and the text of the user's message; raise Refused where it has no text, or too much.

        A client that asks for another answer posts the same message again, which for us is a message of its own.
        """
        newest = self.newest
        text = checked_text(newest.text, partial(invalid_request, pointer="#/messages"))
        known = newest.id if MESSAGE_ID.fullmatch(newest.id) else derived_id("ai-sdk", self.id, newest.id, text)
        if self.trigger == "regenerate-message":
            return derived_id("ai-sdk-again", self.id, known, self.messageId or ""), text
        return known, text

    def edited_id(self) -> str:
        """Return the id that an edited message gets: what was written first keeps its own."""
        return derived_id("ai-sdk-edited", self.id, self.newest.id, self.newest.text)


@dataclass(frozen=True)
class Seen:
    """What the client shows of an assistant message that it wants gone on with."""

    steps: int = 0
    #: Call id -> its part.
    calls: dict[str, _Part] = field(default_factory=dict)

    def shown(self, call_id: str) -> Any:
        """Return the arguments that the client shows of a call; None where it knows no such call."""
        return self.calls[call_id].input if call_id in self.calls else None

    def answered(self, call_id: str) -> bool:
        """Whether the client has the result of a call."""
        return call_id in self.calls and self.calls[call_id].state.startswith("output-")


def seen_of(message: UiMessage) -> Seen:
    """Return what a client shows of an assistant message."""
    calls = {part.toolCallId: part for part in message.parts if part.toolCallId}
    return Seen(sum(part.type == "step-start" for part in message.parts), calls)


def answers_of(message: UiMessage) -> list[Answer]:
    """Return how the caller answered approval requests that are not over yet; raise Refused (400) for too many."""
    # Early clients of version 6 drop the descriptor; the data part has the same card.
    digests = {part.id: _digest_of(part.data) for part in message.parts if part.type == "data-approval"}
    found = []
    for part in message.parts:
        approval = part.approval or {}
        approved, approval_id = approval.get("approved"), approval.get("id")
        if part.state != "approval-responded" or not isinstance(approved, bool) or not isinstance(approval_id, str):
            continue
        digest = _digest_of(approval.get("descriptor")) or digests.get(approval_id, "")
        reason = approval.get("reason")
        known = approval_id if MESSAGE_ID.fullmatch(approval_id) else ""
        found.append(Answer(known, digest, approved, kept_reason(reason) if isinstance(reason, str) else ""))
    checked_answers(found, partial(invalid_request, pointer="#/messages"))
    return found


def _digest_of(card: Any) -> str:
    digest = card.get("digest") if isinstance(card, dict) else None
    return digest if isinstance(digest, str) and _DIGEST.fullmatch(digest) else ""
