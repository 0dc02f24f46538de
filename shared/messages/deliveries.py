"""What an operator wants done with a delivery that was given up."""

from __future__ import annotations

from typing import ClassVar

from shared.messages.message import Identifier, Message


class RetryDelivery(Message):
    """Show a card again where its channel failed for good. Sent by the gateway to the notifier."""

    type_name: ClassVar[str] = "placet.delivery.retry.v1"

    delivery_id: Identifier
    by: str
