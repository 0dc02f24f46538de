"""The AsyncAPI document: how to speak to Placet over RabbitMQ."""

from __future__ import annotations

import json
from functools import cache

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from placet.contracts.asyncapi import document

router = APIRouter(tags=["documents"])


@router.get("/asyncapi.json", response_class=JSONResponse)
async def asyncapi() -> Response:
    """Return every message, exchange and queue as an AsyncAPI 3.0 document."""
    return Response(_document(), media_type="application/json")


@cache
def _document() -> bytes:
    return json.dumps(document(), ensure_ascii=False).encode()
