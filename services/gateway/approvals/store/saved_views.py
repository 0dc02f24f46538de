"""Lists of the inbox that people keep, each under a name of its own."""

from __future__ import annotations

from placet.runtime.queries import load_queries
from placet.runtime.sql import Connection

#: Views that one person keeps.
VIEWS_MAX = 20
#: Characters of a name.
NAME_MAX = 60

QUERIES = load_queries(__file__, "saved_views.sql")


async def list_views(connection: Connection, tenant: str, person: str) -> dict[str, str]:
    """Return the views that a person keeps, their addresses in the inbox by their names, in the order of these."""
    return dict(await connection.run(QUERIES.list_views, tenant=tenant, person=person))


async def save_view(connection: Connection, tenant: str, person: str, name: str, address: str) -> str:
    """Keep a view; return the address that its name has by now, or nothing where a person has VIEWS_MAX views."""
    values = {"tenant": tenant, "person": person, "name": name, "address": address, "most": VIEWS_MAX}
    return next((row["address"] for row in await connection.run(QUERIES.save_view, **values)), "")


async def remove_view(connection: Connection, tenant: str, person: str, name: str) -> None:
    """Forget a view; one that is not there is forgotten already."""
    await connection.run(QUERIES.remove_view, tenant=tenant, person=person, name=name)
