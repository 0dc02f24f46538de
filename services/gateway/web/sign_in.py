"""Signing in with an API key, a one-time link or at a provider, and out."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import structlog
from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from placet.contracts.errors import Refused
from placet.domain.approvers import identity_of
from placet.gateway.http.callers import DepsOf
from placet.gateway.http.deps import Deps
from placet.gateway.http.errors import wished
from placet.gateway.identity.auth import COOKIE, cookie_name, refuse_other_sites
from placet.gateway.identity.keys import parse_secret
from placet.gateway.identity.sessions import Holder
from placet.gateway.identity.sign_in import ADMIN_PERSON, ADMIN_TENANT, ATTEMPT_SECONDS, LINKS, person_of
from placet.gateway.identity.store.keys import find_keys, newest_admin_key
from placet.gateway.store import reading
from placet.gateway.web.inbox import back_of
from placet.gateway.web.render import PageRoute, Posted, SignedIn, error_page, field, render
from placet.surfaces.texts import text

log = structlog.get_logger(__name__)

router = APIRouter(include_in_schema=False, route_class=PageRoute)

#: Name of the cookie that a browser brings back from the provider: who could set another's would sign it in as theirs.
ATTEMPT = "placet_login"
#: Fields of the form of somebody who is not known yet, each of which takes its time: a key, and where to go.
FIELDS_MAX = 8


@router.get("/sign-in")
async def ask(request: Request, deps: DepsOf, back: str = "/", unsent: str = "") -> HTMLResponse:
    """Ask who is there; with `unsent` a form of theirs came after the end of their session."""
    language = wished(request)
    lost = text(language, "Nothing was sent, because you were signed out. Sign in and do it again.")
    return _door(request, deps, back, lost if unsent else "")


@router.post("/sign-in")
async def sign_in(request: Request, deps: DepsOf) -> Response:
    """Begin a session with an API key."""
    # Nobody signs a browser in from another site.
    refuse_other_sites(request, deps.settings.public_url)
    form = await request.form(max_files=0, max_fields=FIELDS_MAX)
    back = field(form, "back") or "/"
    secret = parse_secret(field(form, "key").strip())
    if secret is None or not secret.key_id or not await deps.authenticator.key_works(secret):
        log.warning("sign_in.refused")
        return _door(request, deps, back, text(wished(request), "That API key is not valid."))
    holder = replace(await _holder(deps, secret.key_id, "key"), secret_hash=secret.secret_hash)
    return await _begin(request, deps, holder, back)


@router.get("/sign-in/oidc")
async def go_to_provider(deps: DepsOf, back: str = "/") -> Response:
    """Send the browser to the provider."""
    if deps.provider is None:
        raise Refused("There is no sign-in service here.", status=404, kind="not-found")
    attempt = await deps.provider.begin(_place(back))
    response = RedirectResponse(attempt.url, 303)
    # Lax, because the provider's answer comes from another site.
    _set(response, deps, ATTEMPT, attempt.cookie, ATTEMPT_SECONDS)
    return response


@router.get("/sign-in/oidc/callback")
async def come_from_provider(request: Request, deps: DepsOf) -> Response:
    """Begin the session of whom the provider names, if the directory knows them."""
    if deps.provider is None:
        raise Refused("There is no sign-in service here.", status=404, kind="not-found")
    attempt = request.cookies.get(cookie_name(deps.settings.public_url, ATTEMPT), "")
    claims, back = await deps.provider.finish(attempt, request.query_params)
    person = person_of(deps.directory(), claims)
    if person is None:
        log.warning("login.unmapped", issuer=deps.provider.issuer, subject=str(claims["sub"])[:100])
        told = (
            "You signed in, but no one in the directory has that account. Ask the person who maintains the directory."
        )
        language = wished(request)
        title = text(language, "Your account is not known here")
        response: Response = error_page(language, 403, title, text(language, told))
    else:
        holder = Holder(deps.settings.gateway_oidc_tenant, identity_of(person.id), "oidc")
        response = await _begin(request, deps, holder, back)
    _set(response, deps, ATTEMPT, "", 0)
    return response


@router.get("/sign-in/{token}")
async def sign_in_by_link(request: Request, deps: DepsOf, token: str) -> Response:
    """Begin a session of the installation's administrator with a one-time link."""
    key_id = None
    if LINKS.take(token):
        async with reading(deps.runtime.database) as connection:
            key_id = await newest_admin_key(connection, ADMIN_TENANT, ADMIN_PERSON)
    if key_id is None:
        fault = text(wished(request), "This link was used or has expired; sign in with an API key.")
        return _door(request, deps, "/", fault)
    return await _begin(request, deps, await _holder(deps, key_id, "link"), "/")


@router.post("/sign-out")
async def sign_out(deps: DepsOf, caller: SignedIn, _: Posted) -> Response:
    """End the session, for this browser and for whoever has its cookie."""
    if caller.session_id is not None:
        await deps.authenticator.sessions.end(caller.tenant, caller.session_id, caller.person)
    response = RedirectResponse("/sign-in", 303)
    _set(response, deps, COOKIE, "", 0)
    return response


def _door(request: Request, deps: Deps, back: str, fault: str = "") -> HTMLResponse:
    status, has_provider = 401 if fault else 200, deps.provider is not None
    language = wished(request)
    return render("sign_in.html", status, language=language, fault=fault, provider=has_provider, back=_place(back))


async def _holder(deps: Deps, key_id: str, method: Literal["key", "link"]) -> Holder:
    async with reading(deps.runtime.database) as connection:
        key = (await find_keys(connection, [key_id]))[key_id]
    return Holder(key.tenant, identity_of(key.person), method, key_id)


async def _begin(request: Request, deps: Deps, holder: Holder, back: str) -> Response:
    before = request.cookies.get(cookie_name(deps.settings.public_url), "")
    cookie = await deps.authenticator.sessions.begin(holder, before)
    response = RedirectResponse(_place(back), 303)
    _set(response, deps, COOKIE, cookie, deps.settings.gateway_session_seconds)
    return response


def _set(response: Response, deps: Deps, cookie: str, value: str, seconds: int) -> None:
    """Give a browser a cookie, or take it away in 0 seconds: a prefixed name is only taken with `Secure` and `/`."""
    name = cookie_name(deps.settings.public_url, cookie)
    response.set_cookie(name, value, max_age=seconds, path="/", httponly=True, samesite="lax", secure=name != cookie)


#: Pages besides the chat and the inbox that somebody may be led back to.
_PAGES = ("/operator", "/admin", "/jobs", "/stops", "/receipts")


def _place(back: str) -> str:
    """Return where somebody goes after signing in: the page that they asked for; the chat where it is none of ours."""
    if back.startswith("/inbox"):
        return back_of(back)
    is_ours = back.startswith("/?") or any(back == page or back.startswith((f"{page}/", f"{page}?")) for page in _PAGES)
    return back if is_ours and "\\" not in back and back.isprintable() else "/"
