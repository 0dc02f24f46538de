"""A chat's history as AI SDK clients keep it: made of the feed by the very code that streams it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from services.gateway.dialects.ai_sdk import AiSdk, Assembly, Chunk
from services.gateway.dialects.follow import Replies
from services.gateway.dialects.reader import Reader, Said


class History:
    """The UI messages of a conversation, in the order in which they began."""

    def __init__(self, writer: AiSdk) -> None:
        self._writer = writer
        self._reader = Reader()
        self._replies = Replies()
        #: Turn or message id -> the message, or what it is made of.
        self._messages: dict[str, dict[str, Any] | Assembly] = {}

    def add(self, item: Mapping[str, Any]) -> None:
        """Take a feed item, {id, type, at, data}, the oldest first."""
        kind, data = item["type"], item["data"]
        self._replies.read(kind, data)
        if kind == "turn":
            self._begun(data["turn_id"])
        for told in self._reader.read(kind, data, item["id"]):
            if isinstance(told.move, Said):
                text = {"type": "text", "text": told.move.text}
                self._messages[told.turn_id] = {"id": told.turn_id, "role": "user", "parts": [text]}
            else:
                _add(self._begun(told.turn_id), self._writer.chunks(told.move))

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages, each {id, role, parts}."""
        return [each.message() if isinstance(each, Assembly) else each for each in self._messages.values()]

    def _begun(self, turn_id: str) -> Assembly:
        message_id = self._replies.first(turn_id)
        found = self._messages.get(message_id)
        if not isinstance(found, Assembly):
            found = self._messages[message_id] = Assembly()
            _add(found, self._writer.begin(message_id))
        return found


def _add(assembly: Assembly, chunks: Iterable[Chunk]) -> None:
    for chunk in chunks:
        assembly.add(chunk)
