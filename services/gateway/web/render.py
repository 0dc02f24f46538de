"""Templates, and who may see them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException

from services.gateway.api.callers import DepsOf
from services.gateway.auth import Caller, NoCaller
from shared.canonical import canonical_text
from shared.card_text import visible

_HERE = Path(__file__).parent
_VENDOR = _HERE / "static" / "vendor"

_TEMPLATES = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def plain(value: Any) -> str:
    """Return an argument's name or value as people read it: a text as it is, all else as JSON, and nothing hidden."""
    return visible(value if isinstance(value, str) else canonical_text(value))


def exact(moment: datetime) -> str:
    """Return a moment to the second, with its zone."""
    return moment.strftime("%Y-%m-%d %H:%M:%S %Z")


_TEMPLATES.filters.update(plain=plain, exact=exact)


def render(
    template: str, status: int = 200, headers: Mapping[str, str] | None = None, /, **values: Any
) -> HTMLResponse:
    """Return a template as an answer."""
    return HTMLResponse(_TEMPLATES.get_template(template).render(values), status, headers)


def set_up_was_run() -> bool:
    """Tell whether the vendored scripts are where the page needs them."""
    return (_VENDOR / "htmx.min.js").is_file()


class SignInNeeded(HTTPException):
    """A page was asked for by nobody we know: the browser goes to the sign-in page."""

    def __init__(self, request: Request) -> None:
        if "hx-request" in request.headers:
            super().__init__(401, headers={"hx-redirect": "/sign-in"})
        else:
            super().__init__(303, headers={"location": "/sign-in"})


async def signed_in(request: Request, deps: DepsOf) -> Caller:
    """Return who is signed in; send everybody else to the sign-in page."""
    try:
        return await deps.authenticator.caller(request)
    except NoCaller as error:
        raise SignInNeeded(request) from error


SignedIn = Annotated[Caller, Depends(signed_in)]
