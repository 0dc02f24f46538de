"""The dead letters of what the broker does not take, as much of it as it does, and of what cannot be read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pydantic_core import to_json

from placet.contracts.dead_letters import REFUSED_TYPE, unsent
from placet.contracts.messages import ENVELOPE_EVENTS_MAX, Event
from placet.runtime.bus import Bus, Delivery, PublishRefused

#: Bytes that a dead letter holds of what was refused.
REFUSED_BYTES_SHOWN = 64 * 1024
#: The events of an envelope, and what is none: bytes, id if any, why.
Read: TypeAlias = tuple[list[Event], list[tuple[bytes, str, str]]]


async def bury_cut(
    bus: Bus, own: str, event: Mapping[str, Any], body: bytes, *, reader: str, reason: str, message_id: str
) -> None:
    """Send, under the own queue, the letter of an event for `reader`, with as much of `body` as the broker takes."""
    most = REFUSED_BYTES_SHOWN
    while True:
        letter = to_json([unsent(event, reader, body[:most].decode("utf-8", "ignore"))])
        try:
            await bus.dead_letter(Delivery(own, letter), letter, reason=reason, message_id=message_id)
        except PublishRefused:
            if not most:
                raise
            most //= 16
        else:
            return


def read_apart(body: bytes, why: str, read: Callable[[bytes], Read]) -> Read:
    """Read the events of an envelope one by one where `read` cannot read it as a whole, for the reason `why`.

    One event that is nested too deep, or has a text that is none, takes no other along.
    """
    events, unreadable = list[Event](), list[tuple[bytes, str, str]]()
    try:
        items = json.loads(body)
        bodies = [json.dumps([item]).encode() for item in items] if isinstance(items, list) else []
    except (ValueError, RecursionError):
        bodies = []
    if not 1 < len(bodies) <= ENVELOPE_EVENTS_MAX:
        return [], [(body, "", why)]
    for item, alone in zip(items, bodies, strict=True):
        found, bad = read(alone)
        events += found
        unreadable += [(letter, event_id or id_of(item), reason) for letter, event_id, reason in bad]
    return events, unreadable


def id_of(item: Any) -> str:
    """Return the id of what should be an event, as much of it as is kept; empty where it has none."""
    return str(item.get("id", ""))[:128] if isinstance(item, dict) else ""


def not_replayable(body: bytes, tenant: str) -> bytes:
    """Return a dead letter's body that tells what a frontend of `tenant` sent, belongs to that tenant, and is no event.

    Its beginning is kept as one text, so that nothing which looks for a call or an event inside takes it for one; what
    it was in all is told by its length and digest.
    """
    beginning = body[:REFUSED_BYTES_SHOWN].decode("utf-8", "replace")
    data = {"tenant": tenant, "body": beginning, "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    return to_json([{"type": REFUSED_TYPE, "data": data}])
