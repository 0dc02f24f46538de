"""The channel `webhook:<name>`: a program gets each card of the rules that name it, signed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from placet.notifier.channels import Address, Card, ChannelFailed, Delivered
from placet.notifier.channels.webhook_posting import Poster
from placet.notifier.webhook_endpoints import Endpoint
from placet.notifier.webhook_events import card_body


class WebhookChannel:
    """Posts cards as events `approval.card`; a card of a later revision takes the place of the one before."""

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        poster: Poster,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._endpoints = endpoints
        self._poster = poster
        self._clock = clock

    async def send(self, card: Card, address: Address, reference: Mapping[str, str] | None, *, key: str) -> Delivered:
        """Post the card. The receiver knows a second copy by its id."""
        del reference
        endpoint = self._endpoints.get(address.recipient)
        if endpoint is None or not endpoint.is_of(card.tenant):
            raise ChannelFailed(f"no webhook is called {address.recipient!r}", permanent=True)
        await self._poster.post(endpoint, key, card_body(card, self._clock()))
        return Delivered()
