"""What the gateway reads of workspaces: the executor's views, without the contents of anything."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from placet.contracts.messages import COMMIT_TOOL
from placet.gateway.store.read import Row
from placet.runtime.queries import load_queries
from placet.runtime.sql import Connection

QUERIES = load_queries(__file__, "queries.sql")


async def newest_workspace(connection: Connection, tenant: str, conversation_id: str) -> Row | None:
    """Return the newest workspace of a conversation; None where nothing was ever staged."""
    found = await connection.run(QUERIES.newest_workspace, tenant=tenant, conversation_id=conversation_id)
    return dict(found[0]) if found else None


async def load_staged(connection: Connection, tenant: str, conversation_id: str) -> Sequence[Row]:
    """Return the entries that wait in a conversation as the agent knows them, in order, with the commit under way."""
    found = await connection.run(QUERIES.load_staged, tenant=tenant, conversation_id=conversation_id)
    return [dict(row) for row in found]


async def is_proposed(connection: Connection, tenant: str, conversation_id: str) -> bool:
    """Return whether people are asked about what is staged in a conversation, or about a part of it."""
    where = {"tenant": tenant, "conversation_id": conversation_id, "commit_tool": COMMIT_TOOL}
    (found,) = await connection.run(QUERIES.is_proposed, **where)
    return bool(found["proposed"])


async def load_entry(connection: Connection, tenant: str, call_id: str) -> Row | None:
    """Return what became of a staged call, as {state, error}; None of any other call."""
    found = await connection.run(QUERIES.load_entry, tenant=tenant, call_id=call_id)
    return dict(found[0]) if found else None


async def load_entry_arguments(connection: Connection, tenant: str, conversation_id: str, call_id: str) -> str | None:
    """Return the arguments of a staged call of a conversation, as people may see them; None where there is none."""
    given = {"tenant": tenant, "conversation_id": conversation_id, "call_id": call_id}
    found = await connection.run(QUERIES.load_entry_arguments, **given)
    return found[0]["shown_arguments"] if found else None


async def load_workspaces(connection: Connection, tenant: str, workspace_ids: Collection[str]) -> dict[str, Row]:
    """Return workspaces by their ids."""
    if not workspace_ids:
        return {}
    found = await connection.run(QUERIES.load_workspaces, tenant=tenant, workspace_ids=list(workspace_ids))
    return {row["workspace_id"]: dict(row) for row in found}


async def load_parts(
    connection: Connection, tenant: str, workspace_ids: Collection[str]
) -> Mapping[str, tuple[Sequence[Row], Sequence[Row]]]:
    """Return by workspace the entries and what they change, each in order."""
    if not workspace_ids:
        return {}
    given: dict[str, Any] = {"tenant": tenant, "workspace_ids": list(workspace_ids)}
    entries = [dict(row) for row in await connection.run(QUERIES.list_entries, **given)]
    changes = [dict(row) for row in await connection.run(QUERIES.list_changes, **given)]
    return {
        each: (
            [row for row in entries if row["workspace_id"] == each],
            [row for row in changes if row["workspace_id"] == each],
        )
        for each in workspace_ids
    }


async def load_diffs(connection: Connection, tenant: str, conversation_id: str, call_id: str) -> Sequence[Row]:
    """Return what one entry of a conversation changes, with the diffs, in order."""
    given = {"tenant": tenant, "conversation_id": conversation_id, "call_id": call_id}
    return [dict(row) for row in await connection.run(QUERIES.load_diffs, **given)]
