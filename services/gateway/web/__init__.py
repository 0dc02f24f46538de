"""The pages: a chat with what waits at `/`, the approvers' inbox at `/inbox`, the operators' at `/operator`.

Server-rendered; its scripts are its own files and the vendored htmx. Nothing inline, nothing from elsewhere, and every
text that came from outside is a text node.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from services.gateway.web import approval, cards, inbox, links, operator, page, sign_in, writing

_STATIC = Path(__file__).parent / "static"


def add_pages(app: FastAPI) -> None:
    """Add the pages and their files to the API's app."""
    app.include_router(sign_in.router)
    app.include_router(page.router)
    app.include_router(writing.router)
    app.include_router(cards.router)
    app.include_router(links.router)
    app.include_router(inbox.router)
    app.include_router(approval.router)
    app.include_router(operator.router)
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
