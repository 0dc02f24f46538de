"""What a buried delivery says about itself: pure, because broken bytes are exactly what comes here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.bus import Delivery
from shared.card_text import REDACTED
from shared.ids import derived_id

#: Tenant of dead letters that do not tell theirs: only the operators of the installation see them.
OPERATORS_TENANT = "default"


@dataclass(frozen=True)
class Letter:
    """One dead letter as it arrived."""

    dead_letter_id: str
    tenant: str
    queue: str
    service: str
    reason: str
    message_id: str
    message_type: str
    body: str
    #: The body as people may see it.
    shown_body: str


def letter_from(delivery: Delivery) -> Letter:
    """Return what a delivery from the dead-letter queue says. The same burial twice gives the same id."""
    body = delivery.body.decode("utf-8", "replace")
    event = _first_event(body)
    # The key is the queue it came from, and the broker lets each service use its own only: a header could lie.
    queue = delivery.key or "unknown"
    message_id = str(delivery.headers.get("x-placet-message-id") or event.get("id") or "")
    data = event.get("data")
    tenant = data.get("tenant") if isinstance(data, dict) else None
    return Letter(
        dead_letter_id=derived_id("dead-letter", queue, message_id, hashlib.sha256(delivery.body).hexdigest()),
        tenant=tenant if isinstance(tenant, str) and tenant else OPERATORS_TENANT,
        queue=queue,
        service=queue.partition(".")[0],
        reason=_why(delivery.headers),
        message_id=message_id[:128],
        message_type=str(event.get("type", ""))[:128],
        body=body.replace("\x00", "\ufffd"),
        shown_body=shown(body).replace("\x00", "\ufffd"),
    )


def shown(body: str) -> str:
    """Return a body as people may see it: of each call's arguments what may be shown, of bytes that are no JSON none.

    What cannot be read cannot be searched for values that nobody must see either.
    """
    try:
        text = json.dumps(_masked(json.loads(body)), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return f"({len(body.encode('utf-8', 'replace'))} bytes that are no JSON; the table audit.dead_letters has them)"
    return text.encode("utf-8", "replace").decode()


def _masked(value: Any) -> Any:
    if isinstance(value, list):
        return [_masked(each) for each in value]
    if not isinstance(value, dict):
        return value
    masked = {name: _masked(each) for name, each in value.items()}
    if "arguments" in value:
        told = value.get("shown_arguments")
        masked["arguments"] = told if isinstance(told, str) and told else REDACTED
    return masked


def events_of(body: str) -> list[str]:
    """Return the JSON of each event in a dead letter's body; raise ValueError where it holds none."""
    items = json.loads(body)
    items = items if isinstance(items, list) else [items]
    if not items or not all(isinstance(item, dict) for item in items):
        raise ValueError("the body holds no events")
    return [json.dumps(item, separators=(",", ":"), ensure_ascii=False) for item in items]


def _first_event(body: str) -> dict[str, Any]:
    try:
        items = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    first = items[0] if isinstance(items, list) and items else items
    return first if isinstance(first, dict) else {}


def _why(headers: Mapping[str, object]) -> str:
    """Our own burials give the reason in a header; the broker's in `x-death`."""
    if "x-placet-reason" in headers:
        return str(headers["x-placet-reason"])
    deaths = headers.get("x-death")
    death = deaths[0] if isinstance(deaths, list) and deaths and isinstance(deaths[0], dict) else {}
    return f"broker: {death.get('reason', 'unknown')}"
