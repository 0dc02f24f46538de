"""What commits would do, read from the executor's views when their cards are drawn first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from placet.contracts.messages import ApprovalOpened
from placet.domain.catalog import Catalog
from placet.runtime.queries import load_queries
from placet.runtime.work import Work
from placet.surfaces.card import critical_arguments
from placet.surfaces.plan import Plan, entries_of, is_commit, plan_of, workspace_of

QUERIES = load_queries(__file__, "workspaces.sql")


async def load_plans(work: Work, opened: Sequence[ApprovalOpened], tools: Catalog) -> Mapping[str, Plan]:
    """Return by approval id the plans of those that are commits; no statement where none is."""
    commits = [each for each in opened if is_commit(each.call.tool)]
    if not commits:
        return {}
    wanted = {each.approval_id: workspace_of(each.call.shown_arguments) for each in commits}
    given = {"tenants": sorted({each.tenant for each in commits}), "workspace_ids": sorted(set(wanted.values()))}
    connection = work.connection
    workspaces = {row["workspace_id"]: dict(row) for row in await connection.run(QUERIES.load_workspaces, **given)}
    entries = _by_workspace(await connection.run(QUERIES.list_entries, **given))
    changes = _by_workspace(await connection.run(QUERIES.list_changes, **given))
    names = {row["tool"] for rows in entries.values() for row in rows}
    critical = {name: critical_arguments(tools, name, tools[name].schema_digest) for name in names if name in tools}
    found = {}
    for each in commits:
        workspace = workspaces.get(wanted[each.approval_id])
        # One of another conversation is none of this commit's, whatever its arguments say.
        if workspace is None or (workspace["tenant"], workspace["conversation_id"]) != (
            each.tenant,
            each.call.conversation_id,
        ):
            continue
        place = workspace["workspace_id"]
        proposed = entries_of(each.call.shown_arguments)
        rows = entries.get(place, ())
        plan = plan_of(workspace, rows, changes.get(place, ()), proposed, critical)
        found[each.approval_id] = replace(plan, restored=_is_from_before(rows, proposed, work.restored_at))
    return found


def _is_from_before(entries: Sequence[Mapping[str, Any]], proposed: Collection[str], restored: datetime | None) -> bool:
    """Tell whether one of the proposed entries was staged before the house was restored."""
    return restored is not None and any(row["staged_at"] < restored for row in entries if row["call_id"] in proposed)


def _by_workspace(rows: Sequence[Any]) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["workspace_id"], []).append(dict(row))
    return found
