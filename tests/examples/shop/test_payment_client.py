"""The payment client tells a certain failure from an unknown outcome, and believes no answer that does not fit."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import httpx
import pytest

from placet.tools import ToolError, ToolOutcomeUnknown
from shop.payments import LinkRequest, PaymentClient, ProviderLink

REQUEST = LinkRequest(amount=Decimal("299.90"), currency="TRY", account="acme", reference="call-1", note=None)
LINK = {
    "id": "pl_1",
    "url": "https://pay.example/pay/pl_1",
    "amount": "299.90",
    "currency": "TRY",
    "reference": "call-1",
    "more": "is ignored",
}


async def _ask(handler: Callable[[httpx.Request], httpx.Response]) -> ProviderLink:
    async with httpx.AsyncClient(base_url="https://pay.example", transport=httpx.MockTransport(handler)) as http:
        return await PaymentClient(http).create_link(REQUEST, key="k-1", timeout_seconds=5)


async def test_order_goes_out_with_its_key_and_the_exact_amount() -> None:
    """Money travels as text, the key as a header."""
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(201, json=LINK)

    link = await _ask(answer)

    assert ("pl_1", "https://pay.example/pay/pl_1") == (link.id, str(link.url))
    assert ("POST", "/v1/links", "k-1") == (sent[0].method, sent[0].url.path, sent[0].headers["idempotency-key"])
    expected = b'{"amount":"299.90","currency":"TRY","account":"acme","reference":"call-1","note":null}'
    assert expected == sent[0].content


@pytest.mark.parametrize(
    "error",
    [
        httpx.ReadTimeout("late"),
        httpx.WriteError("cut"),
        httpx.RemoteProtocolError("garbage"),
        httpx.DecodingError("garbage"),
    ],
)
async def test_connection_that_breaks_after_sending_leaves_the_outcome_unknown(error: httpx.RequestError) -> None:
    """The provider may have made the link."""

    def fail(_: httpx.Request) -> httpx.Response:
        raise error

    with pytest.raises(ToolOutcomeUnknown, match="not known whether it created the link"):
        await _ask(fail)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_server_error_leaves_the_outcome_unknown(status: int) -> None:
    """A failing provider may fail after its work."""
    with pytest.raises(ToolOutcomeUnknown, match=rf"\({status}\)"):
        await _ask(lambda _: httpx.Response(status))


@pytest.mark.parametrize(
    "error", [httpx.ConnectError("refused"), httpx.ConnectTimeout("late"), httpx.PoolTimeout("full")]
)
async def test_connection_that_never_stood_is_a_certain_failure(error: httpx.RequestError) -> None:
    """Nothing was sent."""

    def fail(_: httpx.Request) -> httpx.Response:
        raise error

    with pytest.raises(ToolError) as caught:
        await _ask(fail)
    assert "provider_unreachable" == caught.value.code


@pytest.mark.parametrize("status", [301, 400, 401, 409, 422, 429])
async def test_refusal_is_a_certain_failure(status: int) -> None:
    """Who says no has made nothing."""
    with pytest.raises(ToolError) as caught:
        await _ask(lambda _: httpx.Response(status))
    assert "provider_refused" == caught.value.code


@pytest.mark.parametrize(
    "changed",
    [
        {"amount": "29.99"},
        {"currency": "EUR"},
        {"reference": "call-2"},
        {"url": "javascript:alert(1)"},
        {"url": ""},
        {"id": None},
    ],
)
async def test_answer_that_does_not_fit_the_order_gives_no_link(changed: dict[str, Any]) -> None:
    """A link over another amount, for another call, or to no web page is never given out."""
    with pytest.raises(ToolError) as caught:
        await _ask(lambda _: httpx.Response(201, json={**LINK, **changed}))
    assert "provider_answer_invalid" == caught.value.code
