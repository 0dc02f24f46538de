"""What spans of requests tell: the route and the ids in it, and nothing that opens a door."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from placet.gateway.http.middleware import Answers
from placet.runtime.tracing import TRACING


@pytest.mark.parametrize(
    ("path", "params", "told"),
    [
        ("/v1/approvals/a1", {"approval_id": "a1"}, [{"placet.approval_id": "a1"}]),
        ("/l/opens-a-door", {"token": "opens-a-door"}, [{}]),
        ("/admin/grants", {"name": "grants"}, [{}]),
        ("/static/app.js", {"path": "/app.js"}, []),
        ("/healthz", {}, []),
    ],
)
async def test_a_span_tells_ids_of_its_path_alone(
    path: str, params: dict[str, str], told: list[dict[str, str]]
) -> None:
    """A mailed link's secret is in its path, a page of administrators has a name in it; files and probes have none."""
    exporter = InMemorySpanExporter()
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "headers": []}

    async def app(*_: Any) -> None:
        scope["path_params"] = params

    async def never(*_: Any) -> Any:
        raise AssertionError

    TRACING.export("gateway", exporter, at_once=True)
    try:
        await Answers(app, {})(scope, never, never)
    finally:
        TRACING.stop()
    assert told == [dict(span.attributes or {}) for span in exporter.get_finished_spans()]
