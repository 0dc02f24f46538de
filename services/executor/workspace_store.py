"""SQL of workspaces: named statements in `workspaces.sql`, and values instead of rows.

Whoever changes anything in a workspace locks its row first. Every change of its state has its history row from here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from placet.contracts.canonical import entry_digest, sha256_hex
from placet.contracts.ids import workspace_id
from placet.contracts.messages import Staged, StagedEffect, ToolCall, WorkspaceBase
from placet.contracts.messages.stage import EntryKind, StagePlan
from placet.executor.states import WORKSPACE_MACHINE, WorkspaceEvent, WorkspaceState
from placet.executor.store import Attempt
from placet.runtime.database import Database
from placet.runtime.queries import load_queries
from placet.runtime.sql import Connection
from placet.runtime.work import Change as HistoryChange
from placet.runtime.work import Work
from placet.tools import Change, Described, Waiting

QUERIES = load_queries(__file__, "workspaces.sql")
#: Who moved a workspace where no person did.
MOVED_BY = "executor"
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a workspace may hold, and for how long."""

    entries_max: int
    bytes_max: int
    age_max: timedelta


@dataclass(frozen=True, slots=True)
class Planned:
    """What a call is about to put into its workspace."""

    kind: EntryKind
    pack: str
    summary: str
    #: Of a staged call none.
    changes: Sequence[tuple[Change, Described]] = ()
    #: Keys under which something waited then.
    seen: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """An entry, and the workspace that it is in now."""

    staged: Staged
    entries: int
    bytes: int


class Moved(Exception):
    """Something that a call's changes were made from has been staged anew meanwhile: plan it again."""


class Full(Exception):
    """The workspace takes no more; the text is for the model."""


class ConversationWorkspace:
    """What waits in one conversation's workspace, and beneath it in that of the job that it is an attempt at.

    Nothing is asked of the database before a tool asks.
    """

    def __init__(
        self, database: Database, *, tenant: str, conversation_id: str, base: WorkspaceBase | None = None
    ) -> None:
        self._database = database
        self._place = {"tenant": tenant, "conversation_id": conversation_id}
        self._base = base and {"tenant": tenant, **base.model_dump()}
        #: Which workspace each content that was found is in.
        self._found: dict[str, str] = {}
        #: Pack and key of what was found waiting there when it was asked for last.
        self.seen: set[tuple[str, str]] = set()

    async def find(self, pack: str, key: str) -> Waiting | None:
        """Return what waits under a key; None where no staged call has touched it."""
        if "\x00" in key:
            # No key of a workspace has it, and PostgreSQL takes no text that does: what to say is the pack's affair.
            return None
        async with self._database.single() as connection:
            rows = await connection.run(QUERIES.find, **self._place, pack=pack, key=key)
            self.seen = self.seen - {(pack, key)} | {(pack, key) for _ in rows}
            if not rows and self._base:
                rows = await connection.run(QUERIES.find_beneath, **self._base, pack=pack, key=key)
        return self._waiting(rows[0]) if rows else None

    async def under(self, pack: str, prefix: str) -> Mapping[str, Waiting]:
        """Return what waits under all keys that begin with `prefix`, by key."""
        if "\x00" in prefix:
            return {}
        async with self._database.single() as connection:
            rows = list(await connection.run(QUERIES.under, **self._place, pack=pack, prefix=prefix))
            gone = {each for each in self.seen if each[0] == pack and each[1].startswith(prefix)}
            self.seen = self.seen - gone | {(pack, row["key"]) for row in rows}
            if self._base:
                beneath = await connection.run(QUERIES.under_beneath, **self._base, pack=pack, prefix=prefix)
                rows = [*beneath, *rows]
        return {row["key"]: self._waiting(row) for row in rows}

    async def load(self, waiting: Waiting) -> bytes:
        """Return the content that waits; empty where nothing is left."""
        if waiting.digest is None or waiting.digest not in self._found:
            return b""
        async with self._database.single() as connection:
            return await content(connection, self._found[waiting.digest], waiting.digest, self._place["tenant"])

    def _waiting(self, row: Mapping[str, Any]) -> Waiting:
        if row["after"] is not None:
            self._found[row["after"]] = row["workspace_id"]
        return Waiting(row["after"], row["after_size"] or 0, row["after_mode"])


async def content(connection: Connection, workspace: str, digest: str, tenant: str) -> bytes:
    """Return a content of a workspace; LookupError where it has none of this digest."""
    rows = await connection.run(QUERIES.content, workspace_id=workspace, digest=digest, tenant=tenant)
    if not rows:
        raise LookupError(f"workspace {workspace} has no content {digest}")
    found: bytes = rows[0]["content"]
    return found


