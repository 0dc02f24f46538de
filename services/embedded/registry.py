"""Settings and builder of a service, found by its name: one of `placet.contracts.topology.SERVICES`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from placet.runtime.service import Runtime, Service
from placet.runtime.settings import Settings


def settings_type(name: str) -> type[Settings]:
    """Return the settings class of a service."""
    settings = f"{name.title().replace('_', '')}Settings"
    found: type[Settings] = getattr(import_module(f"placet.{name}.settings"), settings)
    return found


def build(name: str, settings: Settings, runtime: Runtime) -> Service:
    """Return the service, ready to run."""
    module: Any = import_module(f"placet.{name}.service")
    service: Service = module.build(settings, runtime)
    return service
