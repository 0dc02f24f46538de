"""One builder per message: a test says only what matters to it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from placet.contracts.canonical import call_digest, canonical_text
from placet.contracts.ids import new_id, new_traceparent
from placet.contracts.messages import (
    AbandonCall,
    ApprovalRule,
    Author,
    Event,
    Message,
    MessagePosted,
    ToolCall,
    ToolCallFinished,
)

NOON = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
SCHEMA_DIGEST = "a" * 64


def a_call(**changes: Any) -> ToolCall:
    """Return a tool call whose digest fits its fields; `arguments` may be given as an object."""
    arguments = changes.pop("arguments", {"amount": 299, "currency": "TRY"})
    text = arguments if isinstance(arguments, str) else canonical_text(arguments)
    fields: dict[str, Any] = {
        "shown_arguments": text,
        "call_id": new_id(),
        "tenant": "acme",
        "conversation_id": "conversation-1",
        "turn_id": "turn-1",
        "message_id": "message-1",
        "agent": "default",
        "requester": "visitor-1",
        "tool": "create_pay_link",
        "schema_digest": SCHEMA_DIGEST,
        "arguments": text,
    } | changes
    bound = {name: fields[name] for name in ("tenant", "conversation_id", "tool", "schema_digest", "arguments")}
    return ToolCall(**{"digest": call_digest(**bound), **fields})


def a_posted_message(**changes: Any) -> MessagePosted:
    """Return a user's message."""
    fields: dict[str, Any] = {
        "tenant": "acme",
        "conversation_id": "conversation-1",
        "message_id": new_id(),
        "text": "find red shoes under 500",
        "author": Author(kind="visitor", id="visitor-1"),
    }
    return MessagePosted(**(fields | changes))


def a_result(call: ToolCall) -> ToolCallFinished:
    """Return the result of a call that ran."""
    ids = {"tenant": call.tenant, "call_id": call.call_id, "conversation_id": call.conversation_id, "tool": call.tool}
    return ToolCallFinished(**ids, kind="succeeded", attempt=1, started_at=NOON, finished_at=NOON)


def an_abandonment(queue: str, call: ToolCall, **changes: Any) -> AbandonCall:
    """Return the dead-letter service's word that the dead letter was discarded that a call waited for in `queue`."""
    fields = call.model_dump() | {"queue": queue, "may_have_run": False, "by": "person:grace"}
    return AbandonCall.model_validate(fields | changes)


def an_approval_rule(**changes: Any) -> ApprovalRule:
    """Return a rule that lets operators decide within an hour."""
    return ApprovalRule(**({"approvers": ["operators"]} | changes))


def an_event(message: Message, **changes: Any) -> Event:
    """Return an event that carries `message`."""
    event_id = new_id()
    fields: dict[str, Any] = {
        "id": event_id,
        "source": "test",
        "time": NOON,
        "correlation_id": event_id,
        "causation_id": "",
        "traceparent": new_traceparent(),
        "message": message,
    }
    return Event(**(fields | changes))


def an_envelope(*events: Event) -> bytes:
    """Return the body of an AMQP message that carries `events`."""
    return f"[{','.join(event.to_json() for event in events)}]".encode()
