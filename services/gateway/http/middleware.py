"""What every answer carries and counts: headers that bind the browser, and metrics by route."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import cache

from prometheus_client import Counter, Histogram
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from placet.gateway.http.errors import stopping
from placet.runtime.tracing import TRACING

REQUESTS = Counter("placet_http_requests_total", "Requests by route and status.", ["method", "route", "status"])
SECONDS = Histogram("placet_http_request_seconds", "Time until the answer begins, by route.", ["method", "route"])

#: For a year. Other hosts of the domain are not ours to bind.
HSTS = "max-age=31536000"
#: What is asked every few seconds, and says nothing of any call.
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
#: Where the pages' own files are.
_FILES = "/static/"
#: Parts of paths that spans tell; others may be secrets, as those of mailed links.
_IDS = frozenset({"approval_id", "call_id", "chat_id", "conversation_id", "job_id", "response_id"})
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def browser_rules(image_sources: list[str], public_url: str = "") -> dict[str, str]:
    """Return the headers that keep a browser from running or loading anything but our own files.

    Where we are reached by https, they also keep it from ever coming without.
    """
    images = " ".join(["'self'", "data:", *image_sources])
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; "
        f"base-uri 'none'; frame-ancestors 'none'; img-src {images}"
    )
    only_https = {"strict-transport-security": HSTS} if public_url.startswith("https://") else {}
    return {
        **only_https,
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
        "cache-control": "no-store",
    }


class Answers:
    """ASGI middleware: adds the standing headers, and counts and times each answer.

    A request that the server breaks off, because it has stopped waiting for the last ones, is told so.
    """

    def __init__(self, app: ASGIApp, headers: Mapping[str, str]) -> None:
        self._app = app
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; answers pass through here on their way back."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, answered = time.perf_counter(), False

        async def with_headers(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                # ASGI writes names in lower case, and so are ours.
                own = {name for name, _ in message["headers"]}
                standing = [header for header in self._headers if header[0] not in own]
                message["headers"] = [*message["headers"], *standing]
                _count(scope, message["status"], time.perf_counter() - began)
            await send(message)

        try:
            await self._pass_on(scope, receive, with_headers)
        except asyncio.CancelledError:
            if answered:
                raise
            await stopping(Request(scope))(scope, receive, with_headers)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not TRACING.on or scope["path"] in _PROBES or scope["path"].startswith(_FILES):
            await self._app(scope, receive, send)
            return
        parent = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"traceparent"), "")
        with TRACING.span(scope["method"], parent, "server"):
            try:
                await self._app(scope, receive, send)
            finally:
                # Both are known only once the request was routed.
                found = {name: value for name, value in scope.get("path_params", {}).items() if name in _IDS}
                TRACING.describe(f"{scope['method']} {_route(scope)}", **found)


def _count(scope: Scope, status: int, seconds: float) -> None:
    # Names from outside never become labels: there is no end of them.
    method = scope["method"] if scope["method"] in _METHODS else "other"
    route = _route(scope)
    requests, times = _counted_as(method, route, str(status))
    requests.inc()
    times.observe(seconds)


def _route(scope: Scope) -> str:
    return getattr(scope.get("route"), "path", "none")


@cache
def _counted_as(method: str, route: str, status: str) -> tuple[Counter, Histogram]:
    return REQUESTS.labels(method, route, status), SECONDS.labels(method, route)