async def put(work: Work, attempt: Attempt, planned: Planned, bounds: Bounds) -> Placed:
    """Put a call into its conversation's workspace, opening one where there is none; the same call only once.

    Raises Moved or Full, and then nothing was put.
    """
    if placed := await find_placed(work.connection, attempt):
        return placed
    call = attempt.call
    place, asked_by = (call.tenant, call.conversation_id), attempt.asked_by
    workspace = await lock_live(work, *place, agent=call.agent, call_id=call.call_id, about=asked_by)
    if placed := await find_placed(work.connection, attempt):
        return placed
    if problem := _no_room(workspace, attempt, planned, bounds):
        raise Full(problem)
    for change, _ in planned.changes:
        await _check_base(work.connection, attempt, planned, change)
    kept = [await _keep_content(work.connection, workspace["workspace_id"], change) for change, _ in planned.changes]
    added = sum(kept)
    if workspace["bytes"] + added > bounds.bytes_max:
        raise Full(f"its contents would have more than {bounds.bytes_max:,} bytes")
    plan = attempt.plan or StagePlan()
    rows = [_change_row(planned.pack, change) for change, _ in planned.changes]
    staged = Staged(
        workspace_id=workspace["workspace_id"],
        position=workspace["entries"] + 1,
        kind=planned.kind,
        digest=entry_digest(attempt.call.digest, [{name: row[name] for name in _DIGESTED} for row in rows]),
        keys=[f"{planned.pack}:{change.key}" for change, _ in planned.changes],
        summary=planned.summary,
        decide=plan.decide,
        effects=[] if call.base is None else _effects(call, rows),
    )
    ids = {"call_id": attempt.call.call_id, "workspace_id": staged.workspace_id, "position": staged.position}
    await work.run(
        QUERIES.add_entry,
        **ids,
        tool=attempt.call.tool,
        pool=attempt.pool,
        kind=staged.kind,
        digest=staged.digest,
        keys=staged.keys,
        summary=staged.summary,
        decide=plan.decide,
        on_failure=plan.on_failure,
    )
    for ordinal, (row, (_, told)) in enumerate(zip(rows, planned.changes, strict=True)):
        shown = {"summary": told.summary, "diff": told.diff, "cut": told.cut, "opaque": told.binary}
        more = {"added": told.added, "removed": told.removed, "after_mode": row["mode"]}
        values = {name: value for name, value in row.items() if name != "mode"}
        await work.run(QUERIES.add_change, **ids, ordinal=ordinal, **values, **shown, **more)
    (grown,) = await work.run(
        QUERIES.grow,
        workspace_id=staged.workspace_id,
        bytes=added,
        pool=attempt.pool if planned.kind == "change" else None,
        # What an attempt at a job stages waits for the job, and not yet for people.
        expires_after=timedelta(seconds=plan.expires_after_seconds) if attempt.call.base is None else bounds.age_max,
        age_max=bounds.age_max,
    )
    return Placed(staged, grown["entries"], grown["bytes"])


#: What the digest of an entry says of each change.
_DIGESTED = ("pack", "key", "base", "after", "mode")


def _change_row(pack: str, change: Change) -> dict[str, Any]:
    before, after = change.before, change.after
    return {
        "pack": pack,
        "key": change.key,
        "base": before and before.digest,
        "base_size": None if before is None else len(before.data),
        "base_mode": None if before is None else before.mode,
        "after": after and after.digest,
        "after_size": None if after is None else len(after.data),
        "mode": None if after is None else after.mode,
    }


async def find_placed(connection: Connection, attempt: Attempt) -> Placed | None:
    """Return where a call stands in its workspace; None where it is in none."""
    rows = await connection.run(QUERIES.staged, call_id=attempt.call.call_id)
    if not rows:
        return None
    names = ("workspace_id", "position", "kind", "digest", "keys", "summary", "decide")
    staged = Staged(**{name: rows[0][name] for name in names})
    return Placed(staged, rows[0]["entries"], rows[0]["bytes"])


def _effects(call: ToolCall, rows: Sequence[Mapping[str, Any]]) -> list[StagedEffect]:
    """Return what an entry comes to without a word of the way there; of a call that waits itself, the call."""
    if not rows:
        return [StagedEffect(after=sha256_hex({"tool": call.tool, "arguments": call.arguments}))]

    def standing(digest: str | None, mode: int | None) -> str | None:
        return digest and f"{digest}:{'' if mode is None else mode}"

    return [
        StagedEffect(
            key=f"{row['pack']}:{row['key']}",
            base=standing(row["base"], row["base_mode"]),
            after=standing(row["after"], row["mode"]),
        )
        for row in rows
    ]


async def lock_live(
    work: Work,
    tenant: str,
    conversation_id: str,
    *,
    agent: str,
    call_id: str | None,
    about: Mapping[str, str] = _NOTHING,
) -> Mapping[str, Any]:
    """Lock the live workspace of a conversation, opening one where there is none; the log tells `about` of it."""
    place = {"tenant": tenant, "conversation_id": conversation_id}
    while not (rows := await work.run(QUERIES.lock_live, **place)):
        (last,) = await work.run(QUERIES.last_number, **place)
        number = last["number"] + 1
        opened = workspace_id(**place, number=number)
        if await work.run(QUERIES.open, **place, workspace_id=opened, number=number, agent=agent):
            at = {**place, "workspace_id": opened}
            record_workspace(work, at, "opened", (None, WorkspaceState.OPEN), call_id=call_id, about=about)
    row: Mapping[str, Any] = rows[0]
    return row


