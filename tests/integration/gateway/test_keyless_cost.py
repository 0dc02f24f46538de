"""What an answer to nobody known costs the gateway: about as much as any other, whatever they ask for and send."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.routing import BaseRoute, Mount, Route

from placet.gateway.app import FORM_BYTES_MAX
from placet.gateway.http.protocol import HEAD_MAX
from tests.support.gateway import House

#: Times what a probe takes, at most: others take up to six times as long, and a document that is drawn anew 170 times.
DEAR = 20
#: Bytes of a header that fills a head.
FULL = HEAD_MAX - 2_048
#: What a form of one short field is sent with.
FORM = "application/x-www-form-urlencoded"
#: Headers that something looks at, each with how its value begins.
HEADERS = {
    "accept": "text/html",
    "accept-encoding": "gzip",
    "accept-language": "de",
    "authorization": "Bearer ",
    "content-type": FORM,
    "cookie": "placet_session=a",
    "forwarded": "for=a",
    "if-modified-since": "Mon, ",
    "if-none-match": '"a"',
    "last-event-id": "1",
    "origin": "http://gateway",
    "range": "bytes=",
    "referer": "http://gateway/",
    "traceparent": "00-",
    "x-forwarded-for": "a",
}
#: What parsers split at, and what they split into little.
SEPARATORS = (";", ",", "; a=b", ", a", "0-,", " ", '"', ".", "-", "/", "=")
#: Doors that answer each in a way of its own: a page, a form, a link, an API of JSON, a file, and no route at all.
DOORS = ("/sign-in", "/l/x", "/v1/approvals", "/static/page.css", "/healthz", "/nowhere")


def path_of(route: BaseRoute) -> str:
    """Return a path that leads to a route."""
    if isinstance(route, Mount):
        return f"{route.path}/page.css"
    assert isinstance(route, Route)
    return route.path.format_map(dict.fromkeys(route.param_convertors, "x"))


def fillings() -> Iterator[tuple[str, str]]:
    """Yield headers with as many separators as a head can have."""
    for name, begin in HEADERS.items():
        for separator in SEPARATORS:
            yield name, begin + (separator * FULL)[: FULL - len(begin)]


async def seconds_of(
    app: Any,
    path: str,
    method: str = "GET",
    header: tuple[str, str] | None = None,
    *,
    query: bytes = b"",
    form: bytes = b"key=a",
) -> float:
    """Return how much of the processor a request takes for which nobody shows who they are: the least of some."""
    body = form if method == "POST" else b""
    headers = {"content-type": FORM, "content-length": str(len(body))} if body else {}
    headers |= dict([header] if header else [])
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
    }
    scope |= {"path": path, "raw_path": path.encode(), "query_string": query, "root_path": ""}
    scope |= {"headers": [(name.encode(), value.encode()) for name, value in headers.items()]}
    scope |= {"server": ("127.0.0.1", 80), "client": ("127.0.0.1", 9)}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(_message: Any) -> None:
        pass

    spent = []
    # The first one may make what is kept then.
    for _ in range(6):
        began = time.process_time()
        await app({**scope, "state": {}}, receive, send)
        spent.append(time.process_time() - began)
    return min(spent[1:])


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_nothing_that_anybody_may_ask_for_is_dear(house: House, method: str) -> None:
    """Who has no key cannot keep the gateway busy with little: no request takes many times what a probe does."""
    app = house.gateways[0].app
    paths = {path_of(route) for route in app.routes} | {"/", "/nowhere"}
    probe = await seconds_of(app, "/healthz")
    spent = {path: await seconds_of(app, path, method) for path in sorted(paths)}
    assert {"/openapi.json", "/asyncapi.json", "/sign-in", "/v1/approvals"} <= spent.keys()
    assert {} == {path: round(seconds / probe) for path, seconds in spent.items() if seconds > DEAR * probe}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", DOORS)
async def test_no_header_that_anybody_may_send_is_dear(house: House, path: str, method: str) -> None:
    """A header full of what parsers split at costs no more than many times a probe, at each kind of door."""
    app = house.gateways[0].app
    probe = await seconds_of(app, "/healthz")
    spent = {(name, value[-6:]): await seconds_of(app, path, method, (name, value)) for name, value in fillings()}
    assert {} == {which: round(seconds / probe) for which, seconds in spent.items() if seconds > DEAR * probe}


@pytest.mark.parametrize("path", DOORS)
async def test_no_parameters_that_anybody_may_send_are_dear(house: House, path: str) -> None:
    """As many as an address takes, and as many fields as a form of nobody known has."""
    app = house.gateways[0].app
    probe = await seconds_of(app, "/healthz")
    most = next((size for begin, size in FORM_BYTES_MAX.items() if path.startswith(begin)), FULL)
    spent = {}
    for each in (b"a&", b"&", b"a=b&", b"%61&", b"+&", b";", b"a="):
        spent["query", each] = await seconds_of(app, path, query=(each * FULL)[:16_000])
        spent["form", each] = await seconds_of(app, path, "POST", form=(each * FULL)[:most])
    assert {} == {which: round(seconds / probe) for which, seconds in spent.items() if seconds > DEAR * probe}
