"""Throws away what waits in workspaces: all of it, or what nobody wants and with it what stands on that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placet.contracts.messages import DiscardWorkspace, EntriesDiscarded
from placet.contracts.transitions import ExpectedRace
from placet.executor import commit_store, plans, workspace_store
from placet.executor.states import LIVE, WORKSPACE_MACHINE, WorkspaceEvent, WorkspaceState
from placet.runtime.work import Work


async def discard_workspace(message: DiscardWorkspace, work: Work) -> None:
    """Throw away what waits; what a commit has taken goes on."""
    workspace = await workspace_store.lock(work, message.workspace_id, message.tenant)
    if workspace is None or workspace["conversation_id"] != message.conversation_id:
        return
    if message.entries and not await _discard_named(message, work, workspace):
        return
    try:
        WORKSPACE_MACHINE.next_state(WorkspaceState(workspace["state"]), WorkspaceEvent.DISCARDED)
    except ExpectedRace:
        return
    await workspace_store.end_workspace(work, workspace, WorkspaceEvent.DISCARDED, by=message.by, reason=message.reason)


async def _discard_named(message: DiscardWorkspace, work: Work, workspace: Mapping[str, Any]) -> bool:
    """Discard the entries that are named and what stands on them; return whether nothing else waits.

    What was staged while the message was under way nobody could name: the agent hears that it went too.
    """
    key = message.workspace_id
    if workspace["state"] not in LIVE:
        return False
    entries = await commit_store.entries_of(work, key)
    wanted = set(message.entries)
    named = {each.call_id for each in entries if each.call_id in wanted and each.state == "waiting"}
    fallen = [each.call_id for each in plans.fallen(entries, named)]
    await workspace_store.discard(work, key, {**dict.fromkeys(named, ""), **dict.fromkeys(fallen, plans.FELL_TEXT)})
    if fallen:
        place = {"tenant": message.tenant, "conversation_id": message.conversation_id}
        work.emit(EntriesDiscarded(**place, workspace_id=key, call_ids=fallen))
    return bool(named) and not await workspace_store.any_waiting(work, key)
