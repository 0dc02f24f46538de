"""Chat Completions: a conversation's log as one assistant message, in chunks or whole. Pure.

This wire has no word for a call that runs elsewhere, so tools are not told of as `tool_calls`: clients would answer
them. How calls ended and which wait stands in the member `placet`, and in words in the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from placet.domain.approvers import name_of
from placet.gateway.dialects import changes, openai
from placet.gateway.dialects.changes import Change
from placet.gateway.dialects.conversation_state import ConversationState, Entry

Chunk = dict[str, Any]


@dataclass
class CompletionState:
    """A completion, as far as it was told."""

    goal: openai.Goal
    completion_id: str
    model: str
    #: Seconds since the epoch.
    created: int
    #: Where approvals are decided; empty for nowhere.
    public_url: str = ""
    log: ConversationState = field(default_factory=ConversationState)
    #: What it says: id of the model's text, empty for other words, and a paragraph of it. And the texts given up.
    paragraphs: tuple[tuple[str, str], ...] = ()
    given_up: frozenset[str] = frozenset()
    #: Why the turn failed; empty where it did not.
    failure: str = ""
    #: Which limit ended it, {limit, reason}; empty where none did.
    limit: dict[str, str] = field(default_factory=dict)
    calls: tuple[dict[str, Any], ...] = ()
    #: Whether what is said next is a paragraph of its own.
    parted: bool = False
    done: bool = False

    @property
    def text(self) -> str:
        """All that was told: a stream cannot take words back."""
        return "\n\n".join(words for _, words in self.paragraphs)

    @property
    def kept(self) -> str:
        """What it says when it is told whole: nothing of what the model gave up."""
        return "\n\n".join(words for text_id, words in self.paragraphs if text_id not in self.given_up)

    def copy(self) -> CompletionState:
        """Return another one that has told the same."""
        return replace(self, log=self.log.copy())

    def read(self, entry: Entry) -> list[Chunk]:
        """Take an entry and return its chunks."""
        made = self.log.read(entry)
        is_news = self.goal.is_news(entry, self.log)
        return [chunk for change in made if is_news for chunk in self._chunks(change)]

    def begin(self) -> Iterator[Chunk]:
        """Yield what begins the message."""
        yield self._chunk({"role": "assistant", "content": ""})

    def settle(self) -> list[Chunk]:
        """Return the words about what waits, and about who answers, where nothing follows."""
        if self.done or not self.goal.rests(self.log):
            return []
        self.done = True
        held = str(self.goal.held(self.log).get("text", ""))
        notes = (openai.waits_note(self.goal.language, self.log.waiting, self.public_url), held)
        return [chunk for note in notes if note and not self.failure for chunk in self._say(note)]

    def end(self, usage: tuple[int, int] | None, *, counts: bool) -> Iterator[Chunk]:
        """Yield what ends the message, and after it, where that `counts`, the tokens that it took."""
        yield self._chunk({}, "stop") | {"placet": self.placet()}
        if counts and usage:
            yield self._head("chat.completion.chunk") | {"choices": []} | _usage(usage)

    def completion(self, usage: tuple[int, int] | None) -> dict[str, Any]:
        """Return the message as a whole."""
        message = {"role": "assistant", "content": self.kept, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        return self._head("chat.completion") | {"choices": [choice], "placet": self.placet()} | _usage(usage)

    def _chunks(self, change: Change) -> Iterator[Chunk]:
        match change:
            case changes.Text():
                self.parted = self.parted or change.begins
                self.given_up |= {change.text_id} if change.ends and not change.counts else set()
                yield from self._write(change.text, change.text_id)
            case changes.CallAnswered():
                self.calls += (openai.shown_result(change),)
            case changes.OperatorSpoke(_, operator, text):
                yield from self._say(f"{name_of(operator)}: {text}")
                # What the model was saying goes on in a paragraph of its own.
                self.parted = True
            case changes.TurnEnded(_, end):
                language = self.goal.language
                self.failure, self.limit = openai.failure_of(end, language), openai.limit_of(end, language)
                if text := openai.final_text(end):
                    yield from self._say(text)

    def _say(self, text: str) -> Iterator[Chunk]:
        """Yield a paragraph."""
        self.parted = True
        yield from self._write(text)

    def _write(self, text: str, text_id: str = "") -> Iterator[Chunk]:
        if text and (self.parted or not self.paragraphs):
            between, self.parted = "\n\n" if self.paragraphs else "", False
            self.paragraphs += ((text_id, text),)
            yield self._chunk({"content": between + text})
        elif text:
            *before, (_, words) = self.paragraphs
            self.paragraphs = (*before, (text_id, words + text))
            yield self._chunk({"content": text})

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> Chunk:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return self._head("chat.completion.chunk") | {"choices": [choice]}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.completion_id, "object": kind, "created": self.created, "model": self.model}

    def placet(self) -> dict[str, Any]:
        """Return what Placet tells beside the message."""
        return {
            "conversation_id": self.goal.conversation_id,
            "approvals": openai.shown_cards(self.log.waiting),
            "calls": list(self.calls),
            "holder": openai.shown_holder(self.goal.held(self.log)),
            **self.limit,
        }


def _usage(usage: tuple[int, int] | None) -> dict[str, Any]:
    if usage is None:
        return {}
    read, written = usage
    return {"usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}}
