"""Moves what an attempt at a job left staged into the workspace of the job, where its attempt has won.

One transaction with both workspaces locked: all entries are moved behind those that are there, or
none. What another winner has put there meanwhile is found by the same digests by which a commit finds what others
changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placet.contracts.messages import MergedEntry, MergeWorkspace, WorkspaceMerged
from placet.executor.states import WorkspaceEvent, WorkspaceState
from placet.executor.workspace_store import QUERIES, Bounds, end_workspace, lock_live
from placet.runtime.work import Work
from placet.tools import Staging

#: Conflicting keys that are told at most.
KEYS_MAX = 10


async def merge_workspace(message: MergeWorkspace, work: Work, *, bounds: Bounds, packs: Mapping[str, Staging]) -> None:
    """Move an attempt's entries, once however often it is asked, and tell jobs what became of it."""
    place = {"tenant": message.tenant, "conversation_id": message.conversation_id}
    found = await work.run(QUERIES.newest, **place)
    if found and found[0]["state"] == WorkspaceState.MERGED:
        return
    told: dict[str, Any] = {**place, "job_id": message.job_id, "attempt_id": message.attempt_id}
    if not found or found[0]["state"] != WorkspaceState.OPEN or found[0]["overdue"]:
        reason = "What it had left staged is not there any more."
        work.emit(WorkspaceMerged(**told, state="refused", reason=reason))
        return
    source = found[0]
    about = {"job_id": message.job_id, "attempt_id": message.attempt_id}
    into = await lock_live(work, message.tenant, message.into, agent=source["agent"], call_id=None, about=about)
    if problem := _problem(source, into, bounds):
        work.emit(WorkspaceMerged(**told, state="refused", reason=problem))
        return
    pair = {"workspace_id": source["workspace_id"], "into": into["workspace_id"]}
    keys = [row["key"] for row in await work.run(QUERIES.conflicting, **pair)]
    if keys := keys or _clashing(await work.run(QUERIES.keys_of, workspace_ids=list(pair.values())), packs):
        work.emit(WorkspaceMerged(**told, state="conflicted", keys=keys[:KEYS_MAX]))
        return
    moved = sorted(
        await work.run(QUERIES.move_entries, **pair, behind=into["entries"]), key=lambda row: int(row["position"])
    )
    await work.run(QUERIES.move_changes, **pair, behind=into["entries"])
    sizes = await work.run(QUERIES.move_contents, **pair)
    (grown,) = await work.run(
        QUERIES.grow_by,
        workspace_id=into["workspace_id"],
        entries=len(moved),
        bytes=sum(row["size"] for row in sizes),
        pool=source["pool"],
        expires_at=source["expires_at"],
        age_max=bounds.age_max,
    )
    await end_workspace(work, source, WorkspaceEvent.MERGED, about=about)
    names = ("call_id", "digest", "tool", "summary")
    entries = [MergedEntry(**{name: row[name] for name in names}) for row in moved]
    merged = {"workspace_id": into["workspace_id"], "entries": entries, "total": grown["entries"]}
    work.emit(WorkspaceMerged(**told, state="merged", **merged))


def _clashing(rows: Sequence[Mapping[str, Any]], packs: Mapping[str, Staging]) -> list[str]:
    """Return keys that cannot stand together; those of a pack that this executor lacks are left to the commit."""
    keys: dict[str, list[str]] = {}
    for row in rows:
        keys.setdefault(row["pack"], []).append(row["key"])
    return [f"{name}:{key}" for name in sorted(keys.keys() & packs) for key in packs[name].clashes(sorted(keys[name]))]


def _problem(source: Mapping[str, Any], into: Mapping[str, Any], bounds: Bounds) -> str:
    """Return why one workspace does not take the entries of the other, a sentence; empty where it does."""
    if into["state"] != WorkspaceState.OPEN:
        return "The job's workspace is being committed."
    if into["agent"] != source["agent"]:
        return "The job's workspace has changes of another agent."
    if into["pool"] is not None and source["pool"] not in {None, into["pool"]}:
        return f"The job's workspace has changes of the pool {into['pool']!r}, and these are of {source['pool']!r}."
    if into["entries"] + source["entries"] > bounds.entries_max:
        return f"The job's workspace would have more than {bounds.entries_max} entries."
    if into["bytes"] + source["bytes"] > bounds.bytes_max:
        return f"The contents of the job's workspace would have more than {bounds.bytes_max:,} bytes."
    return ""
