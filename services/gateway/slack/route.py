"""`POST /slack/interactions` and `/slack/events`: the signature over the raw body first, then anything else."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qs

import structlog
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from slack_bolt.adapter.starlette.async_handler import to_starlette_response
from slack_bolt.async_app import AsyncBoltRequest
from slack_sdk.signature import SignatureVerifier

from placet.gateway.http.errors import problem
from placet.gateway.http.protocol import sender_is_known
from placet.gateway.http.routing import add_routes
from placet.gateway.slack.door import SlackDoor
from placet.gateway.slack.replies import read_reply
from placet.surfaces.slack import EVENTS_PATH, INTERACTIONS_PATH

log = structlog.get_logger(__name__)

#: Ten digits for the next 260 years; anything else is no time of Slack's.
_TIMESTAMP = re.compile(r"[0-9]{10}")
_SIGNATURE = re.compile(r"v0=[0-9a-f]{64}")


def add_slack(app: FastAPI, door: SlackDoor) -> None:
    """Let `app` take Slack's requests, where there is a secret that proves them."""
    secret = door.slack.signing_secret.get_secret_value()
    if secret:
        add_routes(app, _router(door, SignatureVerifier(secret)))


def _router(door: SlackDoor, verifier: SignatureVerifier) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.post(INTERACTIONS_PATH)
    async def interactions(request: Request) -> Response:
        body = await _signed(verifier, request)
        if body is None:
            return _unsigned()
        if not _has_payload(body):
            return problem(400, "This is not a Slack interaction.", kind="invalid-request")
        return await _dispatched(door, request, body)

    @router.post(EVENTS_PATH)
    async def events(request: Request) -> Response:
        body = await _signed(verifier, request)
        if body is None:
            return _unsigned()
        event = _event(body)
        if event is None:
            return problem(400, "This is not a Slack interaction.", kind="invalid-request")
        if event["type"] == "url_verification":
            return JSONResponse({"challenge": str(event.get("challenge", ""))})
        if read_reply(event) is None:
            # Every message of every channel that the app is in comes here.
            return Response()
        return await _dispatched(door, request, body)

    return router


def _unsigned() -> Response:
    log.warning("slack.unsigned")
    return problem(401, "Slack did not sign this request, or too long ago.", kind="unsigned")


async def _dispatched(door: SlackDoor, request: Request, body: bytes) -> Response:
    asked = AsyncBoltRequest(body=body.decode(), headers=dict(request.headers))
    return to_starlette_response(await door.app.async_dispatch(asked))


def _event(body: bytes) -> dict[str, Any] | None:
    """Return the event that a body is; None where it is none."""
    try:
        value: Any = json.loads(body.decode())
    except (ValueError, RecursionError):
        return None
    known = isinstance(value, dict) and value.get("type") in {"url_verification", "event_callback"}
    return value if known else None


async def _signed(verifier: SignatureVerifier, request: Request) -> bytes | None:
    """Return the body where Slack signed it; it is not read where nobody says so."""
    timestamp = request.headers.get("x-slack-request-timestamp", "")
    signature = request.headers.get("x-slack-signature", "")
    if not _TIMESTAMP.fullmatch(timestamp) or not _SIGNATURE.fullmatch(signature):
        return None
    body = await request.body()
    try:
        signed = verifier.is_valid(body, timestamp, signature)
    except UnicodeDecodeError:
        return None
    if not signed:
        return None
    sender_is_known(request.scope)
    return body


def _has_payload(body: bytes) -> bool:
    """Tell whether the body is a form whose only `payload` is a JSON object with a user; Slack's check has none."""
    fields = parse_qs(body.decode(), keep_blank_values=True)
    if fields.get("ssl_check") == ["1"]:
        return True
    try:
        (payload,) = fields["payload"]
        value: Any = json.loads(payload)
    except (KeyError, ValueError, RecursionError):
        return False
    return isinstance(value, dict) and isinstance(value.get("user"), dict)
