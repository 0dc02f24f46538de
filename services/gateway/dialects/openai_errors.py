"""Errors as OpenAI's clients read them: the problem document with a member `error` beside its own.

Done to answers on their way out, so that what is refused before a route is reached has the form too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from placet.gateway.dialects.openai import SERVER_ERROR
from placet.gateway.http.errors import MEDIA_TYPE

#: Addresses that OpenAI's clients ask, each also with something behind it.
_PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/models")
_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    424: SERVER_ERROR,
    429: "rate_limit_error",
}
_FIRST_SERVER_ERROR = 500
#: What passes by itself, and left nothing behind.
_PASSES = frozenset({429, 503})


def openai_error(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Return what OpenAI's clients read of a problem document: {message, type, param, code}."""
    status = int(problem["status"])
    kind = str(problem["type"]).removeprefix("urn:placet:problem:").replace("-", "_")
    server = SERVER_ERROR if status >= _FIRST_SERVER_ERROR else "invalid_request_error"
    fault: Mapping[str, Any] = next(iter(problem.get("errors") or ()), {})
    where = str(fault.get("parameter") or fault.get("pointer") or "").removeprefix("#/").replace("/", ".")
    title = str(problem.get("detail") or problem["title"])
    # Our own refusals name the parameter themselves.
    message = title if kind != "invalid_request" or "`" in title else f"{title} {fault.get('detail', '')}".strip()
    code = None if kind == "about:blank" else kind
    return {"message": message, "type": _TYPES.get(status, server), "param": where or None, "code": code}


class OpenAiErrors:
    """ASGI middleware: adds `error` to the problem documents of the OpenAI dialects."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; a problem on its way back waits until it is whole."""
        if scope["type"] != "http" or not _is_ours(scope["path"]):
            await self._app(scope, receive, send)
            return
        await self._app(scope, receive, _Rewriting(send))


class _Rewriting:
    """Sends an answer on, a problem with its `error`."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = b""

    async def __call__(self, message: Message) -> None:
        """Take one message of the answer."""
        if message["type"] == "http.response.start" and _is_problem(message):
            self._start = message
            return
        if self._start is None:
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if not message.get("more_body"):
            await self._send_problem(self._start, json.loads(self._body))

    async def _send_problem(self, start: Message, problem: dict[str, Any]) -> None:
        body = json.dumps({**problem, "error": openai_error(problem)}).encode()
        headers = MutableHeaders(scope=start)
        headers["content-length"] = str(len(body))
        if problem["status"] not in _PASSES:
            # The SDK would ask again where a decision lost a race, and write a message twice.
            headers["x-should-retry"] = "false"
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})


def _is_ours(path: str) -> bool:
    return any(path == ours or path.startswith(f"{ours}/") for ours in _PATHS)


def _is_problem(start: Message) -> bool:
    return Headers(raw=start["headers"]).get("content-type", "") == MEDIA_TYPE
