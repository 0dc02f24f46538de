"""Every table of every service in one place: what the migrations must amount to, and how a database is compared."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from placet.contracts.topology import SERVICES
from placet.runtime.database import metadata, service_tables

#: Modules that define tables; importing them registers the tables.
MODULES = tuple(f"placet.{service}.tables" for service in SERVICES)

for _service in SERVICES:
    service_tables(_service)
for _module in MODULES:
    import_module(_module)


def ours(_item: Any, name: str | None, kind: str, _reflected: bool, _compared: Any) -> bool:  # noqa: FBT001 - alembic's
    """Tell whether a table belongs to Placet; alembic's own does not."""
    return not (kind == "table" and name == "alembic_version")


#: For alembic's `configure` and for a test's comparison alike.
OPTIONS: dict[str, Any] = {
    "include_schemas": True,
    "include_object": ours,
    "version_table_schema": "public",
}

__all__ = ["OPTIONS", "metadata"]
