"""Chat Completions: news as one assistant message, in chunks or whole. Pure.

This wire has no word for a call that runs elsewhere, so tools are not told of as `tool_calls`: clients would answer
them. How calls ended and which wait stands in the member `placet`, and in words in the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.gateway.dialects.moves import CallAnswered, Move, OperatorSpoke, TextBegan, TextWritten, TurnEnded
from services.gateway.dialects.openai_calls import failure_of, final_text, shown_cards, shown_holder, shown_result
from services.gateway.holder import Held
from shared.approvers import name_of

Chunk = dict[str, Any]


@dataclass
class ChatWriter:
    """Writes one completion."""

    completion_id: str
    model: str
    conversation_id: str
    #: Seconds since the epoch.
    created: int
    text: str = ""
    #: Why the turn failed; empty where it did not.
    failure: str = ""
    #: Tokens that the model read and wrote; None where nobody knows.
    usage: tuple[int, int] | None = None
    #: Who answers when it ends.
    held: Held = field(default_factory=Held)
    _parted: bool = False
    _calls: list[dict[str, Any]] = field(default_factory=list)

    def begin(self) -> Iterator[Chunk]:
        """Yield what begins the message."""
        yield self._chunk({"role": "assistant", "content": ""})

    def chunks(self, move: Move) -> Iterator[Chunk]:
        """Yield the chunks of one move."""
        match move:
            case TextBegan():
                self._parted = bool(self.text)
            case TextWritten(_, text):
                yield from self._write(text)
            case CallAnswered():
                self._calls.append(shown_result(move))
            case OperatorSpoke(_, operator, text):
                yield from self.say(f"{name_of(operator)}: {text}")
                # What the model was saying goes on in a paragraph of its own.
                self._parted = True
            case TurnEnded(end):
                self.failure = failure_of(end)
                if text := final_text(end):
                    yield from self.say(text)

    def say(self, text: str) -> Iterator[Chunk]:
        """Yield a paragraph."""
        self._parted = bool(self.text)
        yield from self._write(text)

    def end(self, waiting: Sequence[Mapping[str, Any]], *, with_usage: bool = False) -> Iterator[Chunk]:
        """Yield what ends the message, and after it, where that was asked for, what it took."""
        yield self._chunk({}, "stop") | {"placet": self._placet(waiting)}
        if with_usage and self.usage:
            yield self._head("chat.completion.chunk") | {"choices": []} | self._usage()

    def completion(self, waiting: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the message as a whole."""
        message = {"role": "assistant", "content": self.text, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        told = {"choices": [choice], "placet": self._placet(waiting)}
        return self._head("chat.completion") | told | self._usage()

    def _write(self, text: str) -> Iterator[Chunk]:
        text = ("\n\n" if self._parted else "") + text
        self._parted = False
        self.text += text
        yield self._chunk({"content": text})

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> Chunk:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return self._head("chat.completion.chunk") | {"choices": [choice]}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.completion_id, "object": kind, "created": self.created, "model": self.model}

    def _usage(self) -> dict[str, Any]:
        if self.usage is None:
            return {}
        read, written = self.usage
        counts = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        return {"usage": counts}

    def _placet(self, waiting: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return {
            "conversation_id": self.conversation_id,
            "approvals": shown_cards(waiting),
            "calls": self._calls,
            "holder": shown_holder(self.held),
        }
