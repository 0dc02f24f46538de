"""Health of a service that has no HTTP of its own."""

from __future__ import annotations

import httpx

from shared.health import health_app, serving
from tests.support.system import free_port


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
