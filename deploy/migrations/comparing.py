"""How tables and database are compared: what is ours, and which types are the same."""

from __future__ import annotations

from typing import Any, Literal

import sqlalchemy as sa
from sqlmodel.sql.sqltypes import AutoString


def ours(_item: Any, name: str | None, kind: str, _reflected: bool, _compared: Any) -> bool:  # noqa: FBT001 - alembic's
    """Tell whether a table belongs to Placet; alembic's own does not."""
    return not (kind == "table" and name == "alembic_version")


def render(kind: str, item: Any, _context: Any) -> str | Literal[False]:
    """Write SQLModel's string type as what it is in PostgreSQL."""
    return "sa.Text()" if kind == "type" and isinstance(item, AutoString) else False


def types_differ(_context: Any, _column: Any, _model: Any, found: Any, wanted: Any) -> bool | None:
    """Take SQLModel's string type for text; leave every other type to alembic."""
    return False if isinstance(wanted, AutoString) and isinstance(found, sa.Text) else None


#: For alembic's `configure` and for a test's comparison alike.
OPTIONS: dict[str, Any] = {
    "include_schemas": True,
    "include_object": ours,
    "render_item": render,
    "compare_type": types_differ,
    "version_table_schema": "public",
}
