"""What an operator wants done with what was given up: a card, or an event for a webhook."""

from __future__ import annotations

from typing import ClassVar

from placet.contracts.messages.message import Identifier, Message


class RetryDelivery(Message):
    """Show a card again where its channel failed for good. Sent by the gateway to the notifier."""

    type_name: ClassVar[str] = "placet.delivery.retry.v1"

    delivery_id: Identifier
    by: str


class RetryWebhookEvent(Message):
    """Post an event again that its webhook never took. Sent by the gateway to the notifier."""

    type_name: ClassVar[str] = "placet.webhook-event.retry.v1"

    event_id: Identifier
    by: str
