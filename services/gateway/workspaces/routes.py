"""Workspaces over HTTP: what is staged in a conversation, its diffs, asking for the decision, throwing it away."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, BeforeValidator, Field

from placet.contracts.errors import Refused
from placet.contracts.messages import DiscardChanges, ProposeChanges
from placet.contracts.messages.approvals import REASON_MAX
from placet.gateway.conversations.access import check_for, check_writable, writing
from placet.gateway.conversations.items import arguments_value
from placet.gateway.conversations.store import note_words
from placet.gateway.http.callers import CallerOf, ConversationId, DepsOf, PathId
from placet.gateway.http.deps import Deps
from placet.gateway.http.errors import described
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.store import reading
from placet.gateway.store.read import Row
from placet.gateway.texts import Body, Text
from placet.gateway.workspaces.plans import asked_here
from placet.gateway.workspaces.store import is_proposed, load_diffs, load_parts, newest_workspace
from placet.surfaces.plan import plan_of

router = APIRouter(prefix="/v1/conversations", tags=["workspaces"], route_class=StrictRoute)

#: States of a workspace in which something may still be decided.
_LIVE = frozenset({"open", "committing"})


Mode = Annotated[str, BeforeValidator(lambda mode: f"{mode:o}" if isinstance(mode, int) else mode)]


class StagedChangeOut(BaseModel):
    """What an entry makes of one key, such as a file."""

    pack: str
    key: str
    kind: Literal["create", "change", "delete"]
    base_digest: str | None = Field(description="SHA-256 of what it was made from; null: nothing was there.")
    after_digest: str | None
    base_size: int | None = Field(description="In bytes.")
    after_size: int | None
    base_mode: Mode | None = Field(description="Permissions of a file in octal, such as 644; null: none are known.")
    after_mode: Mode | None
    summary: str = Field(description="The change in a line, as its tool pack says it.")
    binary: bool = Field(description="True: no diff can show it.")
    added: int = Field(description="Lines of the whole change, also where its diff is cut.")
    removed: int


class DiffOut(StagedChangeOut):
    """The same with its diff."""

    diff: str = Field(description="Unified diff; empty where there is none to read.")
    cut: bool = Field(description="True: more would have followed.")


class EntryOut(BaseModel):
    """One staged call."""

    id: str = Field(description="Of the call.")
    position: int
    tool: str
    kind: Literal["change", "call"] = Field(description="change: what it changes waits; call: it runs later itself.")
    summary: str
    digest: str
    keys: list[str] = Field(description="What it touches: entries that share one stand and fall together.")
    state: str
    error: str | None
    arguments: Any = Field(description="As a JSON value; null where nobody may see them.")
    changes: list[StagedChangeOut]
    staged_at: datetime
    ended_at: datetime | None


class WorkspaceOut(BaseModel):
    """What is staged in a conversation: its newest workspace."""

    id: str
    conversation_id: str
    agent: str
    state: Literal[
        "open", "proposed", "committing", "committed", "partly_committed", "conflicted", "discarded", "merged"
    ] = Field(description="proposed: people are asked about what waits in it, or about a part of that.")
    created: int = Field(
        description="Keys that would be there and are not yet, such as files; nothing that was left out."
    )
    changed: int
    deleted: int
    calls: int = Field(description="Staged calls that run after the commit.")
    commit_call_id: str | None = Field(description="The newest commit of it.")
    opened_at: datetime
    expires_at: datetime
    ended_at: datetime | None
    reason: str | None
    entries: list[EntryOut]


class EntryDiffOut(BaseModel):
    """What one entry changes."""

    id: str
    changes: list[DiffOut]


class DiscardIn(Body):
    """Why it is thrown away."""

    reason: Annotated[Text, Field(max_length=REASON_MAX)] = ""


class AskedOut(BaseModel):
    """What was asked of the agent; what becomes of it comes by the event stream."""

    conversation_id: str
    workspace_id: str
    asked: Literal["propose", "discard"]


_NO_REASON = DiscardIn()


@router.get("/{conversation_id}/workspace", responses=described(401, 403, 404, 503))
async def show(deps: DepsOf, caller: CallerOf, conversation_id: ConversationId) -> WorkspaceOut:
    """Show what is staged in a conversation, or what became of it; 404 where nothing ever was."""
    workspace = await _newest(deps, caller, conversation_id)
    async with reading(deps.runtime.database) as connection:
        parts = await load_parts(connection, caller.tenant, [workspace["workspace_id"]])
        asked = workspace["state"] == "open" and await is_proposed(connection, caller.tenant, conversation_id)
    out = _workspace_out(workspace, *parts[workspace["workspace_id"]])
    return out.model_copy(update={"state": "proposed"}) if asked else out


@router.get("/{conversation_id}/workspace/entries/{call_id}/diff", responses=described(401, 403, 404, 503))
async def diff(deps: DepsOf, caller: CallerOf, conversation_id: ConversationId, call_id: PathId) -> EntryDiffOut:
    """Show what one staged entry changes, as unified diffs; 404 for one that changes nothing by itself."""
    found = await diffs_of(deps, caller, conversation_id, call_id)
    return EntryDiffOut(id=call_id, changes=[DiffOut.model_validate(row) for row in found])


@router.post("/{conversation_id}/workspace/propose", status_code=202, responses=described(401, 403, 404, 409, 503))
async def propose(deps: DepsOf, caller: CallerOf, conversation_id: ConversationId) -> AskedOut:
    """Have what is staged decided now; the approval comes by the event stream.

    409 where nothing waits (`nothing-waits`), people are asked about all of it already (`asked-already`), or the time
    in which they could decide is over (`time-over`) and it is about to be thrown away.
    """
    workspace = await _waiting(deps, caller, conversation_id)
    if workspace["state"] == "open" and workspace["is_over"]:
        raise Refused("Nobody decided in time: it is thrown away.", status=409, kind="time-over")
    async with reading(deps.runtime.database) as connection:
        if await asked_here(connection, caller.tenant, conversation_id) in {"all", "decided"}:
            raise Refused("People are asked about all of it already.", status=409, kind="asked-already")
    async with writing(deps.runtime.units, caller) as work:
        work.emit(ProposeChanges(tenant=caller.tenant, conversation_id=conversation_id, by=caller.person))
    return AskedOut(conversation_id=conversation_id, workspace_id=workspace["workspace_id"], asked="propose")


@router.post("/{conversation_id}/workspace/discard", status_code=202, responses=described(400, 401, 403, 404, 409, 503))
async def discard(
    deps: DepsOf, caller: CallerOf, conversation_id: ConversationId, said: DiscardIn = _NO_REASON
) -> AskedOut:
    """Throw away what is staged: none of it happens. 409 where nothing waits."""
    workspace = await _waiting(deps, caller, conversation_id)
    word = DiscardChanges(
        tenant=caller.tenant, conversation_id=conversation_id, by=caller.person, reason=said.reason.strip()
    )
    async with writing(deps.runtime.units, caller) as work:
        if word.reason:
            await note_words(work.connection, (caller.tenant, conversation_id), caller.writers)
        work.emit(word)
    return AskedOut(conversation_id=conversation_id, workspace_id=workspace["workspace_id"], asked="discard")


async def diffs_of(deps: Deps, caller: Caller, conversation_id: str, call_id: str) -> Sequence[Row]:
    """Return what one staged call changes, with its diffs; raise Refused (403, 404)."""
    async with reading(deps.runtime.database) as connection:
        await check_for(connection, caller, conversation_id)
        found = await load_diffs(connection, caller.tenant, conversation_id, call_id)
    if not found:
        raise no_change()
    return found


def no_change() -> Refused:
    """Return the answer for a staged call that changes nothing, or is none."""
    return Refused("There is no such staged change.", status=404, kind="not-found")


async def _newest(deps: Deps, caller: Caller, conversation_id: str, *, to_change: bool = False) -> Row:
    async with reading(deps.runtime.database) as connection:
        conversation = await check_for(connection, caller, conversation_id)
        if to_change:
            check_writable(caller, conversation)
        workspace = await newest_workspace(connection, caller.tenant, conversation_id)
    if workspace is None:
        raise Refused("Nothing was staged in this conversation.", status=404, kind="nothing-staged")
    return workspace


async def _waiting(deps: Deps, caller: Caller, conversation_id: str) -> Row:
    caller.need(Scope.CHAT)
    workspace = await _newest(deps, caller, conversation_id, to_change=True)
    if workspace["state"] not in _LIVE or not workspace["waiting"]:
        raise Refused("Nothing waits in this workspace.", status=409, kind="nothing-waits", state=workspace["state"])
    return workspace


def _workspace_out(workspace: Row, entries: Sequence[Row], changes: Sequence[Row]) -> WorkspaceOut:
    plan = plan_of(workspace, entries, changes, [row["call_id"] for row in entries if row["state"] != "left_out"], {})
    counts = plan.counts()
    by_call: dict[str, list[Row]] = {}
    for row in changes:
        by_call.setdefault(row["call_id"], []).append(row)
    return WorkspaceOut.model_validate(
        {
            **workspace,
            "id": workspace["workspace_id"],
            "reason": workspace["reason"] or None,
            "created": counts["create"],
            "changed": counts["change"],
            "deleted": counts["delete"],
            "calls": len(plan.calls),
            "entries": [
                {
                    **row,
                    "id": row["call_id"],
                    "error": row["error"] or None,
                    "arguments": arguments_value(row["shown_arguments"]) if row["shown_arguments"] else None,
                    "changes": by_call.get(row["call_id"], []),
                }
                for row in entries
            ],
        }
    )
