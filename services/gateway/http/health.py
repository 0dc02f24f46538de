"""Liveness and readiness, on the same port as the API; metrics too where the settings say so."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from placet.contracts.errors import Refused
from placet.gateway.http.callers import DepsOf
from placet.gateway.http.errors import described, problem

router = APIRouter(tags=["health"])


@router.head("/healthz", response_class=PlainTextResponse, include_in_schema=False)
@router.get("/healthz", response_class=PlainTextResponse)
async def live() -> str:
    """Tell that the process answers."""
    return "ok\n"


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", response_class=PlainTextResponse, responses=described(503))
async def ready(deps: DepsOf) -> Response:
    """Tell whether consumers run and database and broker answer."""
    if await deps.ready():
        return PlainTextResponse("ready\n")
    return problem(503, "Not ready yet.", kind="unavailable", headers={"retry-after": "1"})


@router.head("/metrics", include_in_schema=False)
@router.get("/metrics", response_class=PlainTextResponse, responses=described(404))
async def metrics(deps: DepsOf) -> Response:
    """Return the process' metrics in Prometheus' text form, where the settings let this port tell them."""
    if not deps.settings.gateway_metrics:
        raise Refused("Metrics are not served here.", status=404, kind="not-found")
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
