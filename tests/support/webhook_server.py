"""A program that hears webhooks: notes each request, and answers as it is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shared.health import serving


@dataclass(frozen=True)
class Heard:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: str


@dataclass
class Receiver:
    """What came, and what is answered to the next requests: status and headers, one each, then 204."""

    url: str = ""
    heard: list[Heard] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)

    async def take(self, request: Request) -> Response:
        """Note a request and answer it."""
        body = (await request.body()).decode()
        self.heard.append(Heard(request.url.path, dict(request.headers), body))
        status, headers = self.answers.pop(0) if self.answers else (204, {})
        return Response(status_code=status, headers=headers)


@asynccontextmanager
async def a_receiver() -> AsyncIterator[Receiver]:
    """Run a receiver on a free port of this machine."""
    receiver = Receiver()
    app = Starlette(routes=[Route("/{path:path}", receiver.take, methods=["GET", "POST"])])
    async with serving(app, host="127.0.0.1", port=0) as server:
        port = server.servers[0].sockets[0].getsockname()[1]
        receiver.url = f"http://127.0.0.1:{port}"
        yield receiver
