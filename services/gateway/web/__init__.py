"""The pages: a chat with what waits at `/`, the approvers' inbox at `/inbox`, the operators' at `/operator`.

Server-rendered; its scripts are its own files and the vendored htmx. Nothing inline, nothing from elsewhere, and every
text that came from outside is a text node.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from placet.gateway.http.routing import add_routes
from placet.gateway.web import (
    administration,
    approval,
    cards,
    comments,
    inbox,
    insights,
    jobs,
    links,
    operator,
    page,
    plans,
    receipts,
    sign_in,
    staged,
    stops,
)
from placet.gateway.web.render import answer_browsers

_STATIC = Path(__file__).parent / "static"


def add_pages(app: FastAPI) -> None:
    """Add the pages and their files to the API's app."""
    chat = (sign_in, page, plans, staged, cards, comments, links)
    pages = (*chat, inbox, approval, operator, jobs, stops, receipts, insights, administration)
    add_routes(app, page.page_router, comments.page_router, *(each.router for each in pages))
    answer_browsers(app)
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
