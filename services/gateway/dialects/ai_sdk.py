"""The Vercel AI SDK's UI message stream: a turn's moves as the chunks that `useChat` reads.

Clients of version 6 end a stream with an error at a chunk they do not know, so `tool-approval-response` and its like
go to clients of version 7 only. What no version has a chunk for travels as `data-…` parts, which all of them keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from services.gateway.dialects.cards import shown_card
from services.gateway.dialects.moves import (
    CallAnswered,
    CallMade,
    CallProgressed,
    CardMoved,
    Move,
    OperatorSpoke,
    StepBegan,
    StepEnded,
    TextBegan,
    TextEnded,
    TextWritten,
    TurnEnded,
)
from services.gateway.feed import SUCCESSES

Chunk = dict[str, Any]
Version = Literal["6", "7"]

#: States of a turn -> finish reasons of the SDK.
_FINISH = {"finished": "stop", "failed": "error"}


@dataclass(frozen=True)
class AiSdk:
    """Writes chunks for clients of one major version."""

    version: Version = "6"

    def begin(self, message_id: str) -> Iterator[Chunk]:
        """Yield what begins an assistant message; its id names the turn, so that it can be gone on with."""
        yield {"type": "start", "messageId": message_id}

    def chunks(self, move: Move) -> Iterator[Chunk]:
        """Yield the chunks of one move."""
        match move:
            case OperatorSpoke():
                yield from self._operator(move)
            case StepBegan() | StepEnded():
                yield {"type": "start-step" if isinstance(move, StepBegan) else "finish-step"}
            case TextBegan(text_id):
                yield {"type": "text-start", "id": text_id}
            case TextWritten(text_id, text):
                yield {"type": "text-delta", "id": text_id, "delta": text}
            case TextEnded(text_id):
                yield {"type": "text-end", "id": text_id}
            case CallMade() | CardMoved() | CallProgressed() | CallAnswered():
                yield from self._of_call(move)
            case TurnEnded(end):
                yield from self._end(end)

    def _operator(self, spoke: OperatorSpoke) -> Iterator[Chunk]:
        """Yield what a person said, whole at once: a message of its own."""
        text_id, operator = spoke.message_id, spoke.operator
        yield {"type": "start-step"}
        yield {"type": "data-operator", "id": text_id, "data": {"operator": operator}}
        for move in (TextBegan(text_id), TextWritten(text_id, spoke.text), TextEnded(text_id)):
            yield from self.chunks(move)
        yield {"type": "finish-step"}
        yield from self._end({"state": "finished", "operator": operator})

    def _of_call(self, move: CallMade | CardMoved | CallProgressed | CallAnswered) -> Iterator[Chunk]:
        match move:
            case CallMade(call_id, tool, arguments):
                call = {"toolCallId": call_id, "toolName": tool, "dynamic": True}
                yield {"type": "tool-input-available", **call, "input": {} if arguments is None else arguments}
            case CardMoved():
                yield from self._card(move)
            case CallProgressed(call_id, fraction, text):
                report = {"call_id": call_id, "fraction": fraction, "text": text}
                # Transient: it goes to `onData`, and no message keeps how far a call once was.
                yield {"type": "data-progress", "id": call_id, "data": report, "transient": True}
            case CallAnswered():
                yield from self._answer(move)

    def holder(self, data: Mapping[str, Any]) -> Iterator[Chunk]:
        """Yield what tells, in no message, who answers from now on; clients pass it to `onData` and keep it nowhere."""
        told = {name: data[name] for name in ("state", "operator", "text")}
        yield {"type": "data-holder", "data": told, "transient": True}

    def waits(self, message_id: str) -> Iterator[Chunk]:
        """Yield what tells, in no message, that the user's message waits until people have decided."""
        yield {"type": "data-waiting", "data": {"message_id": message_id}, "transient": True}

    def fail(self, end: Mapping[str, Any]) -> Iterator[Chunk]:
        """Yield what makes a stream one that failed, its last chunk, where its turn did: {state, reason}."""
        if reason := failure_of(end):
            yield {"type": "error", "errorText": reason}

    def pause(self) -> Iterator[Chunk]:
        """Yield what ends a stream whose calls wait for people."""
        yield {"type": "finish", "finishReason": "tool-calls"}

    def _card(self, move: CardMoved) -> Iterator[Chunk]:
        if move.state == "pending":
            request: Chunk = {"type": "tool-approval-request", "approvalId": move.approval_id}
            request |= {"toolCallId": move.call_id, "approvalDescriptor": shown_card(move.card)}
            yield request | ({"reason": str(move.card.get("reason", ""))} if self.version == "7" else {})
        elif self.version == "7" and move.state in {"approved", "denied"} and not move.answered:
            reason = {"reason": move.card["decision_reason"]} if move.card.get("decision_reason") else {}
            yield {
                "type": "tool-approval-response",
                "approvalId": move.approval_id,
                "approved": move.state == "approved",
                **reason,
            }
        yield approval_part(move.card)

    def _answer(self, move: CallAnswered) -> Iterator[Chunk]:
        call = {"toolCallId": move.call_id}
        if move.kind in SUCCESSES:
            yield {"type": "tool-output-available", **call, "output": move.result.get("data"), "dynamic": True}
        elif move.kind == "denied":
            yield {"type": "tool-output-denied", **call}
        else:
            yield {"type": "tool-output-error", **call, "errorText": move.error, "dynamic": True}
        if move.kind not in SUCCESSES:
            yield {
                "type": "data-tool-result",
                "id": move.call_id,
                "data": {"call_id": move.call_id, "kind": move.kind, "error": move.error},
            }
        if blocks := move.result.get("ui_blocks"):
            yield {"type": "data-ui-blocks", "id": move.call_id, "data": {"call_id": move.call_id, "blocks": blocks}}

    def _end(self, end: Mapping[str, Any]) -> Iterator[Chunk]:
        if reason := failure_of(end):
            yield {"type": "data-failure", "id": str(end["turn_id"]), "data": {"reason": reason}}
        told = {name: end[name] for name in ("state", "reason", "final_answer", "operator") if end.get(name)}
        yield {"type": "finish", "finishReason": _FINISH.get(str(end["state"]), "other"), "messageMetadata": told}


