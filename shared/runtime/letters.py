"""The dead letters of what the broker does not take: as much of it as it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

from placet.contracts.dead_letters import unsent
from placet.runtime.bus import Bus, Delivery, PublishRefused

#: Bytes that a dead letter holds of what was refused.
REFUSED_BYTES_SHOWN = 64 * 1024


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
