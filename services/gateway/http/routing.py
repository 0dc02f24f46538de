"""How routers come into the app."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI


def add_routes(app: FastAPI, *routers: APIRouter) -> None:
    """Add the routes of routers to the app's own: each router that is included is asked twice for its route."""
    for router in routers:
        app.router.routes += router.routes
