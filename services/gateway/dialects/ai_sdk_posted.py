"""What the Vercel AI SDK's `useChat` posts: the history as the page keeps it, and what of it is believed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from placet.contracts.ids import derived_id
from placet.contracts.messages.message import Identifier
from placet.gateway.approvals.answers import Answer
from placet.gateway.conversations.service import Writing
from placet.gateway.dialects.ai_sdk import Seen
from placet.gateway.dialects.posted import (
    MESSAGE_ID,
    LeaveOut,
    checked_answers,
    checked_text,
    kept_reason,
)
from placet.gateway.http.errors import invalid_request
from placet.gateway.texts import Text

#: Messages of a posted history; older ones are never read.
MESSAGES_MAX = 2_000
_DIGEST = re.compile(r"[0-9a-f]{64}")


class UiPart(BaseModel):
    """One part of a message; only texts and tool calls are read."""

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

    id: str = ""
    role: Literal["system", "user", "assistant"]
    parts: list[UiPart] = Field(default_factory=list)

    @property
    def text(self) -> str:
        """The texts of its parts, joined."""
        return "\n".join(part.text for part in self.parts if part.type == "text")

    def seen(self) -> Seen:
        """Return what the client shows of an assistant message."""
        calls = {part.toolCallId: part for part in self.parts if part.toolCallId}
        approvals = {str(part.approval.get("id")): part for part in calls.values() if part.approval}
        return Seen(
            steps=sum(part.type == "step-start" for part in self.parts),
            texts=tuple(part.text for part in self.parts if part.type == "text"),
            arguments={call_id: part.input for call_id, part in calls.items()},
            answered=frozenset(call_id for call_id, part in calls.items() if part.state.startswith("output-")),
            requested={approval_id: self._digest(part) for approval_id, part in approvals.items()},
            responded={
                approval_id: approved
                for approval_id, part in approvals.items()
                if isinstance(approved := (part.approval or {}).get("approved"), bool)
            },
        )

    def answers(self) -> list[Answer]:
        """Return how the caller answered requests that are not over yet; raise Refused (400) for too many."""
        found = []
        for part in self.parts:
            approval = part.approval or {}
            approved, approval_id, reason = (approval.get(name) for name in ("approved", "id", "reason"))
            if part.state == "approval-responded" and isinstance(approved, bool) and isinstance(approval_id, str):
                known = approval_id if MESSAGE_ID.fullmatch(approval_id) else ""
                words = kept_reason(reason) if isinstance(reason, str) else ""
                found.append(Answer(known, self._digest(part), approved, words))
        checked_answers(found, partial(invalid_request, pointer="#/messages"))
        return found

    def _digest(self, part: UiPart) -> str:
        # Early clients of version 6 drop the descriptor; the data part has the same card.
        approval = part.approval or {}
        approval_id = approval.get("id")
        beside = self._beside.get(approval_id, "") if isinstance(approval_id, str) else ""
        return _digest_of(approval.get("descriptor")) or beside

    @cached_property
    def _beside(self) -> Mapping[str, str]:
        """Digests that data parts show, by approval: these are gone through once, however many calls there are."""
        found: dict[str, str] = {}
        for each in self.parts:
            if each.type == "data-approval" and (digest := _digest_of(each.data)):
                found.setdefault(each.id, digest)
        return found


def _digest_of(card: Any) -> str:
    digest = card.get("digest") if isinstance(card, dict) else None
    return digest if isinstance(digest, str) and _DIGEST.fullmatch(digest) else ""


class ChatIn(BaseModel):
    """A request of `useChat`; members that an application adds are passed over."""

    id: Identifier = Field(description="The chat. The conversation's id is this, behind the tenant's name and `_`.")
    messages: Annotated[list[UiMessage], Field(max_length=MESSAGES_MAX)] = Field(
        default_factory=list,
        description="The history; the newest message is read, and answers in older ones where that one has none.",
    )
    message: UiMessage | None = Field(default=None, description="The newest message alone, in place of `messages`.")
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    messageId: str | None = None  # noqa: N815 - the wire's name
    agent: Identifier = Field(default="default", description="For a chat that begins: which agent answers.")
    language: Annotated[str, Field(pattern=r"^[a-z]{2}$")] = "en"
    leave_out: dict[Identifier, LeaveOut] = Field(
        default_factory=dict,
        description="By an approval's id: entries of its commit that do not run. Read where this request approves it.",
    )

    @property
    def newest(self) -> UiMessage:
        """The message that this request is about; raise Refused (400) where there is none.

        That is the newest one, or an older one of the assistant that the client names: it was asked, and then written.
        """
        named = self.messageId if self.trigger == "submit-message" else None
        asked = (each for each in reversed(self.messages) if each.id == named and each.role == "assistant")
        found = next(asked, None) or self.message or (self.messages[-1] if self.messages else None)
        if found is None or found.role == "system":
            raise invalid_request("must end with a message of the user or the assistant", pointer="#/messages")
        return found

    def answers(self) -> list[Answer]:
        """Return how requests are answered; raise Refused (400) for too many.

        That is in the newest message, or else in any other one of the assistant: when a stream ends, the SDK names the
        newest one, wherever the answer stands that was given meanwhile. What is over decides nothing once more.

        The SDK's transport tells with each post what is left out, so of what it does not approve that says nothing yet.
        """
        if self.newest.role != "assistant":
            return []
        found = self.newest.answers() or [
            answer for each in self.messages if each.role == "assistant" for answer in each.answers()
        ]
        checked_answers(found, partial(invalid_request, pointer="#/messages"))
        return [
            replace(answer, leave_out=self.leave_out.get(answer.approval_id, ())) if answer.approved else answer
            for answer in found
        ]

    def written(self) -> Writing:
        """Return the user's message; raise Refused where it has no text, too much, or a file beside it."""
        newest = self.newest
        if any(part.type == "file" for part in newest.parts):
            raise invalid_request("has content that is no text", pointer="#/messages")
        text = checked_text(newest.text, partial(invalid_request, pointer="#/messages"))
        known = newest.id if MESSAGE_ID.fullmatch(newest.id) else derived_id("ai-sdk", self.id, newest.id, text)
        return Writing(text, known)
