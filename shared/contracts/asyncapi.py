"""The AsyncAPI document: every message, exchange, key and queue, drawn from the topology and the message classes.

Written here and not by FastStream, because our subscribers take whole envelopes and FastStream's document would show
neither the events inside nor the queues' arguments.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from placet.contracts.frontends import frontend_key
from placet.contracts.messages import (
    ENVELOPE_EVENTS_MAX,
    ConversationDelta,
    ConversationItems,
    Message,
    MessagePosted,
)
from placet.contracts.messages.message import Attributes
from placet.contracts.topology import MESSAGES, QUEUES, ROUTES, QueueSpec, executor_queue, key_matches, queue_arguments

_TRANSIENT = "Transient: sent at most once, never stored."
_STORED = "Stored, confirmed, at least once."


def document() -> dict[str, Any]:
    """Return the AsyncAPI 3.0 document as JSON values."""
    classes: list[type[BaseModel]] = [Attributes]
    classes.extend(MESSAGES.values())
    _, schemas = models_json_schema(
        [(cls, "serialization") for cls in classes], ref_template="#/components/schemas/{model}"
    )
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Placet",
            "version": "1",
            "description": "Bodies are CloudEvents 1.0 JSON batches of 1 to "
            f"{ENVELOPE_EVENTS_MAX} events. A consumer drops an event whose id it has handled.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/cloudevents-batch+json",
        "channels": {**{cls.type_name: _channel(cls) for cls in MESSAGES.values()}, "frontend": _frontend_channel()},
        "operations": {
            **{spec.name: _operation(spec) for spec in (*QUEUES, executor_queue("default"))},
            **_frontend_operations(),
        },
        "components": {
            "messages": {cls.type_name: _message(cls) for cls in MESSAGES.values()},
            "schemas": schemas["$defs"],
        },
    }


def _channel(cls: type[Message]) -> dict[str, Any]:
    route = ROUTES[cls]
    return {
        "address": f"{route.exchange}/{_key(cls)}",
        "messages": {cls.type_name: {"$ref": f"#/components/messages/{cls.type_name}"}},
        "bindings": {
            "amqp": {
                "is": "routingKey",
                "exchange": {"name": route.exchange, "type": "topic", "durable": True, "autoDelete": False},
            }
        },
        "description": _TRANSIENT if route.transient else _STORED,
    }


def _frontend_channel() -> dict[str, Any]:
    """Return where chat frontends publish: the gateway's message under a key of their own."""
    return {
        **_channel(MessagePosted),
        "address": f"{ROUTES[MessagePosted].exchange}/{frontend_key('{tenant}')}",
        "description": "What a chat frontend publishes with its own user, for visitors of its tenant only. Anything "
        "else under this key is an alert and a dead letter.",
    }


def _frontend_operations() -> dict[str, Any]:
    """Return what a chat frontend with its own user has to do with us, as we see it."""
    hears = (ConversationItems, ConversationDelta)
    return {
        "frontend.posts": {
            "action": "receive",
            "channel": {"$ref": "#/channels/frontend"},
            "description": "A visitor of a chat frontend on RabbitMQ wrote.",
        },
        **{
            f"frontend.hears.{cls.__name__}": {
                "action": "send",
                "channel": {"$ref": f"#/channels/{cls.type_name}"},
                "description": "A chat frontend binds a queue frontend.{tenant}.{name}.{queue} of its own to this.",
            }
            for cls in hears
        },
    }


def _message(cls: type[Message]) -> dict[str, Any]:
    event = {
        "allOf": [
            {"$ref": "#/components/schemas/Attributes"},
            {
                "type": "object",
                "properties": {
                    "type": {"const": cls.type_name},
                    "data": {"$ref": f"#/components/schemas/{cls.__name__}"},
                },
                "required": ["type", "data"],
            },
        ]
    }
    return {
        "name": cls.type_name,
        "summary": (cls.__doc__ or "").strip().splitlines()[0],
        "contentType": "application/cloudevents-batch+json",
        "payload": {"type": "array", "minItems": 1, "maxItems": ENVELOPE_EVENTS_MAX, "items": event},
    }


def _operation(spec: QueueSpec) -> dict[str, Any]:
    types = [cls.type_name for cls in MESSAGES.values() if _reaches(cls, spec)]
    first = types[0] if types else "placet.message.posted.v1"
    return {
        "action": "receive",
        "channel": {"$ref": f"#/channels/{first}"},
        "description": f"Receives {', '.join(types)}." if types else "Receives what could not be handled.",
        "x-queue": {
            "name": spec.name,
            "type": "quorum",
            "durable": True,
            "prefetch": spec.prefetch,
            "arguments": queue_arguments(spec),
            "bindings": [{"exchange": binding.exchange, "key": binding.key} for binding in spec.bindings],
        },
    }


def _reaches(cls: type[Message], spec: QueueSpec) -> bool:
    exchange, sample = ROUTES[cls].exchange, _key(cls)
    for part, value in {"{tenant}": "t", "{pool}": "default", "{instance}": "i", "{queue}": spec.name}.items():
        sample = sample.replace(part, value)
    return any(binding.exchange == exchange and key_matches(binding.key, sample) for binding in spec.bindings)


def _key(cls: type[Message]) -> str:
    """Return the routing key with its variable part named."""

    class _Named:
        tenant, pool, answer_to, queue = "{tenant}", "{pool}", "{instance}", "{queue}"

    return ROUTES[cls].key(_Named)
