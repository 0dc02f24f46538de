"""The demo payment provider as a server: in a process of its own, or inside another one's event loop.

`python -m shop.provider.server --port 9090 --data DIR` starts it. Its socket is bound before
anything else, so that port 0 works and two providers on one port fail at once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from urllib.parse import urlsplit

import structlog
import uvicorn

from shop.provider.app import Faults, PaymentProvider
from shop.provider.links import Links

log = structlog.get_logger(__name__)

GRACE_SECONDS = 5
"""How long a stop waits for open requests."""


class PaymentServer(uvicorn.Server):
    """The provider on one socket: await `serve()`; `ready` is set once it answers, `should_exit = True` ends it.

    `url` is where it listens, `public_url` what its links begin with (`url` when None). Signals stay with the
    surrounding program unless `own_process`.
    """

    def __init__(  # a wiring constructor: each argument is one outside fact
        self,
        host: str,
        port: int,
        data: Path,
        *,
        public_url: str | None = None,
        own_process: bool = False,
        faults: Faults | None = None,
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family)
        self._own_process = own_process
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._listener.getsockname()[1]}"
        self.ready = asyncio.Event()
        self.links = Links(data / "payment-links.sqlite3")
        provider = PaymentProvider(self.links, public_url=public_url or self.url, faults=faults)
        # The logging set-up belongs to the surrounding program.
        config = uvicorn.Config(
            provider, lifespan="off", ws="none", log_config=None, timeout_graceful_shutdown=GRACE_SECONDS
        )
        super().__init__(config)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Listen to signals only where the whole process is ours."""
        with super().capture_signals() if self._own_process else nullcontext():
            yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to stop, then close the socket and the file."""
        try:
            await super().serve(sockets or [self._listener])
        finally:
            self._listener.close()
            self.links.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections, and say so."""
        await super().startup(sockets)
        self.ready.set()
        if self._own_process:
            print(f"payment provider ready on {self.url}", flush=True)  # noqa: T201  # the line a starter waits for


@asynccontextmanager
async def provider_beside_placet() -> AsyncIterator[str]:
    """Run the provider in this process, on the port after Placet's, so that its links outlive a restart; yield its URL.

    `placet up` says where Placet is (PLACET_URL) and where its data is (PLACET_DATA).
    """
    placet = urlsplit(os.environ.get("PLACET_URL", ""))
    port = (placet.port or 8080) + 1
    folder = Path(os.environ.get("PLACET_DATA", ".data")) / "payments"
    try:
        server = PaymentServer("127.0.0.1", port, folder)
    except (OSError, OverflowError):
        server = PaymentServer("127.0.0.1", 0, folder)
        log.warning("payment_provider.elsewhere", taken=port, url=server.url, note="its links end with this run")
    task = asyncio.create_task(server.serve())
    await server.ready.wait()
    try:
        yield server.url
    finally:
        server.should_exit = True
        await task


def main(host: str, port: int, data: Path, public_url: str | None = None) -> None:
    """Serve in this process until a signal ends it; print one line with the address once it answers."""
    asyncio.run(PaymentServer(host, port, data, public_url=public_url, own_process=True).serve())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The demo payment provider. No money moves.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=9090, help="port, 0 takes a free one (default: %(default)s)")
    parser.add_argument("--data", type=Path, required=True, help="folder that keeps the links")
    parser.add_argument("--public-url", help="what links begin with, where browsers reach this server")
    return parser.parse_args()


if __name__ == "__main__":
    given = _arguments()
    main(given.host, given.port, given.data, given.public_url)
