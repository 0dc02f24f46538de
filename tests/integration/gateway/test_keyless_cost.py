"""What an answer to nobody known costs the gateway: about as much as any other, whatever they ask for."""

from __future__ import annotations

import time
from typing import Any

from starlette.routing import BaseRoute, Mount, Route

from tests.support.gateway import House

#: Times what a probe takes, at most: others take up to six times as long, and a document that is drawn anew 170 times.
DEAR = 20


def path_of(route: BaseRoute) -> str:
    """Return a path that leads to a route."""
    if isinstance(route, Mount):
        return f"{route.path}/page.css"
    assert isinstance(route, Route)
    return route.path.format_map(dict.fromkeys(route.param_convertors, "x"))


async def seconds_of(app: Any, path: str) -> float:
    """Return how much of the processor a GET takes for which nobody shows who they are: the least of some."""
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
    }
    scope |= {"path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": []}
    scope |= {"server": ("127.0.0.1", 80), "client": ("127.0.0.1", 9)}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_message: Any) -> None:
        pass

    spent = []
    # The first one may make what is kept then.
    for _ in range(6):
        began = time.process_time()
        await app({**scope, "state": {}}, receive, send)
        spent.append(time.process_time() - began)
    return min(spent[1:])


async def test_nothing_that_anybody_may_ask_for_is_dear(house: House) -> None:
    """Who has no key cannot keep the gateway busy with little: no GET takes many times what a probe does."""
    app = house.gateways[0].app
    paths = {path_of(route) for route in app.routes} | {"/", "/nowhere"}
    probe = await seconds_of(app, "/healthz")
    spent = {path: await seconds_of(app, path) for path in sorted(paths)}
    assert {"/openapi.json", "/asyncapi.json", "/sign-in", "/v1/approvals"} <= spent.keys()
    assert {} == {path: round(seconds / probe) for path, seconds in spent.items() if seconds > DEAR * probe}
