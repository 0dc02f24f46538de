"""The API's description: what FastAPI finds, and what holds for every route without being said at each of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import TypeAdapter

from placet.gateway.conversations.item_models import DeltaEvent, FeedItem
from placet.gateway.http.errors import ProblemDocument, described
from placet.gateway.http.strict import StrictRoute
from placet.gateway.jobs.schemas import JobEvent

#: Models that no route takes or returns by itself, or that leave members out: errors, and what event streams send.
_MODELS: dict[str, Any] = {
    "ProblemDocument": ProblemDocument,
    "FeedItem": FeedItem,
    "DeltaEvent": DeltaEvent,
    "JobEvent": JobEvent,
}
#: Methods whose requests may carry a body, whether or not the route reads one.
_WRITING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_REF = "#/components/schemas/{model}"


def describe(app: FastAPI) -> None:
    """Answer GET /openapi.json with the completed document of `app`, drawn and written once: anybody may ask."""

    @cache
    def written() -> bytes:
        return bytes(JSONResponse(_completed(app, app.openapi())).body)

    async def answer(_request: Request) -> Response:
        return Response(written(), media_type="application/json")

    app.add_route("/openapi.json", answer, include_in_schema=False)


def _completed(app: FastAPI, schema: dict[str, Any]) -> dict[str, Any]:
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for name, model in _MODELS.items():
        whole = TypeAdapter(model).json_schema(ref_template=_REF)
        schemas.update(whole.pop("$defs", {}) | {name: whole})
    for model in schemas.values():
        for member in model.get("properties", {}).values():
            _without_default(member)
    for method, operation, strict in _operations(app, schema):
        for parameter in operation.get("parameters", ()):
            _without_empty(parameter["schema"])
        answers = operation["responses"]
        if "application/json" in answers.get("422", {}).get("content", {}):
            # FastAPI's own; ours are 400.
            answers.pop("422")
        reads = "requestBody" in operation
        # A body that nobody asked for has the same bounds.
        bounds = (413, 415) if reads or method in _WRITING else ()
        for status in (*bounds, *((400,) if reads or strict else ())):
            answers.setdefault(str(status), described(status)[status])
        operation["responses"] = dict(sorted(answers.items()))
    return schema


def _without_default(member: dict[str, Any]) -> None:
    """Say a member's default in words: generators take a member with a default for one that is always there."""
    if (default := member.pop("default", None)) not in (None, "", [], {}):
        member["description"] = f"{member.get('description', '')} Default: {json.dumps(default)}.".strip()


def _without_empty(asked: dict[str, Any]) -> None:
    """Take the empty value out of an enumeration: pages send it for any value, and generators find no name for it."""
    if "" in asked.get("enum", ()):
        asked["enum"].remove("")
        asked.pop("default", None)


def _operations(app: FastAPI, schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Yield each operation with its method, and whether its route refuses what it does not know."""
    for route in app.routes:
        path = schema["paths"].get(getattr(route, "path", ""), {})
        for method in getattr(route, "methods", None) or ():
            if operation := path.get(method.lower()):
                yield method, operation, isinstance(route, StrictRoute)
