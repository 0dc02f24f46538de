"""Signing in with an API key or a one-time link, and out."""

from __future__ import annotations

from typing import Annotated

import structlog
from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from services.gateway.api.callers import DepsOf
from services.gateway.auth import COOKIE, same_site
from services.gateway.deps import Deps
from services.gateway.keys import parse_secret
from services.gateway.sign_in import ADMIN_PERSON, ADMIN_TENANT, LINKS
from services.gateway.store import reading
from services.gateway.store.keys import newest_admin_key
from services.gateway.web.render import render
from shared.errors import Refused

log = structlog.get_logger(__name__)

router = APIRouter(include_in_schema=False)


@router.get("/sign-in")
async def ask() -> HTMLResponse:
    """Ask for an API key."""
    return render("sign_in.html", fault="")


@router.post("/sign-in")
async def sign_in(request: Request, deps: DepsOf, key: Annotated[str, Form(max_length=200)] = "") -> Response:
    """Begin a session with an API key."""
    _refuse_other_sites(request, deps)
    key_id = await _key_id(deps, key.strip())
    if key_id is None:
        log.warning("sign_in.refused")
        return render("sign_in.html", 401, fault="This is no API key that works.")
    return _begin(deps, key_id, RedirectResponse("/", 303))


@router.get("/sign-in/{token}")
async def sign_in_by_link(deps: DepsOf, token: str) -> Response:
    """Begin a session of the installation's administrator with a one-time link."""
    key_id = None
    if LINKS.take(token):
        async with reading(deps.runtime.database) as connection:
            key_id = await newest_admin_key(connection, ADMIN_TENANT, ADMIN_PERSON)
    if key_id is None:
        return render("sign_in.html", 401, fault="This link was used or is too old; sign in with an API key.")
    # No redirect: a strict cookie would not be sent along where the link was clicked on another site.
    return _begin(deps, key_id, render("signed_in.html"))


@router.post("/sign-out")
async def sign_out(request: Request, deps: DepsOf) -> Response:
    """End the session in this browser."""
    _refuse_other_sites(request, deps)
    response = RedirectResponse("/sign-in", 303)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return response


async def _key_id(deps: Deps, key: str) -> str | None:
    secret = parse_secret(key)
    if secret is None or not secret.key_id:
        return None
    return secret.key_id if await deps.authenticator.key_works(secret) else None


def _begin(deps: Deps, key_id: str, response: Response) -> Response:
    settings = deps.settings
    response.set_cookie(
        COOKIE,
        deps.authenticator.sessions.begin(key_id),
        max_age=settings.gateway_session_seconds,
        path="/",
        httponly=True,
        samesite="strict",
        secure=settings.public_url.startswith("https:"),
    )
    return response


def _refuse_other_sites(request: Request, deps: Deps) -> None:
    """Nobody signs a browser in or out from another site."""
    headers = request.headers
    if not same_site(headers.get("origin", ""), headers.get("host", ""), deps.settings.public_url):
        raise Refused("This request does not come from this site.", status=403, kind="foreign-origin")
