"""Lists of the inbox that people keep, each under a name of its own."""

from __future__ import annotations

from dataclasses import dataclass

from placet.runtime.queries import load_queries
from placet.runtime.sql import Connection

#: Views that one person keeps.
VIEWS_MAX = 20
#: Characters of a name.
NAME_MAX = 60

QUERIES = load_queries(__file__, "saved_views.sql")


@dataclass(frozen=True, slots=True)
class SavedView:
    """One list: its name, and its address in the inbox."""

    name: str
    address: str


async def list_views(connection: Connection, tenant: str, person: str) -> tuple[SavedView, ...]:
    """Return the views that a person keeps, by name."""
    rows = await connection.run(QUERIES.list_views, tenant=tenant, person=person)
    return tuple(SavedView(row["name"], row["address"]) for row in rows)


async def save_view(connection: Connection, tenant: str, person: str, view: SavedView) -> str:
    """Keep a view; return the address that its name has by now, or nothing where a person has VIEWS_MAX views."""
    values = {"tenant": tenant, "person": person, "name": view.name, "address": view.address, "most": VIEWS_MAX}
    return next((row["address"] for row in await connection.run(QUERIES.save_view, **values)), "")


async def remove_view(connection: Connection, tenant: str, person: str, name: str) -> None:
    """Forget a view; one that is not there is forgotten already."""
    await connection.run(QUERIES.remove_view, tenant=tenant, person=person, name=name)
