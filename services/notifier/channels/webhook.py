"""Posts signed events to webhooks, and judges their answers; the channel `webhook:<name>` posts cards so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from ssl import SSLContext
from urllib.parse import urlsplit

import httpx
from standardwebhooks import Webhook

from placet.notifier.channels import Address, Card, ChannelFailed, Delivered
from placet.notifier.channels.webhook_targets import LookUp, Names, address_of
from placet.notifier.webhook_endpoints import Endpoint
from placet.notifier.webhook_events import card_body
from placet.runtime.retry_after import asked_seconds

#: How long a receiver may take, in seconds.
TIMEOUT_SECONDS = 15.0
#: Answers that say "not now".
BUSY = frozenset({408, 425, 429, 502, 503, 504})
#: The answer that says "never again".
GONE = 410
_PORTS = {"http": 80, "https": 443}


class Poster:
    """Posts events. Redirects are not followed and no proxy is asked: the judged address is the one that is reached."""

    def __init__(
        self,
        *,
        look_up: LookUp | None = None,
        trust: SSLContext | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._look_up = look_up or Names().look_up
        #: Whose certificates count; made once, because reading all roots takes tens of milliseconds.
        self._trust = trust or httpx.create_ssl_context(trust_env=False)
        self._clock = clock

    async def post(self, endpoint: Endpoint, event_id: str, body: str) -> None:
        """Post `body` as it is; raise ChannelFailed unless the receiver took it."""
        parts = urlsplit(endpoint.url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        address = await address_of(host, port, self._look_up, private=endpoint.private)
        pinned = httpx.URL(endpoint.url).copy_with(host=address)
        headers = self._headers(endpoint, event_id, body) | {"host": parts.netloc}
        try:
            async with httpx.AsyncClient(
                timeout=TIMEOUT_SECONDS, follow_redirects=False, trust_env=False, verify=self._trust
            ) as client:
                request = client.build_request("POST", pinned, content=body.encode(), headers=headers)
                request.extensions["sni_hostname"] = host
                # Only the head is read: how long the receiver talks is its own affair.
                answer = await client.send(request, stream=True)
                await answer.aclose()
        except (httpx.HTTPError, OSError) as error:
            raise ChannelFailed(f"{host} did not answer: {type(error).__name__}") from error
        self._judge(host, answer)

    def _headers(self, endpoint: Endpoint, event_id: str, body: str) -> dict[str, str]:
        at = self._clock().replace(microsecond=0)
        signatures = [Webhook(secret.get_secret_value()).sign(event_id, at, body) for secret in endpoint.secrets]
        return {
            "content-type": "application/json",
            "user-agent": "Placet",
            "webhook-id": event_id,
            "webhook-timestamp": str(int(at.timestamp())),
            "webhook-signature": " ".join(signatures),
        }

    def _judge(self, host: str, answer: httpx.Response) -> None:
        if answer.is_success:
            return
        reason = f"{host} answered {answer.status_code}"
        if answer.status_code == GONE:
            raise ChannelFailed(reason, permanent=True)
        told = answer.headers.get("retry-after", "") if answer.status_code in BUSY else ""
        raise ChannelFailed(reason, retry_after=asked_seconds(told, self._clock()))


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
