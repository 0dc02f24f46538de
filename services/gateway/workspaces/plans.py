"""Plans of commits: what a card shows in place of the arguments, and what leaving entries out makes of these."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import ValidationError

from placet.contracts.canonical import canonical_text, tree_digest
from placet.contracts.errors import Refused
from placet.contracts.messages import CommitArguments
from placet.domain.catalog import Catalog
from placet.gateway.store.read import Row
from placet.gateway.workspaces.store import load_parts, load_staged, load_workspaces
from placet.runtime.sql import Connection
from placet.surfaces.card import critical_arguments
from placet.surfaces.plan import Plan, closure, entries_of, is_commit, plan_of, workspace_of


async def plans_of(connection: Connection, rows: Sequence[Row], tools: Catalog) -> dict[str, Plan]:
    """Return by approval id the plans of those rows of `read.approvals`, of one tenant, that are commits."""
    commits = {row["approval_id"]: row for row in rows if is_commit(row["tool"])}
    if not commits:
        return {}
    tenant = rows[0]["tenant"]
    wanted = {each: workspace_of(row["arguments"]) for each, row in commits.items()}
    workspaces = await load_workspaces(connection, tenant, set(filter(None, wanted.values())))
    # A workspace of another conversation is none of this commit's, whatever its arguments say.
    here = {
        each: workspaces[name]
        for each, name in wanted.items()
        if name in workspaces and workspaces[name]["conversation_id"] == commits[each]["conversation_id"]
    }
    parts = await load_parts(connection, tenant, {row["workspace_id"] for row in here.values()})
    critical = _critical(parts, tools)
    return {
        each: plan_of(
            workspace,
            *parts[workspace["workspace_id"]],
            entries_of(commits[each]["arguments"]),
            critical,
            entries_of((commits[each]["edited"] or {}).get("proposed")),
        )
        for each, workspace in here.items()
    }


#: How far the question about what is staged is: nobody was asked yet, people are asked about all or part, or they were.
Asked = Literal["", "all", "part", "decided"]


async def staged_here(
    connection: Connection, tenant: str, conversation_id: str, tools: Catalog
) -> tuple[Plan, Asked] | None:
    """Return what the agent knows to be staged in a conversation, in order, and how far the question is; else None."""
    staged = await load_staged(connection, tenant, conversation_id)
    workspaces = await load_workspaces(connection, tenant, {row["workspace_id"] for row in staged})
    if not workspaces:
        return None
    ordered = sorted(workspaces.values(), key=lambda row: row["number"])
    parts = await load_parts(connection, tenant, [row["workspace_id"] for row in ordered])
    entries, changes = ([row for each in parts.values() for row in each[at]] for at in (0, 1))
    plan = plan_of(ordered[-1], entries, changes, [row["call_id"] for row in staged], _critical(parts, tools))
    return plan, _asked_of(staged)


async def asked_here(connection: Connection, tenant: str, conversation_id: str) -> Asked:
    """Return how far the question about what is staged in a conversation is."""
    return _asked_of(await load_staged(connection, tenant, conversation_id))


def _asked_of(staged: Sequence[Row]) -> Asked:
    states = [row["approval_state"] or "pending" for row in staged if row["commit_id"] is not None]
    if not states:
        return ""
    if "pending" not in states:
        return "decided"
    return "all" if len(states) == len(staged) else "part"


def leaving_out(plan: Plan, workspace_id: str, wanted: Collection[str]) -> tuple[str, frozenset[str]]:
    """Return a commit's arguments without some entries, canonical JSON, and all that is left out with them.

    Raise Refused: 400 for an entry that the commit does not have, and where nothing would be left.
    """
    known = {each.call_id for each in plan.entries}
    if strange := sorted(set(wanted) - known):
        raise _no_entry(strange)
    gone = closure(plan.entries, wanted)
    kept = [each for each in plan.entries if each.call_id not in gone]
    if not kept:
        raise Refused("Nothing would be left. Deny it instead.", status=400, kind="nothing-left")
    tree = tree_digest([(each.call_id, each.digest) for each in kept])
    made = CommitArguments(workspace_id=workspace_id, tree_digest=tree, entries=[each.call_id for each in kept])
    return canonical_text(made.model_dump()), gone


def check_edit(plan: Plan | None, arguments: str) -> None:
    """Raise Refused (400) where an edit of a commit is anything but leaving entries out, or taking them in again.

    The executor would touch nothing of such a commit, and all that waits would be lost.
    """
    if not arguments:
        detail = "Name at least one entry in `leave_out`, or give `arguments`; to let all of it through, approve it."
        raise Refused("This edit changes nothing.", status=400, kind="invalid-decision", detail=detail)
    try:
        made = CommitArguments.model_validate_json(arguments)
    except ValidationError:
        made = None
    if made is None or plan is None or made.workspace_id != plan.workspace_id:
        detail = "An edit of commit_changes names its own workspace, entries of it, and their tree digest."
        raise Refused("This is no edit of this commit.", status=400, kind="invalid-decision", detail=detail)
    shown = sorted((*plan.entries, *plan.left_out), key=lambda each: each.position)
    if strange := sorted(set(made.entries) - {each.call_id for each in shown}):
        raise _no_entry(strange)
    out = {each.call_id for each in shown} - set(made.entries)
    meant, gone = leaving_out(replace(plan, entries=tuple(shown)), plan.workspace_id, out)
    if torn := sorted(gone - out):
        detail = f"What they touch was left out with another entry, and stands and falls with it: {', '.join(torn)}."
        raise Refused("Some entries cannot stay alone.", status=400, kind="torn-change", detail=detail)
    if canonical_text(made.model_dump()) != meant:
        detail = f"In their order, and with the digest of what is left: {meant}"
        raise Refused("This is not what is left of the commit.", status=400, kind="another-tree", detail=detail)


def _no_entry(strange: Sequence[str]) -> Refused:
    detail = f"Not among its entries: {', '.join(strange)}."
    return Refused("The commit has no such entry.", status=400, kind="no-such-entry", detail=detail)


def _critical(parts: Mapping[str, tuple[Sequence[Row], Sequence[Row]]], tools: Catalog) -> dict[str, list[str]]:
    names = {row["tool"] for entries, _ in parts.values() for row in entries}
    return {name: critical_arguments(tools, name, tools[name].schema_digest) for name in names if name in tools}
