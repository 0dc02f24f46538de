"""Which services there are, found by name so that starting one imports only that one."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from shared.database import SERVICES
from shared.errors import PlacetError
from shared.service import Runtime, Service
from shared.settings import Settings


class UnknownService(PlacetError):
    """There is no service of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no service is called {name!r}; there are {', '.join(SERVICES)}")


def settings_type(name: str) -> type[Settings]:
    """Return the settings class of a service."""
    if name not in SERVICES:
        raise UnknownService(name)
    found: type[Settings] = getattr(import_module(f"services.{name}.settings"), f"{name.title()}Settings")
    return found


def build(name: str, settings: Settings, runtime: Runtime) -> Service:
    """Return the service, ready to run."""
    module: Any = import_module(f"services.{name}.service")
    service: Service = module.build(settings, runtime)
    return service
