"""The client of the payment provider.

Owns the one distinction that matters about a failed call: whether the provider may have made the link. Where
it may have, the outcome is unknown, and repeating with the same key gives the same link instead of a second
one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import httpx
from pydantic import AnyHttpUrl, BaseModel, ConfigDict, ValidationError

from placet.tools import ToolError, ToolOutcomeUnknown

_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRequest:
    """What the provider is asked for; `account` and `reference` make a key of another tenant or call collide."""

    amount: Decimal
    currency: str
    account: str
    reference: str
    note: str | None

    def body(self) -> dict[str, Any]:
        """Return the JSON body; money travels as text so that no float stands between us and the provider."""
        return {
            "amount": str(self.amount),
            "currency": self.currency,
            "account": self.account,
            "reference": self.reference,
            "note": self.note,
        }


class ProviderLink(BaseModel):
    """The provider's answer, as far as the shop relies on it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    url: AnyHttpUrl
    amount: Decimal
    currency: str
    reference: str


class _Found(BaseModel):
    """What the provider says it has made with a key."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    items: list[ProviderLink]


class PaymentClient:
    """Creates and finds payment links at the provider behind `http` (its base URL is the provider's)."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def create_link(self, request: LinkRequest, *, key: str, timeout_seconds: float) -> ProviderLink:
        """Return the provider's link for this key, a new one or the one it made before.

        ToolError when there surely is no usable link, ToolOutcomeUnknown when the provider may have made one.
        """
        try:
            # httpx counts each read anew; only the outer limit stops an answer that comes byte by byte.
            async with asyncio.timeout(timeout_seconds):
                answer = await self._http.post(
                    "/v1/links",
                    json=request.body(),
                    headers={"Idempotency-Key": key},
                    timeout=httpx.Timeout(timeout_seconds, connect=timeout_seconds / 2, pool=timeout_seconds / 2),
                )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            text = "The payment provider cannot be reached; no link is given out."
            raise ToolError(text, code="provider_unreachable") from error
        except (TimeoutError, httpx.RequestError) as error:
            raise _unknown("The payment provider did not answer.") from error
        return _link(answer, request)

    async def find_link(self, key: str, *, timeout_seconds: float) -> ProviderLink | None:
        """Return the link that the provider has made for this key; None where it says that it has made none.

        Raises ToolOutcomeUnknown where it does not say.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                answer = await self._http.get("/v1/links", params={"idempotency_key": key}, timeout=timeout_seconds)
            found = _Found.model_validate_json(answer.raise_for_status().content).items
        except (TimeoutError, httpx.HTTPError, ValidationError) as error:
            raise ToolOutcomeUnknown("The payment provider did not say whether it created the link.") from error
        return found[0] if found else None


def _link(answer: httpx.Response, request: LinkRequest) -> ProviderLink:
    if answer.status_code >= _SERVER_ERROR:
        raise _unknown(f"The payment provider answered with an error ({answer.status_code}).")
    if not answer.is_success:
        text = f"The payment provider refused the link ({answer.status_code}); there is none."
        raise ToolError(text, code="provider_refused")
    try:
        link = ProviderLink.model_validate_json(answer.content)
    except ValidationError as error:
        raise _unusable() from error
    if not fits(link, request):
        raise _unusable()
    return link


def fits(link: ProviderLink, request: LinkRequest) -> bool:
    """Tell whether the provider's link is the one that was asked for."""
    return (link.amount, link.currency, link.reference) == (request.amount, request.currency, request.reference)


def _unusable() -> ToolError:
    text = "The payment provider's answer does not fit the request; no link is given out."
    return ToolError(text, code="provider_answer_invalid")


def _unknown(what: str) -> ToolOutcomeUnknown:
    return ToolOutcomeUnknown(f"{what} It is not known whether it created the link; none is given out.")
