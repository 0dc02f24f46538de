"""What a dead letter's body holds: its service sends it back, and the gateway refuses at once what cannot be sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Tenant of the house's administrators: what belongs to no tenant, or to all, is for them.
HOUSE_TENANT = "default"
#: Type of what a dead letter holds of an event that the broker refused: its beginning, as a text. No message is
#: called so.
UNSENT_TYPE = "placet.outbox.refused.v1"
#: Type of what a frontend sent and may not send, as its dead letter names it. No message is called so.
REFUSED_TYPE = "placet.frontend.refused.v1"
#: What is told of the call that a refused event is about, so that the call can be ended.
_OF_CALL = ("tenant", "call_id", "conversation_id", "tool", "digest", "schema_digest")
#: Characters that any such thing has at most: what nobody has read may say anything at any length.
_TOLD_MAX = 512


@dataclass(frozen=True, slots=True)
class Unsent:
    """What a letter tells of an event that the broker refused."""

    type: str
    #: The queue that the event was for; empty where no one queue is.
    queue: str
    #: Of its call, what ends it; empty where it is about none.
    call: Mapping[str, Any]


def unsent(event: Mapping[str, Any], queue: str, beginning: str) -> dict[str, Any]:
    """Return what the dead letter of an event holds that the broker refused, with its beginning."""
    data = event["data"] if isinstance(event.get("data"), dict) else {}
    call = data["call"] if isinstance(data.get("call"), dict) else data
    told = (
        {name: _told(call[name]) for name in _OF_CALL if isinstance(call.get(name), str)} if "call_id" in call else {}
    )
    tenant, kind = _told(data.get("tenant")), _told(event.get("type"))
    shown = {"tenant": tenant, "type": kind, "queue": queue, "call": told, "body": beginning}
    return {"type": UNSENT_TYPE, "id": _told(event.get("id")), "data": shown}


def _told(value: object) -> str:
    return value[:_TOLD_MAX] if isinstance(value, str) else ""


def unsent_in(event: Mapping[str, Any]) -> Unsent | None:
    """Return what an event of a letter tells of a refused one; None where it is no such one."""
    data = event.get("data")
    if event.get("type") != UNSENT_TYPE or not isinstance(data, dict):
        return None
    call = data.get("call")
    return Unsent(str(data.get("type", "")), str(data.get("queue", "")), call if isinstance(call, dict) else {})


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
    if any(item.get("type") == UNSENT_TYPE for item in items):
        raise ValueError("the broker refused the event, and the letter has only its beginning")
    if any(item.get("type") == REFUSED_TYPE for item in items):
        raise ValueError("a frontend sent what it may not send, and the letter only tells of it")
    return items
