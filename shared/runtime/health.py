"""Liveness, readiness and metrics of a service that has no HTTP of its own."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from placet.contracts.errors import PlacetError
from placet.runtime.connections import IDLE_SECONDS, Bounded, BoundedH11, Bounds, Door, kept, raise_limit, that_fit
from placet.runtime.settings import Settings

Ready = Callable[[], Awaitable[bool]]

#: Who asks for health and metrics are probes and a collector or two.
FEW = Bounds(in_all=100, by_address=50, seconds=60.0)
#: Bytes that the kernel keeps of one connection beside those that are on their way.
UNSENT_BYTES = 16_384


class CannotListen(PlacetError):
    """An address that a service is to listen on is taken, or none of this machine."""


def health_app(ready: Ready) -> Callable[..., Awaitable[None]]:
    """Return an ASGI app with /healthz, /readyz (503 until `ready` says yes) and /metrics."""

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        del receive
        if scope["type"] != "http":
            return
        status, kind, body = await _answer(scope["path"], ready)
        headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


async def _answer(path: str, ready: Ready) -> tuple[int, str, bytes]:
    match path:
        case "/healthz":
            return 200, "text/plain", b"ok\n"
        case "/readyz":
            return (200, "text/plain", b"ready\n") if await ready() else (503, "text/plain", b"not ready\n")
        case "/metrics":
            return 200, CONTENT_TYPE_LATEST, generate_latest()
    return 404, "text/plain", b"not found\n"


@asynccontextmanager
async def telling_health(ready: Ready, settings: Settings) -> AsyncIterator[None]:
    """Tell of health and metrics while the block runs, where the settings name a port for it. Raises CannotListen."""
    if not settings.health_port:
        yield
        return
    async with serving(health_app(ready), host=settings.health_host, port=settings.health_port):
        yield


@asynccontextmanager
async def serving(
    app: Any,
    *,
    host: str,
    port: int,
    proxies: Sequence[str] = (),
    http: type[Bounded] = BoundedH11,
    bounds: Bounds = FEW,
) -> AsyncIterator[uvicorn.Server]:
    """Serve an ASGI app on this event loop while the block runs; signals stay with the caller.

    Only `proxies`, addresses or networks, are believed whom they speak for (`X-Forwarded-For`, `X-Forwarded-Proto`).
    `http` reads a connection, and ends one beyond the `bounds`. Raises CannotListen.
    """
    descriptors = raise_limit()
    door = Door(that_fit(bounds, descriptors=descriptors), proxies)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=partial(http, door=door),  # type: ignore[arg-type]  # uvicorn calls it, and asks for nothing else
        # A library that came along with another one would let uvicorn take up websockets, of which we have none.
        ws="none",
        log_config=None,
        lifespan="off",
        proxy_headers=bool(proxies),
        forwarded_allow_ips=",".join(proxies),
        timeout_graceful_shutdown=5,
        timeout_keep_alive=IDLE_SECONDS,
        # All of them may be accepted at once, before one of them is refused.
        backlog=max(kept(descriptors) // 2, 1),
    )
    server = QuietServer(config)
    task = asyncio.create_task(server.serve())
    try:
        while not server.started:
            if task.done():
                await task
            await asyncio.sleep(0.01)
        yield server
    finally:
        server.should_exit = True
        await task


class QuietServer(uvicorn.Server):
    """uvicorn without its own signal handlers: the process decides when to stop."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Leave the signals alone."""
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; raise CannotListen where uvicorn would end the process."""
        try:
            await super().startup(sockets)
            for sock in (each for server in self.servers for each in server.sockets):
                if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                    # What clients do not take stays with us, where it counts, and not with the kernel.
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        except SystemExit as error:
            reason = error.__context__
            # Loops word it in their own ways; the number says the same everywhere, where the system gave one.
            number = reason.errno if isinstance(reason, OSError) else None
            told = os.strerror(number) if number and number > 0 else str(reason)
            raise CannotListen(f"cannot listen on {self.config.host}:{self.config.port}: {told}") from reason
