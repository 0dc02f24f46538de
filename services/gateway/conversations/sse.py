"""Server-sent events: as bytes, as an answer, and in the API's description."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Mapping
from types import MappingProxyType
from typing import Any

from fastapi.responses import StreamingResponse

from placet.gateway.conversations.items import Item

#: Proxies that gather output before they pass it on would hold events back.
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
#: What a stream is to a generator that knows no more of it.
TEXT: Mapping[str, Any] = {"type": "string"}
# Neither ends with an empty line: some readers take a block without data for an event.
#: First bytes of a stream: how long a browser waits before it reconnects.
HELLO = b"retry: 1000\n"
HEARTBEAT = b": still here\n"
#: For a page: it was drawn before its stream began, or before it broke off, and looks once more.
BEGUN = HELLO + b"event: begun\ndata: {}\n\n"


def event_stream(frames: AsyncIterable[bytes], headers: Mapping[str, str] = MappingProxyType({})) -> StreamingResponse:
    """Return what is written bit by bit as an answer, with further `headers`."""
    return StreamingResponse(frames, media_type="text/event-stream", headers={**_HEADERS, **headers})


def described_stream(
    description: str, schema: Mapping[str, Any] = TEXT, **more: Any
) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entry of such an answer."""
    return {200: {"description": description, "content": {"text/event-stream": {"schema": schema}}, **more}}


def item_frame(item: Item) -> bytes:
    """Return one item: its number, its type, and its data with the time in it."""
    return f"id: {item.id}\nevent: {item.type}\ndata: {_json({**item.data, 'at': item.at})}\n\n".encode()


def event_frame(event: str, data: Any) -> bytes:
    """Return an event without a number, so that a reconnecting client does not ask from there."""
    return f"event: {event}\ndata: {_json(data)}\n\n".encode()


def data_frames(*values: Any) -> bytes:
    """Return JSON values without type or number, as most dialects have them."""
    return "".join(f"data: {_json(value)}\n\n" for value in values).encode()


def _json(value: Any) -> str:
    # ASCII only: some readers break lines at U+2028 and its like.
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)
