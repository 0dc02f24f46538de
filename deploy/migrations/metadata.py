"""Every table of every service in one place: what the migrations must amount to."""

from __future__ import annotations

from importlib import import_module

from placet.contracts.topology import SERVICES
from placet.runtime.database import metadata, service_tables

#: Modules that define tables; importing them registers the tables.
MODULES = tuple(f"placet.{service}.tables" for service in SERVICES)

for _service in SERVICES:
    service_tables(_service)
for _module in MODULES:
    import_module(_module)

__all__ = ["metadata"]
