"""What a dead letter's body holds: its service sends it back, and the gateway refuses at once what cannot be sent."""

from __future__ import annotations

import json
from typing import Any

#: Tenant of the house's administrators: what belongs to no tenant, or to all, is for them.
HOUSE_TENANT = "default"
#: Type of what a dead letter holds of an event that the broker refused: its beginning, as a text. No message is
#: called so.
UNSENT_TYPE = "placet.outbox.refused.v1"


def events_in(body: str) -> list[dict[str, Any]]:
    """Return the events of a body, one or a list; raise ValueError where it holds none or something else too.

    A body as people may see it holds as many as the body itself.
    """
    try:
        items = json.loads(body)
    except RecursionError as error:
        raise ValueError("the body nests too deeply") from error
    items = items if isinstance(items, list) else [items]
    if not items or not all(isinstance(item, dict) for item in items):
        raise ValueError("the body holds no events")
    return items
