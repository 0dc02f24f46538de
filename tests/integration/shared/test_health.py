"""Health of a service that has no HTTP of its own."""

from __future__ import annotations

import socket

import httpx
import pytest

from placet.runtime.health import CannotListen, health_app, serving
from tests.support.ports import free_port


async def test_probes_may_ask_without_a_body() -> None:
    """HEAD answers as GET does, without the words."""

    async def ready() -> bool:
        return False

    port = free_port()
    async with (
        serving(health_app(ready), host="127.0.0.1", port=port),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as probe,
    ):
        answers = [await probe.head(path) for path in ("/healthz", "/readyz")]
    assert [(200, b""), (503, b"")] == [(each.status_code, each.content) for each in answers]


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.1", "no-such-host.invalid"])
async def test_an_address_that_cannot_be_listened_on_is_told(host: str) -> None:
    """It is taken, or another machine's, or nobody's: the caller hears why, and the process goes on."""

    async def ready() -> bool:
        return True

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=rf"cannot listen on {host}:{port}: .+"):
            async with serving(health_app(ready), host=host, port=port):
                pass