def _no_room(workspace: Mapping[str, Any], attempt: Attempt, planned: Planned, bounds: Bounds) -> str:
    """Return why a workspace does not take an entry, half a sentence; empty where it does."""
    if workspace["agent"] != attempt.call.agent:
        return "it has changes of another agent, which must be decided first"
    if workspace["entries"] >= bounds.entries_max:
        return f"it has {workspace['entries']} entries, and not more than {bounds.entries_max} may wait"
    if planned.kind == "change" and workspace["pool"] not in {None, attempt.pool}:
        return f"it has changes of the pool {workspace['pool']!r}, which must be decided first"
    return ""


async def _check_base(connection: Connection, attempt: Attempt, planned: Planned, change: Change) -> None:
    """Raise Moved where something else waits under a key by now than its change was made from, or nothing any more."""
    place = {"tenant": attempt.call.tenant, "conversation_id": attempt.call.conversation_id}
    rows = await connection.run(QUERIES.find, **place, pack=planned.pack, key=change.key)
    moved = rows[0]["after"] != (change.before and change.before.digest) if rows else change.key in planned.seen
    if moved:
        raise Moved(change.key)


async def _keep_content(connection: Connection, workspace: str, change: Change) -> int:
    """Keep what a change leaves; return how many bytes that added."""
    if change.after is None:
        return 0
    values = {"workspace_id": workspace, "digest": change.after.digest, "content": change.after.data}
    return len(change.after.data) if await connection.run(QUERIES.keep_content, **values) else 0


async def lock(work: Work, workspace: str, tenant: str) -> Mapping[str, Any] | None:
    """Lock a tenant's workspace; None where there is none."""
    rows = await work.run(QUERIES.lock, workspace_id=workspace, tenant=tenant)
    return rows[0] if rows else None


async def end_workspace(
    work: Work,
    workspace: Mapping[str, Any],
    event: WorkspaceEvent,
    *,
    by: str = "",
    reason: str = "",
    about: Mapping[str, str] = _NOTHING,
) -> bool:
    """Move a locked workspace on by an event that ends it or its commit; False where it had ended before.

    `by` is the person who did; the log tells `about` of it.
    """
    before = WorkspaceState(workspace["state"])
    state = WORKSPACE_MACHINE.next_state(before, event)
    key = workspace["workspace_id"]
    values = {"from_state": before.value, "state": state.value, "by": by, "reason": reason}
    if not await work.run(QUERIES.end_workspace, workspace_id=key, **values):
        return False
    if state is not WorkspaceState.OPEN:
        await work.run(QUERIES.discard_entries, workspace_id=key)
        await work.run(QUERIES.forget_contents, workspace_id=key)
    detail = {"reason": reason} if reason else {}
    told = {"call_id": workspace["commit_call_id"], "detail": detail, "about": about}
    record_workspace(work, workspace, event, (before, state), by=by, **told)
    return True


async def discard(work: Work, workspace: str, errors: Mapping[str, str]) -> None:
    """Discard entries of a locked workspace that wait, by call with what is said of each."""
    values = {"call_ids": list(errors), "errors": list(errors.values())}
    await work.run(QUERIES.discard_named, workspace_id=workspace, **values)


async def any_waiting(work: Work, workspace: str) -> bool:
    """Tell whether entries wait that no commit has let through or left out."""
    return bool((await work.run(QUERIES.any_waiting, workspace_id=workspace))[0]["waiting"])


async def overdue(work: Work, most: int) -> list[tuple[str, str]]:
    """Lock workspaces whose time is over; return them with their tenants."""
    return [(row["workspace_id"], row["tenant"]) for row in await work.run(QUERIES.overdue, most=most)]


async def purge(connection: Connection, keep: timedelta, most: int) -> int:
    """Delete workspaces that ended long ago, with all that is in them; return how many."""
    return len(await connection.run(QUERIES.purge, keep=keep, most=most))


def record_workspace(  # noqa: PLR0913 - what a change of state has
    work: Work,
    workspace: Mapping[str, Any],
    event: str,
    states: tuple[WorkspaceState | None, WorkspaceState],
    *,
    call_id: str | None,
    by: str = "",
    detail: Mapping[str, Any] = _NOTHING,
    about: Mapping[str, str] = _NOTHING,
) -> None:
    """Hand over the history of a workspace; `by` is a person, where one moved it."""
    ids = (workspace["tenant"], WORKSPACE_MACHINE.name, workspace["workspace_id"], event, *states, by or MOVED_BY)
    told = {"conversation_id": workspace["conversation_id"], **about}
    work.record(HistoryChange(*ids, call_id, dict(detail), told))
