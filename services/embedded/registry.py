"""Which services there are, found by name so that starting one imports only that one."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from placet.contracts.errors import PlacetError
from placet.runtime.database import SERVICES
from placet.runtime.service import Runtime, Service
from placet.runtime.settings import Settings


class UnknownService(PlacetError):
    """There is no service of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no service is called {name!r}; there are {', '.join(SERVICES)}")


def settings_type(name: str) -> type[Settings]:
    """Return the settings class of a service."""
    if name not in SERVICES:
        raise UnknownService(name)
    settings = f"{name.title().replace('_', '')}Settings"
    found: type[Settings] = getattr(import_module(f"placet.{name}.settings"), settings)
    return found


def build(name: str, settings: Settings, runtime: Runtime) -> Service:
    """Return the service, ready to run."""
    module: Any = import_module(f"placet.{name}.service")
    service: Service = module.build(settings, runtime)
    return service
