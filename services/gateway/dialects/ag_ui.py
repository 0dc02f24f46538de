"""AG-UI 1.0: a turn's moves as the events of one run, and what a client posts to begin or go on with one.

A run that waits for people ends with an interrupt for each call. Its id carries the digest of the card beside the
approval's id, so that what a client resolves is what it was shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from services.gateway.dialects.ai_sdk import shown_card
from services.gateway.dialects.moves import (
    CallAnswered,
    CallMade,
    CardMoved,
    Move,
    StepBegan,
    StepEnded,
    TextBegan,
    TextEnded,
    TextWritten,
    TurnEnded,
)
from shared.ids import derived_id
from shared.messages.message import Identifier

Event = dict[str, Any]

PROTOCOL = "1.0"
#: Messages of a posted history; older ones are never read.
MESSAGES_MAX = 2_000
_INTERRUPT = re.compile(r"([A-Za-z0-9_-]{1,64})\.([0-9a-f]{64})")
#: What a client may answer an interrupt with; an edit replaces all arguments.
_ANSWER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "reason": {"type": "string"},
        "editedArgs": {"type": "object"},
    },
    "required": ["approved"],
}


class _Message(BaseModel):
    """One message of the posted history; only the newest one of the user is read."""

    model_config = ConfigDict(extra="ignore")

    id: str = ""
    role: str
    content: Any = None
    toolCallId: str = ""  # noqa: N815 - the wire's name


class ResumeEntry(BaseModel):
    """What the client says to one interrupt."""

    model_config = ConfigDict(extra="ignore")

    interruptId: Annotated[str, Field(max_length=200)]  # noqa: N815 - the wire's name
    status: Literal["resolved", "cancelled"]
    payload: Any = None

    @property
    def key(self) -> tuple[str, str]:
        """The approval's id and the digest of its card; two empty texts where it is no interrupt of ours."""
        found = _INTERRUPT.fullmatch(self.interruptId)
        return (found[1], found[2]) if found else ("", "")


class RunIn(BaseModel):
    """A RunAgentInput, as far as we believe it."""

    model_config = ConfigDict(extra="ignore")

    threadId: Identifier  # noqa: N815 - the wire's name
    runId: Annotated[str, Field(min_length=1, max_length=200)]  # noqa: N815 - the wire's name
    protocolVersion: str | None = None  # noqa: N815 - the wire's name
    messages: Annotated[list[_Message], Field(max_length=MESSAGES_MAX)] = Field(default_factory=list)
    resume: Annotated[list[ResumeEntry], Field(max_length=200)] = Field(default_factory=list)

    @property
    def written(self) -> tuple[str, str]:
        """The id and the text of the newest message where it is the user's; two empty texts otherwise."""
        newest = self.messages[-1] if self.messages else None
        if newest is None or newest.role != "user":
            return "", ""
        text = text_of(newest.content)
        known = re.fullmatch(r"[A-Za-z0-9_-]{1,64}", newest.id)
        return (newest.id if known else derived_id("ag-ui", self.threadId, newest.id, text)), text

    @property
    def answered(self) -> frozenset[str]:
        """The calls whose results the client has."""
        return frozenset(each.toolCallId for each in self.messages if each.role == "tool" and each.toolCallId)


def text_of(content: Any) -> str:
    """Return the text of a message's content: a text, or the text parts of a list."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


@dataclass
class AgUi:
    """Writes the events of one run."""

    thread_id: str
    run_id: str
    #: Clients before 1.0 know no interrupts; they are told in a custom event and in the activity.
    knows_interrupts: bool = True
    _step: int = 0
    _made: set[str] = field(default_factory=set)
    _cards: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def begin(self) -> Event:
        """Return the first event of the run."""
        return self._run("RUN_STARTED", protocolVersion=PROTOCOL)

    def fail(self, message: str, code: str) -> Event:
        """Return what ends a run that went wrong."""
        return {"type": "RUN_ERROR", "message": message, "code": code}

    def events(self, move: Move) -> Iterator[Event]:
        """Yield the events of one move."""
        match move:
            case StepBegan():
                self._step += 1
                yield {"type": "STEP_STARTED", "stepName": f"step-{self._step}"}
            case StepEnded():
                yield {"type": "STEP_FINISHED", "stepName": f"step-{self._step}"}
            case TextBegan(text_id):
                yield {"type": "TEXT_MESSAGE_START", "messageId": text_id, "role": "assistant"}
            case TextWritten(text_id, text):
                yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": text_id, "delta": text}
            case TextEnded(text_id):
                yield {"type": "TEXT_MESSAGE_END", "messageId": text_id}
            case CallMade():
                yield from self._call(move)
            case CardMoved():
                self._cards[move.call_id] = move.card
                yield {
                    "type": "ACTIVITY_SNAPSHOT",
                    "messageId": move.approval_id,
                    "activityType": "approval",
                    "content": shown_card(move.card),
                }
            case CallAnswered():
                yield from self._answer(move)
            case TurnEnded(end):
                yield self._end(end)

    def pause(self) -> Event:
        """Return what ends a run whose calls wait for people."""
        waiting = [card for card in self._cards.values() if card["state"] == "pending"]
        if not self.knows_interrupts:
            return self._run("RUN_FINISHED")
        return self._run("RUN_FINISHED", outcome={"type": "interrupt", "interrupts": list(map(_interrupt, waiting))})

    def _call(self, move: CallMade) -> Iterator[Event]:
        arguments = json.dumps({} if move.arguments is None else move.arguments)
        if move.call_id in self._made:
            # A call cannot be told anew: its arguments would be appended to the old ones.
            value = {"toolCallId": move.call_id, "arguments": move.arguments}
            yield {"type": "CUSTOM", "name": "placet.call_edited", "value": value}
            return
        self._made.add(move.call_id)
        yield {"type": "TOOL_CALL_START", "toolCallId": move.call_id, "toolCallName": move.tool}
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": move.call_id, "delta": arguments}
        yield {"type": "TOOL_CALL_END", "toolCallId": move.call_id}

    def _answer(self, move: CallAnswered) -> Iterator[Event]:
        self._cards.pop(move.call_id, None)
        told = {name: move.result[name] for name in ("data", "error") if move.result.get(name)}
        content = json.dumps({"result": move.kind, **told})
        message_id = derived_id("ag-ui-result", move.call_id)
        yield {"type": "TOOL_CALL_RESULT", "messageId": message_id, "toolCallId": move.call_id, "content": content}
        if blocks := move.result.get("ui_blocks"):
            yield {
                "type": "CUSTOM",
                "name": "placet.ui_blocks",
                "value": {"toolCallId": move.call_id, "blocks": blocks},
            }

    def _end(self, end: Mapping[str, Any]) -> Event:
        if end["state"] != "finished":
            return self.fail(str(end.get("reason") or "The turn failed."), "turn-failed")
        result = {"result": end["final_answer"]} if end.get("final_answer") else {}
        return self._run("RUN_FINISHED", outcome={"type": "success"}, **result)

    def _run(self, kind: str, **more: Any) -> Event:
        return {"type": kind, "threadId": self.thread_id, "runId": self.run_id, **more}


def _interrupt(card: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": f"{card['approval_id']}.{card['digest']}",
        "reason": "tool_call",
        "toolCallId": card["call_id"],
        "message": card["summary"],
        "responseSchema": _ANSWER,
        "expiresAt": card["expires_at"],
        "metadata": shown_card(card),
    }