def failure_of(end: Mapping[str, Any]) -> str:
    """Return why a turn failed; empty where it did not."""
    return str(end.get("reason") or "The turn failed.") if end["state"] == "failed" else ""


def approval_part(card: Mapping[str, Any]) -> Chunk:
    """Return the part that shows how an approval stands, in place of the one before."""
    return {"type": "data-approval", "id": str(card["approval_id"]), "data": shown_card(card)}


class Assembly:
    """Puts chunks together to the message that a client makes of them: {id, role, parts}."""

    def __init__(self) -> None:
        self._id = ""
        self._metadata: dict[str, Any] = {}
        self._parts: list[dict[str, Any]] = []

    def add(self, chunk: Chunk) -> None:
        """Take one chunk."""
        match chunk["type"]:
            case "start":
                self._id = chunk["messageId"]
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

    def message(self) -> dict[str, Any]:
        """Return the message as it stands."""
        parts = [{k: v for k, v in part.items() if part["type"] != "text" or k != "id"} for part in self._parts]
        metadata = {"metadata": self._metadata} if self._metadata else {}
        return {"id": self._id, "role": "assistant", **metadata, "parts": parts}

    def _text(self, text_id: str) -> dict[str, Any]:
        return next(part for part in reversed(self._parts) if part["type"] == "text" and part["id"] == text_id)

    def _place_data(self, chunk: Chunk) -> None:
        for number, part in enumerate(self._parts):
            if (part["type"], part.get("id")) == (chunk["type"], chunk["id"]):
                self._parts[number] = chunk
                return
        self._parts.append(chunk)

    def _tool(self, kind: str, chunk: Chunk) -> None:
        if kind == "tool-approval-response":
            approval = {"id": chunk["approvalId"]}
            part = next(each for each in self._parts if each.get("approval", {}).get("id") == approval["id"])
            answer = {name: chunk[name] for name in ("approved", "reason") if name in chunk}
            part |= {"state": "approval-responded", "approval": approval | answer}
            return
        part = self._call(chunk)
        match kind:
            case "tool-input-available":
                part |= {"state": "input-available", "input": chunk["input"]}
            case "tool-approval-request":
                asked = {"id": chunk["approvalId"], "descriptor": chunk["approvalDescriptor"]}
                part |= {"state": "approval-requested", "approval": asked}
            case "tool-output-available":
                part |= {"state": "output-available", "output": chunk["output"]} | _decided(part, approved=True)
            case "tool-output-error":
                part |= {"state": "output-error", "errorText": chunk["errorText"]} | _decided(part, approved=True)
            case "tool-output-denied":
                part |= {"state": "output-denied"} | _decided(part, approved=False)

    def _call(self, chunk: Chunk) -> dict[str, Any]:
        call_id = chunk["toolCallId"]
        for part in self._parts:
            if part.get("toolCallId") == call_id:
                return part
        made = {"type": "dynamic-tool", "toolName": chunk["toolName"], "toolCallId": call_id}
        self._parts.append(made)
        return made


def _decided(part: Mapping[str, Any], *, approved: bool) -> dict[str, Any]:
    return {"approval": {**part["approval"], "approved": approved}} if "approval" in part else {}
