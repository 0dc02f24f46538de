"""Which routes of the API take no parameter that they do not have."""

from __future__ import annotations

from fastapi.routing import APIRoute

from placet.gateway.app import _ROUTERS
from placet.gateway.approvals import bounce_routes as mail
from placet.gateway.http import asyncapi, health
from placet.gateway.http.strict import StrictRoute

#: Whose callers are no clients of ours, and add what they like to an address: probes, scrapers, mail services.
_CALLED_BY_OTHERS = (health.router, asyncapi.router, mail.router)


def test_routes_of_clients_are_all_strict() -> None:
    """Every route of the API that our own clients call refuses parameters that it does not have."""
    routes = [route for router in _ROUTERS if router not in _CALLED_BY_OTHERS for route in router.routes]
    assert len(routes) > 30
    assert [route for route in routes if not isinstance(route, StrictRoute)] == []


def test_routes_of_others_take_any_parameter() -> None:
    """A probe, a scraper and a mail service may add what they like."""
    routes = [route for router in _CALLED_BY_OTHERS for route in router.routes]
    assert routes
    assert not any(isinstance(route, StrictRoute) for route in routes)
    assert all(isinstance(route, APIRoute) for route in routes)
