"""A chat's history as AI SDK clients keep it: made of the feed by the very code that streams it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from services.gateway.dialects.ai_sdk import AiSdk, Assembly
from services.gateway.dialects.moves import TurnReader, spoken


def messages_of(items: Sequence[Mapping[str, Any]], writer: AiSdk) -> list[dict[str, Any]]:
    """Return the UI messages of a conversation's feed items, each {id, type, at, data}, in order."""
    messages: list[dict[str, Any]] = []
    turns: dict[str, tuple[TurnReader, Assembly]] = {}
    for item in items:
        kind, data = item["type"], item["data"]
        if kind == "message" and data["role"] == "user":
            text = {"type": "text", "text": data["text"]}
            messages.append({"id": data["message_id"], "role": "user", "parts": [text]})
        elif kind == "message" and data["role"] == "operator":
            messages.append(_spoken(data, writer))
        elif kind == "turn" and data["state"] == "started":
            turns[data["turn_id"]] = TurnReader(data["turn_id"]), Assembly()
            messages.append({"id": data["turn_id"], "role": "assistant"})
            _add(turns[data["turn_id"]][1], writer.begin(data["turn_id"]))
        for reader, assembly in turns.values():
            for move in reader.read(kind, data):
                _add(assembly, writer.chunks(move))
    made = {turn_id: assembly.message() for turn_id, (_, assembly) in turns.items()}
    return [made.get(message["id"], message) for message in messages]


def _spoken(data: Mapping[str, Any], writer: AiSdk) -> dict[str, Any]:
    assembly = Assembly()
    _add(assembly, writer.begin(data["message_id"]))
    for move in spoken(data):
        _add(assembly, writer.chunks(move))
    return assembly.message()


def _add(assembly: Assembly, chunks: Any) -> None:
    for chunk in chunks:
        assembly.add(chunk)
