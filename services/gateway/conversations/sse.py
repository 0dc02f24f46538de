"""Server-sent events, as bytes."""

from __future__ import annotations

import json
from typing import Any

from placet.gateway.conversations.items import Item

#: Proxies that gather output before they pass it on would hold events back.
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
# Neither ends with an empty line: some readers take a block without data for an event.
#: First bytes of a stream: how long a browser waits before it reconnects.
HELLO = b"retry: 1000\n"
HEARTBEAT = b": still here\n"
#: For a page: it was drawn before its stream began, or before it broke off, and looks once more.
BEGUN = HELLO + b"event: begun\ndata: {}\n\n"


def item_frame(item: Item) -> bytes:
    """Return one item: its number, its type, and its data with the time in it."""
    return f"id: {item.id}\nevent: {item.type}\ndata: {_json({**item.data, 'at': item.at})}\n\n".encode()


def event_frame(event: str, data: Any) -> bytes:
    """Return an event without a number, so that a reconnecting client does not ask from there."""
    return f"event: {event}\ndata: {_json(data)}\n\n".encode()


def data_frame(value: Any) -> bytes:
    """Return a JSON value without type or number, as most dialects have them."""
    return f"data: {_json(value)}\n\n".encode()


def _json(value: Any) -> str:
    # ASCII only: some readers break lines at U+2028 and its like.
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)
