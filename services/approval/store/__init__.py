"""All SQL of approval, as functions on a connection.

Whatever judges by time takes two statements: one that locks the row, then one that reads the clock. In a single
statement PostgreSQL reads the clock before it waits for the lock, and would approve what expired while it waited.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from services.approval.rules import Answer, Approval, Edit, Vote, Withdrawal
from services.approval.rules.edits import differences, ended
from services.approval.store import statements
from services.approval.store.values import (
    Earlier,
    Kept,
    Reading,
    approval_from,
    approval_values,
    decider_values,
    edit_from,
    kept_values,
    opening_values,
    vote_from,
)
from shared.errors import PlacetError
from shared.messages import DecisionClaims, EditJudged, ToolCall
from shared.sql import Connection
from shared.words import searched

__all__ = ["Earlier", "Kept", "LostRow", "Reading"]


class LostRow(PlacetError):
    """A row that this transaction holds locked is not what it was: a bug, never a race."""


async def open_approvals(connection: Connection, openings: Sequence[Approval]) -> list[Approval | None]:
    """Store pending approvals, timed by the database clock; None where something was heard of the call before.

    No two may be of one call.
    """
    asked = [opening_values(opening) for opening in openings]
    rows = {row.approval_id: row for row in await connection.execute(statements.OPEN, {"asked": asked})}
    return [_timed(opening, rows.get(opening.approval_id)) for opening in openings]


def _timed(opening: Approval, row: sa.Row[Any] | None) -> Approval | None:
    if row is None:
        return None
    return replace(opening, created_at=row.created_at, expires_at=row.expires_at, next_step_at=row.next_step_at)


async def load_withdrawal(connection: Connection, call: ToolCall) -> Withdrawal | None:
    """Return how a call was withdrawn before it was held; None where it was not."""
    found = await connection.execute(statements.WITHDRAWAL, {"tenant": call.tenant, "call_id": call.call_id})
    row = found.one()
    return Withdrawal(row.withdrawn_kind, row.withdrawn_reason) if row.withdrawn_kind else None


async def add_closed(connection: Connection, approval: Approval) -> bool:
    """Store an approval that is over before anybody saw it; tell whether it is the first of its call."""
    return (await connection.execute(statements.ADD, approval_values(approval))).first() is not None


async def lock_approvals(connection: Connection, wanted: Iterable[tuple[str, str]]) -> dict[str, Approval]:
    """Return approvals by id, locked until the transaction ends; `wanted` are tenants with ids, no id twice.

    What is left out, the tenant has none of.
    """
    ids = [{"tenant": tenant, "approval_id": approval_id} for tenant, approval_id in wanted]
    found = await connection.execute(statements.LOCK, {"wanted": ids})
    return {row["approval_id"]: approval_from(row) for row in found.mappings()}


async def lock_approval(connection: Connection, tenant: str, approval_id: str) -> Approval | None:
    """Return an approval, locked until the transaction ends; None where the tenant has none of this id."""
    return (await lock_approvals(connection, [(tenant, approval_id)])).get(approval_id)


async def read_clock(connection: Connection, asked: Sequence[DecisionClaims], approvals: Iterable[Approval]) -> Reading:
    """Return the database clock now, what was answered to these decisions before, and which keys work no more.

    The keys are those that proved who makes these decisions, and who gave their place in these approvals to somebody.
    After the locks, never before. At least one decision must be asked about.
    """
    keys = {each.key_id for each in asked} | {each.by.key_id for held in approvals for each in held.delegations}
    named = frozenset(key for key in keys if key is not None)
    ids = [{"tenant": each.tenant, "decision_id": each.decision_id} for each in asked]
    rows = (await connection.execute(statements.CLOCK, {"wanted": ids, "keys": sorted(named)})).all()
    now, working = rows[0][:2]
    earlier = {
        (tenant, decision_id): Earlier(*known) for _, _, tenant, decision_id, *known in rows if known[0] is not None
    }
    return Reading(now, earlier, named.difference(working))


async def load_votes(
    connection: Connection, approvals: Sequence[Approval]
) -> tuple[dict[str, list[Vote]], frozenset[str]]:
    """Return by approval id the votes on locked approvals' arguments as they are: of each person the last one.

    And the API keys behind some of them that work no more.
    """
    if not approvals:
        return {}, frozenset()
    wanted = [
        {"tenant": each.call.tenant, "approval_id": each.approval_id, "number": each.arguments_revision}
        for each in approvals
    ]
    votes: dict[str, list[Vote]] = {}
    rows = (await connection.execute(statements.VOTES, {"wanted": wanted})).mappings().all()
    # One person may have voted as two, with a key and with a token: what they said last comes last.
    for row in sorted(rows, key=lambda row: row["counted_revision"]):
        votes.setdefault(row["approval_id"], []).append(vote_from(row))
    return votes, frozenset(row["key_id"] for row in rows if not row["works"])


async def votes_on(connection: Connection, over: Iterable[Approval]) -> dict[str, list[Vote]]:
    """Return by approval id how people voted on approvals that are over, for the news of it.

    Nothing came before the first revision, so that what one decision decided at once asks nothing here.
    """
    votes, _ = await load_votes(connection, [each for each in over if each.revision > 1])
    return votes


async def keep_decisions(connection: Connection, made: Sequence[Kept]) -> None:
    """Store decisions, each together with what it changed of its locked approval; no two of one approval."""
    changing = [each for each in made if each.changes_more]
    closing = [each for each in made if not each.changes_more]
    await _keep(connection, statements.CLOSE_AND_KEEP, statements.CLOSING_COLUMNS, closing)
    await _keep(connection, statements.CHANGE_AND_KEEP, statements.CHANGING_COLUMNS, changing)


async def _keep(connection: Connection, statement: sa.Executable, columns: Sequence[str], made: Sequence[Kept]) -> None:
    if not made:
        return
    rows = await connection.execute(statement, {"made": [kept_values(each, columns) for each in made]})
    kept = {(row.tenant, row.decision_id) for row in rows}
    changed = [each for each in made if each.changed is not None]
    found = sum((each.decision.claims.tenant, each.decision.claims.decision_id) in kept for each in changed)
    _check_count(found, [each.changed for each in changed if each.changed is not None])


async def ask_cancel(connection: Connection, approval: Approval, person: str) -> None:
    """Note that a person wanted an approved call cancelled; the first such wish stays."""
    await connection.execute(statements.ASK_CANCEL, {"asked": approval.approval_id, "by": person})


async def add_edit(
    connection: Connection,
    edit: Edit,
    approval: Approval,
    claims: DecisionClaims,
    now: datetime,
) -> bool:
    """Store a wish to change arguments; False where it was stored before."""
    values = {name: getattr(edit, name) for name in Edit.__slots__} | {
        "tenant": claims.tenant,
        "reason": claims.reason,
        "before": approval.call.arguments,
        "before_digest": approval.call.digest,
        "shown_before": approval.call.shown_arguments,
        "differences": [],
        "asked_at": now,
    }
    return (await connection.execute(statements.ADD_EDIT, values)).first() is not None


async def load_edit(connection: Connection, tenant: str, edit_id: str) -> Edit | None:
    """Return an edit; its approval must be locked, which keeps it from changing."""
    found = await connection.execute(statements.LOAD_EDIT, {"tenant": tenant, "edit_id": edit_id})
    row = found.mappings().first()
    return edit_from(row) if row else None


async def end_edit(
    connection: Connection, edit: Edit, judged: EditJudged, *, answer: Answer, before: Approval, now: datetime
) -> None:
    """Say what became of an edit that was asked: why it was refused, or what may be seen of the change."""
    after = answer.after if answer.outcome == "accepted" else None
    values = {
        "of_tenant": judged.tenant,
        "of_edit": edit.edit_id,
        "new_state": ended(edit, accepted=after is not None).state,
        "new_detail": "" if after else answer.detail,
        "new_shown": after.call.shown_arguments if after else None,
        "new_differences": [each.as_json() for each in differences(before.call, after.call)] if after else [],
        "new_rulebook_digest": judged.rulebook_digest,
        "new_judged_at": now,
    }
    if (await connection.execute(statements.END_EDIT, values)).first() is None:
        raise LostRow(f"edit {edit.edit_id} was judged before")


async def add_tombstones(
    connection: Connection, tenant: str, call_ids: Sequence[str], withdrawal: Withdrawal
) -> set[str]:
    """Remember the withdrawal of calls nothing was heard of; return which they were.

    Waits for a request that is just being opened, so that the call is either opened here or remembered there.
    """
    values = {"withdrawn_kind": withdrawal.kind, "withdrawn_reason": withdrawal.reason}
    found = await connection.execute(statements.TOMBSTONES, {"tenant": tenant, "call_ids": list(call_ids), **values})
    return set(found.scalars())


async def lock_calls(connection: Connection, tenant: str, call_ids: Sequence[str]) -> list[Approval]:
    """Return the tenant's approvals of these calls, locked in the order of the calls' ids."""
    if not call_ids:
        return []
    found = await connection.execute(statements.LOCK_CALLS, {"tenant": tenant, "call_ids": list(call_ids)})
    return [approval_from(row) for row in found.mappings()]


async def save_withdrawn(
    connection: Connection, approvals: Sequence[Approval], withdrawal: Withdrawal
) -> list[datetime]:
    """Close locked approvals that were pending; return when each was closed, by the database clock."""
    if not approvals:
        return []
    values = {"new_result_kind": withdrawal.kind, "new_decision_reason": withdrawal.reason}
    ids = [approval.approval_id for approval in approvals]
    rows = await connection.execute(statements.WITHDRAW, {"closing": ids, **values})
    ends: dict[str, datetime] = {row.approval_id: row.closed_at for row in rows}
    _check_count(len(ends), approvals)
    return [ends[approval_id] for approval_id in ids]


async def expire_overdue(connection: Connection, most: int) -> list[Approval]:
    """Close at most `most` overdue approvals that nobody else holds, and return them as they are now."""
    found = await connection.execute(statements.EXPIRE, {"most": most})
    return [approval_from(row) for row in found.mappings()]


async def lock_due(connection: Connection, most: int) -> list[Approval]:
    """Return at most `most` pending approvals with a step due, locked; those that somebody else holds are left."""
    return [approval_from(row) for row in (await connection.execute(statements.DUE, {"most": most})).mappings()]


async def save_steps(connection: Connection, approvals: Sequence[Approval]) -> None:
    """Save locked approvals after their next step."""
    if not approvals:
        return
    taken = [
        {
            "approval_id": approval.approval_id,
            "steps_done": approval.steps_done,
            "next_step_at": approval.next_step_at.isoformat() if approval.next_step_at else None,
            "revision": approval.revision,
            **decider_values(approval),
        }
        for approval in approvals
    ]
    _check_count(len((await connection.execute(statements.STEPPED, {"taken": taken})).all()), approvals)


async def index_words(connection: Connection, most: int) -> int:
    """Give up to `most` approvals that nobody holds the words that they lack, newest first; return how many."""
    found = (await connection.execute(statements.UNSEARCHED, {"most": most})).all()
    if found:
        indexed = [{"approval_id": row.approval_id, "searched": searched(row.summary)} for row in found]
        await connection.execute(statements.INDEXED, {"indexed": indexed})
    return len(found)


async def newest_of_sets(connection: Connection) -> list[Approval]:
    """Return of each set of deciders that something pending has, in every tenant, the newest approval."""
    return [approval_from(row) for row in (await connection.execute(statements.SETS)).mappings()]


async def list_set(connection: Connection, of: Approval, most: int) -> list[Approval]:
    """Return at most `most` pending approvals of the same set of deciders, newest first."""
    found = await connection.execute(statements.SET, {"of_set": of.approval_id, "most": most})
    return [approval_from(row) for row in found.mappings()]


async def count_set(connection: Connection, of: Approval, most: int) -> int:
    """Return how many pending approvals of the same set of deciders there are; counting ends at `most`."""
    found = await connection.execute(statements.SET_COUNT, {"of_set": of.approval_id, "most": most})
    return int(found.scalar_one())


def _check_count(count: int, approvals: Sequence[Approval]) -> None:
    if count != len(approvals):
        raise LostRow(f"{count} of {len(approvals)} approvals were pending, first {approvals[0].approval_id}")
