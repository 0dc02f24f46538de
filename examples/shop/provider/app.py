"""The demo payment provider's HTTP interface, as a plain ASGI application. No money moves.

It stands in for a company's service, so it behaves like one that does it right: it insists on an `Idempotency-Key`,
gives the same answer to every repeat, also after a restart, and refuses a key that comes back with another order.
It has no accounts and no passwords: let nobody but the executors reach it.

    POST /v1/links {amount, currency, account?, reference?, note?}   201 link · 400 · 413 · 422 key used otherwise
    GET  /v1/links/{id}                                              200 link · 404
    GET  /v1/links?reference=…                                       200 {"items": [link, …]}
    GET  /v1/links?idempotency_key=…                                 200 {"items": [the one link of the key, if any]}
    GET  /pay/{id}                                                   the page where one would pay
    GET  /healthz                                                    200
"""

from __future__ import annotations

import asyncio
import html
import json
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import parse_qs

from pydantic import ValidationError

from shop.provider.links import KeyUsedOtherwise, Link, LinkOrder, Links

BODY_BYTES_MAX = 16 * 1024
KEY_CHARACTERS_MAX = 255
LINKS = "/v1/links"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


async def _no_delay() -> None:
    """Let a request through at once."""


@dataclass(slots=True)
class Faults:
    """What tests let go wrong; no request can switch any of it on."""

    before_store: Callable[[], Awaitable[None]] = _no_delay
    """Awaited before a link is stored: the order has arrived, nothing has happened yet."""
    after_store: Callable[[], Awaitable[None]] = _no_delay
    """Awaited after a link was stored and before the answer: its effect has happened, nobody knows yet."""
    fail_next: int = 0
    """How many of the next orders get 503 before anything is stored."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


class Refusal(Exception):
    """The request cannot be served; becomes problem details with this status."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class PaymentProvider:
    """The provider as an ASGI application; links point to `public_url`, where browsers reach this server."""

    def __init__(self, links: Links, *, public_url: str, faults: Faults | None = None) -> None:
        self._links = links
        self._public_url = public_url.rstrip("/")
        self._faults = faults or Faults()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        try:
            answer = await self._answer(scope, receive)
        except Refusal as refusal:
            problem = {"title": refusal.detail, "status": refusal.status}
            answer = _json(refusal.status, problem, content_type="application/problem+json")
        headers = {"content-type": answer.content_type, "x-content-type-options": "nosniff", **answer.headers}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        raw.append((b"content-length", str(len(answer.body)).encode()))
        await send({"type": "http.response.start", "status": answer.status, "headers": raw})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        match scope["method"], scope["path"].removeprefix("/").split("/"):
            case "POST", ["v1", "links"]:
                return await self._create(scope, receive)
            case "GET", ["v1", "links"]:
                return await self._find(scope)
            case "GET", ["v1", "links", link_id]:
                return _json(200, asdict(await self._load(link_id)))
            case "GET", ["pay", link_id]:
                return _page(await self._load(link_id))
            case "GET", ["healthz"]:
                return _json(200, {"status": "ok"})
            case _, ["v1", "links", *_] | ["pay", _] | ["healthz"]:
                raise Refusal(405, "This method is not for this address.")
        raise Refusal(404, "There is nothing at this address.")

    async def _create(self, scope: Scope, receive: Receive) -> Answer:
        key = _key(scope)
        order = _order(await _body(receive))
        if self._faults.fail_next > 0:
            self._faults.fail_next -= 1
            raise Refusal(503, "Out of order for a moment.")
        await self._faults.before_store()
        new_id = f"pl_{secrets.token_urlsafe(12)}"
        url = f"{self._public_url}/pay/{new_id}"
        try:
            link, made = await asyncio.to_thread(self._links.create, order, key=key, new_id=new_id, url=url)
        except KeyUsedOtherwise as error:
            raise Refusal(422, "This Idempotency-Key has made a link for another order.") from error
        await self._faults.after_store()
        return _json(201, asdict(link), headers={} if made else {"idempotent-replayed": "true"})

    async def _find(self, scope: Scope) -> Answer:
        match parse_qs(scope["query_string"].decode("latin-1")):
            case {"reference": [reference], **others} if not others:
                found = await asyncio.to_thread(self._links.find, reference)
            case {"idempotency_key": [key], **others} if not others:
                found = await asyncio.to_thread(self._links.find_made, key)
            case _:
                raise Refusal(400, "Name one reference or one idempotency_key: /v1/links?reference=…")
        return _json(200, {"items": [asdict(link) for link in found]})

    async def _load(self, link_id: str) -> Link:
        link = await asyncio.to_thread(self._links.load, link_id)
        if link is None:
            raise Refusal(404, "There is no such link.")
        return link


def _key(scope: Scope) -> str:
    keys: list[str] = [value.decode("latin-1") for name, value in scope["headers"] if name == b"idempotency-key"]
    if len(keys) != 1 or not 1 <= len(keys[0]) <= KEY_CHARACTERS_MAX:
        raise Refusal(400, f"Send one Idempotency-Key of 1 to {KEY_CHARACTERS_MAX} characters.")
    return keys[0]


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "The request was not sent to its end.")
        body += message.get("body", b"")
        if len(body) > BODY_BYTES_MAX:
            raise Refusal(413, f"An order may have at most {BODY_BYTES_MAX} bytes.")
        if not message.get("more_body", False):
            return bytes(body)


def _order(body: bytes) -> LinkOrder:
    try:
        return LinkOrder.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = "/".join(map(str, first["loc"]))
        raise Refusal(400, f"/{place}: {first['msg']}") from error


def _json(
    status: int, value: Any, *, headers: dict[str, str] | None = None, content_type: str = "application/json"
) -> Answer:
    return Answer(status, json.dumps(value).encode(), headers or {}, content_type)


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Pay {amount} {currency}</title>
<main><h1>{amount} {currency}</h1><p>{note}</p><p>Payment link {id}. This is a demo: no money moves.</p></main>
</html>
"""


def _page(link: Link) -> Answer:
    shown = {name: html.escape(value or "") for name, value in asdict(link).items()}
    headers = {"content-security-policy": "default-src 'none'", "referrer-policy": "no-referrer"}
    return Answer(200, _PAGE.format(**shown).encode(), headers, "text/html; charset=utf-8")
