"""Responses: news as output items, streamed as the events that the SDK puts together again, or whole. Pure.

A call that ran is an `mcp_call`, one that waits an `mcp_approval_request`, as with tools of a remote MCP server: what
OpenAI's clients have for calls that are approved by people and run elsewhere. An item is told when it is certain what
it is, so a call without a card is told with its result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from services.gateway.dialects.moves import (
    Call,
    CallAnswered,
    CardMoved,
    Move,
    OperatorSpoke,
    TextBegan,
    TextEnded,
    TextWritten,
    TurnEnded,
)
from services.gateway.dialects.openai_calls import failure_of, final_text, shown_cards, shown_holder, shown_result
from services.gateway.dialects.openai_ids import item_id, request_id
from services.gateway.feed import SUCCESSES
from services.gateway.holder import Held
from shared.canonical import canonical_text

Event = dict[str, Any]
Status = Literal["in_progress", "completed", "failed"]

#: The name under which Placet's tools stand.
SERVER_LABEL = "placet"


@dataclass
class ResponseWriter:
    """Writes one response."""

    response_id: str
    model: str
    conversation_id: str
    #: Seconds since the epoch.
    created: int
    #: Call id -> what is known of it.
    calls: Mapping[str, Call]
    previous_response_id: str | None = None
    #: Why the turn failed; empty where it did not.
    failure: str = ""
    #: Tokens that the model read and wrote; None where nobody knows.
    usage: tuple[int, int] | None = None
    #: Who answers when it ends.
    held: Held = field(default_factory=Held)
    _output: list[dict[str, Any]] = field(default_factory=list)
    _asked: set[str] = field(default_factory=set)
    #: Place of the message that is being written: calls may be answered meanwhile.
    _text_at: int = 0
    #: Number of the next event.
    _next: int = 0

    def begin(self) -> Iterator[Event]:
        """Yield what begins the response."""
        for kind in ("created", "in_progress"):
            yield self._event(f"response.{kind}", response=self.response("in_progress"))

    def events(self, move: Move) -> Iterator[Event]:
        """Yield the events of one move."""
        match move:
            case TextBegan(text_id):
                yield from self._begin_text(text_id)
            case TextWritten(_, text):
                self._output[self._text_at]["content"][0]["text"] += text
                yield self._event("response.output_text.delta", **self._part_place(), delta=text, logprobs=[])
            case TextEnded():
                yield from self._end_text()
            case CardMoved() if move.state == "pending":
                yield from self.ask(move.card)
            case CallAnswered():
                yield from self._answer(move)
            case OperatorSpoke(message_id, operator, text):
                yield from self.say(message_id, text, placet={"operator": operator})
            case TurnEnded(end):
                yield from self._end_turn(end)

    def ask(self, card: Mapping[str, Any]) -> Iterator[Event]:
        """Yield the request to approve a call, once for each version of it that was shown."""
        request = request_id(card)
        if request in self._asked:
            return
        self._asked.add(request)
        arguments = canonical_text(card.get("arguments"))
        item = {"id": request, "type": "mcp_approval_request", "name": card["tool"], "arguments": arguments}
        yield from self._whole(item | {"server_label": SERVER_LABEL})

    def say(self, text_id: str, text: str, **more: Any) -> Iterator[Event]:
        """Yield a message that is there whole; `more` are members of ours."""
        # A person may speak while the model does.
        written_at = self._text_at
        yield from self._begin_text(text_id, **more)
        yield from self.events(TextWritten(text_id, text))
        yield from self._end_text()
        self._text_at = written_at

    def end(self, waiting: Sequence[Mapping[str, Any]]) -> Iterator[Event]:
        """Yield what ends the response."""
        status: Status = "failed" if self.failure else "completed"
        yield self._event(f"response.{status}", response=self.response(status, waiting))

    def cut(self) -> Iterator[Event]:
        """Yield what tells that this is not the end, although nothing more comes."""
        told = {"code": "server_error", "message": "The stream ended early; retrieve the response.", "param": None}
        yield self._event("error", **told)

    def response(self, status: Status, waiting: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """Return the response as it stands."""
        error = {"code": "server_error", "message": self.failure} if status == "failed" else None
        return {
            "id": self.response_id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": error,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": self.model,
            "output": [dict(item) for item in self._output],
            "parallel_tool_calls": True,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "usage": _usage(*self.usage) if self.usage else None,
            "conversation": {"id": self.conversation_id},
            "previous_response_id": self.previous_response_id,
            "placet": {"approvals": shown_cards(waiting), "holder": shown_holder(self.held)},
        }

    # --- texts --------------------------------------------------------------------------------------------------

    def _begin_text(self, text_id: str, **more: Any) -> Iterator[Event]:
        item = {"id": item_id("msg", text_id), "type": "message", "role": "assistant", "status": "in_progress"}
        yield self._added(item | {"content": [], **more})
        self._text_at = len(self._output) - 1
        self._output[-1]["content"] = [_part("")]
        yield self._event("response.content_part.added", **self._part_place(), part=_part(""))

    def _end_text(self) -> Iterator[Event]:
        item = self._output[self._text_at]
        text = item["content"][0]["text"]
        yield self._event("response.output_text.done", **self._part_place(), text=text, logprobs=[])
        yield self._event("response.content_part.done", **self._part_place(), part=_part(text))
        item["status"] = "completed"
        yield self._done(self._text_at)

    # --- calls --------------------------------------------------------------------------------------------------

    def _answer(self, move: CallAnswered) -> Iterator[Event]:
        known = self.calls[move.call_id]
        arguments = "" if known.arguments is None else canonical_text(known.arguments)
        call: dict[str, Any] = {
            "id": item_id("mcp", move.call_id),
            "type": "mcp_call",
            "name": move.tool,
            "server_label": SERVER_LABEL,
            "approval_request_id": request_id(known.card) if known.card.get("digest") else None,
            "arguments": "",
            "output": None,
            "error": None,
        }
        yield self._added(call | {"status": "in_progress"})
        place = self._place()
        yield self._event("response.mcp_call.in_progress", **place)
        yield self._event("response.mcp_call_arguments.delta", **place, delta=arguments)
        yield self._event("response.mcp_call_arguments.done", **place, arguments=arguments)
        ran = move.kind in SUCCESSES
        yield self._event(f"response.mcp_call.{'completed' if ran else 'failed'}", **place)
        ended = {"status": "completed", "output": _json(move.result.get("data"))} if ran else _failed(move)
        self._output[-1] |= {"arguments": arguments, "placet": shown_result(move), **ended}
        yield self._done()

    def _end_turn(self, end: Mapping[str, Any]) -> Iterator[Event]:
        self.failure = failure_of(end)
        if text := final_text(end):
            yield from self.say(f"{end.get('turn_id', self.response_id)}.final", text)

    # --- events -------------------------------------------------------------------------------------------------

    def _whole(self, item: dict[str, Any]) -> Iterator[Event]:
        yield self._added(item)
        yield self._done()

    def _added(self, item: dict[str, Any]) -> Event:
        self._output.append(item)
        return self._event("response.output_item.added", output_index=len(self._output) - 1, item=dict(item))

    def _done(self, index: int = -1) -> Event:
        place = index % len(self._output)
        return self._event("response.output_item.done", output_index=place, item=dict(self._output[place]))

    def _place(self, index: int = -1) -> dict[str, Any]:
        place = index % len(self._output)
        return {"item_id": self._output[place]["id"], "output_index": place}

    def _part_place(self) -> dict[str, Any]:
        return self._place(self._text_at) | {"content_index": 0}

    def _event(self, kind: str, **members: Any) -> Event:
        event = {"type": kind, "sequence_number": self._next, **members}
        self._next += 1
        return event


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(read: int, written: int) -> dict[str, Any]:
    details: dict[str, Any] = {
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written, **details}


def _failed(move: CallAnswered) -> dict[str, Any]:
    return {"status": "failed", "error": move.error}


def _json(value: Any) -> str:
    # Sorted: the database keeps no order of members, and a retrieved item is the same as a told one.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
