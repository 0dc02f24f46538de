"""A chat's history as AI SDK clients keep it: made of the log by the very code that streams it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, Field

from placet.gateway.conversations.items import Item
from placet.gateway.dialects import changes
from placet.gateway.dialects.ai_sdk import Chunk, Seen, Writer, operators_words
from placet.gateway.dialects.conversation_state import ConversationState


class ChatMessage(BaseModel):
    """One message as the SDK keeps it, for the API's description."""

    id: str
    role: Literal["user", "assistant"]
    metadata: dict[str, Any] | None = None
    parts: list[dict[str, Any]] = Field(description="As the SDK's `UIMessage` has them.")


class ChatOut(BaseModel):
    """A chat, for the API's description."""

    id: str
    messages: list[ChatMessage]
    older: Literal[True] | None = Field(default=None, description="There are more messages, which are left out.")


class ChatStopOut(BaseModel):
    """What a stop meets."""

    id: str
    state: Literal["stopping", "idle"] = Field(description="idle: nothing is made, and nothing was stopped.")


class Assembly:
    """Puts chunks together to the message that a client makes of them: {id, role, parts}."""

    def __init__(self, message_id: str) -> None:
        self._id = message_id
        self._metadata: dict[str, Any] = {}
        self._parts: list[dict[str, Any]] = []

    def add(self, chunks: Iterable[Chunk]) -> None:
        """Take chunks."""
        for chunk in chunks:
            self._add(chunk)

    def message(self) -> dict[str, Any]:
        """Return the message as it stands."""
        parts = [{k: v for k, v in part.items() if part["type"] != "text" or k != "id"} for part in self._parts]
        metadata = {"metadata": self._metadata} if self._metadata else {}
        return {"id": self._id, "role": "assistant", **metadata, "parts": parts}

    def _add(self, chunk: Chunk) -> None:
        match chunk["type"]:
            case "start-step":
                self._parts.append({"type": "step-start"})
            case "text-start":
                self._parts.append({"type": "text", "id": chunk["id"], "text": "", "state": "streaming"})
            case "text-delta":
                self._text(chunk["id"])["text"] += chunk["delta"]
            case "text-end":
                self._text(chunk["id"])["state"] = "done"
            case "finish":
                self._metadata |= chunk.get("messageMetadata", {})
            case kind if kind.startswith("data-"):
                if not chunk.get("transient"):
                    self._place_data(chunk)
            case kind if kind.startswith("tool-"):
                self._tool(kind, chunk)

    def _text(self, text_id: str) -> dict[str, Any]:
        return next(part for part in reversed(self._parts) if part["type"] == "text" and part["id"] == text_id)

    def _place_data(self, chunk: Chunk) -> None:
        for number, part in enumerate(self._parts):
            if (part["type"], part.get("id")) == (chunk["type"], chunk["id"]):
                self._parts[number] = chunk
                return
        self._parts.append(chunk)

    def _tool(self, kind: str, chunk: Chunk) -> None:
        part = self._part(chunk)
        match kind:
            case "tool-input-available":
                part |= {"state": "input-available", "input": chunk["input"]}
            case "tool-approval-request":
                asked = {"id": chunk["approvalId"], "descriptor": chunk["approvalDescriptor"]}
                asked["requestReason"] = chunk["reason"]
                part |= {"state": "approval-requested", "approval": asked}
            case "tool-approval-response":
                answer = {name: chunk[name] for name in ("approved", "reason") if name in chunk}
                part |= {"state": "approval-responded", "approval": part["approval"] | answer}
            case "tool-output-available":
                part |= {"state": "output-available", "output": chunk["output"]}
            case "tool-output-error":
                part |= {"state": "output-error", "errorText": chunk["errorText"]}
            case "tool-output-denied":
                part |= {"state": "output-denied"}

    def _part(self, chunk: Chunk) -> dict[str, Any]:
        call_id, approval_id = chunk.get("toolCallId"), chunk.get("approvalId")
        for part in self._parts:
            if call_id and part.get("toolCallId") == call_id:
                return part
            if not call_id and part.get("approval", {}).get("id") == approval_id:
                return part
        made = {"type": "dynamic-tool", "toolName": chunk["toolName"], "toolCallId": call_id}
        self._parts.append(made)
        return made


def history(items: Iterable[Item]) -> list[dict[str, Any]]:
    """Return the messages of a conversation as the SDK keeps them, made of the very chunks that are streamed."""
    log, writers = ConversationState(), dict[str, Writer]()
    messages: dict[str, dict[str, Any] | Assembly] = {}
    for item in items:
        for change in log.read(item):
            match change:
                case changes.UserSpoke(message_id, text):
                    part = {"type": "text", "text": text}
                    messages[message_id] = {"id": message_id, "role": "user", "parts": [part]}
                case changes.OperatorSpoke():
                    messages[change.message_id] = spoken = Assembly(change.message_id)
                    spoken.add(operators_words(change))
                case changes.HolderMoved():
                    pass
                case _:
                    reply_id = change.reply_id
                    reply = messages.setdefault(reply_id, Assembly(reply_id))
                    writer = writers.setdefault(reply_id, Writer("7", Seen()))
                    waits = any(call.reply_id == reply_id for call in log.waiting)
                    if isinstance(reply, Assembly):
                        reply.add(writer.chunks(change, waits=waits))
    for reply_id, writer in writers.items():
        if writer.end and isinstance(reply := messages[reply_id], Assembly):
            reply.add(writer.close(()))
    return [each.message() if isinstance(each, Assembly) else each for each in messages.values()]
