"""What webhooks hear: one JSON object for each event, with nothing in it that people must not see. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from placet.contracts.ids import derived_id
from placet.contracts.messages import (
    ApprovalClosed,
    ApprovalOpened,
    ApprovalProgressed,
    ToolCallFinished,
    ToolCallProgressed,
    ToolCallRefused,
)
from placet.notifier.cards import Card, as_json
from placet.notifier.webhook_endpoints import Endpoint

Heard: TypeAlias = (
    ApprovalOpened | ApprovalProgressed | ApprovalClosed | ToolCallProgressed | ToolCallFinished | ToolCallRefused
)

#: Seconds before the n-th further try of an event: two days and a half in all.
RETRY_SECONDS = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
#: Share of a wait that is left to chance, so that receivers that were away are not met by all at once.
JITTER = 0.2

_TYPES: Mapping[type[Any], str] = {
    ApprovalOpened: "approval.opened",
    ApprovalProgressed: "approval.progressed",
    ApprovalClosed: "approval.closed",
    ToolCallProgressed: "tool_call.progressed",
    ToolCallFinished: "tool_call.finished",
    ToolCallRefused: "tool_call.refused",
}
#: What is told of each message. A call's result and its real arguments stay here.
_TOLD: Mapping[type[Any], set[str]] = {
    ApprovalOpened: {"approval_id", "revision", "summary", "rule", "reason", "expires_at", "category"},
    ApprovalProgressed: {
        "approval_id", "revision", "conversation_id", "call_id", "kind", "note", "person", "expires_at", "summary",
    },
    ApprovalClosed: {
        "approval_id", "revision", "conversation_id", "call_id", "state", "decided_by", "reason", "closed_at",
    },
    ToolCallProgressed: {"call_id", "conversation_id", "tool", "fraction", "attempt"},
    ToolCallFinished: {"call_id", "conversation_id", "tool", "kind", "attempt", "started_at", "finished_at"},
    ToolCallRefused: {"call_id", "conversation_id", "tool", "kind", "decided_by"},
}  # fmt: skip
_CALL = {"call_id", "conversation_id", "agent", "requester", "tool", "digest", "shown_arguments"}


@dataclass(frozen=True, slots=True)
class Event:
    """One event for one webhook, as it is sent."""

    event_id: str
    tenant: str
    webhook: str
    type: str
    body: str
    at: datetime


def heard(message: Heard, message_id: str, endpoints: Mapping[str, Endpoint], at: datetime) -> Iterator[Event]:
    """Yield the events that a message means, one for each webhook that hears of it."""
    name = _TYPES[type(message)]
    for webhook, endpoint in endpoints.items():
        if endpoint.hears(name, message.tenant):
            event_id = derived_id("webhook", webhook, message_id)
            body = body_of(name, message.tenant, at, _data(message))
            yield Event(event_id, message.tenant, webhook, name, body, at)


def body_of(name: str, tenant: str, at: datetime, data: Mapping[str, Any]) -> str:
    """Return the body of an event: type, time, and data."""
    told = {"type": name, "timestamp": at.isoformat(), "data": {"tenant": tenant, **data}}
    return json.dumps(told, separators=(",", ":"), ensure_ascii=True)


def card_body(card: Card, at: datetime) -> str:
    """Return the body that shows a card to a webhook which a rule names."""
    return body_of("approval.card", card.tenant, at, {**as_json(card), "restored": card.restored > 0})


def wait_before(event_id: str, attempt: int) -> float | None:
    """Return the seconds to wait after the given failed attempt (1 for the first); None to give up.

    Chance comes from the event's id: each try of an event waits the same, two events do not.
    """
    if attempt > len(RETRY_SECONDS):
        return None
    share = int(derived_id("jitter", event_id, str(attempt))[:8], 16) / 0xFFFF_FFFF
    return RETRY_SECONDS[attempt - 1] * (1 + JITTER * share)


def longest_wait() -> timedelta:
    """Return how long an event is tried at most."""
    return timedelta(seconds=sum(RETRY_SECONDS) * (1 + JITTER))


def _data(message: Heard) -> dict[str, Any]:
    data = message.model_dump(mode="json", include=_TOLD[type(message)])
    if isinstance(message, ApprovalOpened):
        data["call"] = message.call.model_dump(mode="json", include=_CALL)
    if isinstance(message, ApprovalProgressed) and message.call is not None:
        data["call"] = message.call.model_dump(mode="json", include=_CALL)
    return data
