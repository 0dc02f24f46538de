"""The pages: a chat with the approvals that wait at `/`, and the approvers' inbox at `/inbox`.

Server-rendered; its scripts are its own files and the vendored htmx. Nothing inline, nothing from elsewhere, and every
text that came from outside is a text node.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from services.gateway.web import approval, cards, inbox, links, page, sign_in

_STATIC = Path(__file__).parent / "static"


def add_pages(app: FastAPI) -> None:
    """Add the pages and their files to the API's app."""
    app.include_router(sign_in.router)
    app.include_router(page.router)
    app.include_router(cards.router)
    app.include_router(links.router)
    app.include_router(inbox.router)
    app.include_router(approval.router)
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
