"""How tables and database are compared: what is ours."""

from __future__ import annotations

from typing import Any


def ours(_item: Any, name: str | None, kind: str, _reflected: bool, _compared: Any) -> bool:  # noqa: FBT001 - alembic's
    """Tell whether a table belongs to Placet; alembic's own does not."""
    return not (kind == "table" and name == "alembic_version")


#: For alembic's `configure` and for a test's comparison alike.
OPTIONS: dict[str, Any] = {
    "include_schemas": True,
    "include_object": ours,
    "version_table_schema": "public",
}
