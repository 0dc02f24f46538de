"""All SQL of approval: named statements in `queries.sql`, and values instead of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from placet.approval.rules import Answer, Approval, Decision, Edit, Vote, Withdrawal
from placet.approval.rules.edits import differences
from placet.approval.states import EDIT_MACHINE, EditEvent
from placet.approval.store.values import (
    Earlier,
    Reading,
    approval_from,
    approval_values,
    decider_values,
    edit_from,
    json_values,
    kept_values,
    reading_from,
    vote_from,
)
from placet.contracts.errors import PlacetError
from placet.contracts.messages import DecisionClaims, EditJudged, ToolCall
from placet.runtime.queries import load_queries, query
from placet.runtime.sql import Connection
from placet.runtime.work import Work

__all__ = ["Earlier", "Reading"]

QUERIES = load_queries(__file__)
#: Where counting what waits ends.
COUNTED_MAX = 100_000
#: The same where the approval is locked in a transaction.
_KEEP_LOCKED = query(
    "keep_locked", f"WITH fresh AS ({QUERIES.no_arrival.source}), {QUERIES.keep_decisions.source} TABLE effect"
)


class LostRow(PlacetError):
    """A row that this transaction holds locked is not what it was: a bug, never a race."""


async def open_approvals(work: Work, openings: Mapping[str, Approval]) -> set[str]:
    """Store pending approvals by the keys of what follows; return those of calls nothing was heard of before.

    No two may be of one call.
    """
    asked = [json_values(approval_values(opening) | {"key": key}) for key, opening in openings.items()]
    return {row["key"] for row in await work.execute_once(QUERIES.open, asked=asked)}


async def load_withdrawal(connection: Connection, call: ToolCall) -> Withdrawal | None:
    """Return how a call was withdrawn before it was held; None where it was not."""
    rows = await connection.run(QUERIES.withdrawal_of, tenant=call.tenant, call_id=call.call_id)
    found = [Withdrawal(*row) for row in rows if row["withdrawn_kind"]]
    return found[0] if found else None


async def add_closed(connection: Connection, approval: Approval) -> bool:
    """Store an approval that is over before anybody saw it; tell whether it is the first of its call."""
    return bool(await connection.run(QUERIES.add_closed, row=json_values(approval_values(approval))))


async def read_decisions(connection: Connection, asked: Sequence[DecisionClaims]) -> list[Reading]:
    """Return what each decision is judged by, in their order."""
    rows = await connection.run(
        QUERIES.read_decisions,
        tenants=[each.tenant for each in asked],
        approval_ids=[each.approval_id for each in asked],
        decision_ids=[each.decision_id for each in asked],
        key_ids=[each.key_id or "" for each in asked],
        persons=[each.person for each in asked],
        conversation_ids=[each.conversation_id or "" for each in asked],
    )
    return [reading_from(row) for row in rows]


async def keep_decisions(
    work: Work,
    made: Sequence[tuple[str, Decision, Approval | None, Approval | None]],
    again: Iterable[str] = (),
    *,
    once: bool = True,
) -> set[str]:
    """Store decisions with what they change of their approvals; return the keys of those that count.

    Each has the key of what follows from it, and the approval before and after; no two are of one approval. Left out is
    what the approval has left behind meanwhile: to be read and judged anew. `again` are the keys of answers that were
    given before; with `once`, an event that was handled before gets none.
    """
    rows = [{"key": key, "once": once} for key in again]
    rows += [kept_values(decision, before, after, key) for key, decision, before, after in made]
    return {row["key"] for row in await work.execute_once(QUERIES.keep_decisions, made=rows)}


async def keep_locked(connection: Connection, made: tuple[str, Decision, Approval | None, Approval | None]) -> bool:
    """Store a decision with what it changes of its locked approval; False where its deadline has passed meanwhile."""
    key, decision, before, after = made
    row = kept_values(decision, before, after, key) | {"locked": True}
    return bool(await connection.run(_KEEP_LOCKED, made=[row]))


async def lock_approval(connection: Connection, tenant: str, approval_id: str) -> Approval | None:
    """Return an approval, locked until the transaction ends; None where the tenant has none of this id."""
    rows = await connection.run(QUERIES.lock, tenant=tenant, approval_id=approval_id)
    return approval_from(rows[0]) if rows else None


async def votes_on(connection: Connection, over: Iterable[Approval]) -> dict[str, list[Vote]]:
    """Return by approval id how people voted on approvals that are over, for the news of it.

    Nothing came before the first revision, so that what one decision decided at once asks nothing here.
    """
    votes: dict[str, list[Vote]] = {}
    if ids := [each.approval_id for each in over if each.revision > 1]:
        rows = await connection.run(QUERIES.votes, approval_ids=ids)
        for row in sorted(rows, key=lambda row: int(row["counted_revision"])):
            votes.setdefault(row["approval_id"], []).append(vote_from(row))
    return votes


async def add_edit(work: Work, edit: Edit, approval: Approval, claims: DecisionClaims, now: datetime) -> bool:
    """Store a wish to change arguments, with what was handed over, unless it was stored before.

    False where the approval has changed meanwhile, and nothing is stored.
    """
    kept = {name: getattr(edit, name) for name in Edit.__slots__}
    rows = await work.execute_once(
        QUERIES.add_edit,
        **kept,
        tenant=claims.tenant,
        reason=claims.reason,
        before=approval.call.arguments,
        before_digest=approval.call.digest,
        shown_before=approval.call.shown_arguments,
        revision=approval.revision,
        asked_at=now,
        key=work.cause.id,
    )
    return bool(rows)


async def load_edit(connection: Connection, tenant: str, edit_id: str) -> Edit | None:
    """Return an edit; its approval must be locked, which keeps it from changing."""
    rows = await connection.run(QUERIES.load_edit, tenant=tenant, edit_id=edit_id)
    return edit_from(rows[0]) if rows else None


async def end_edit(
    connection: Connection, edit: Edit, judged: EditJudged, *, answer: Answer, before: Approval, now: datetime
) -> None:
    """Say what became of an edit that was asked: why it was refused, or what may be seen of the change."""
    after = answer.after if answer.outcome == "accepted" else None
    rows = await connection.run(
        QUERIES.end_edit,
        tenant=judged.tenant,
        edit_id=edit.edit_id,
        state=EDIT_MACHINE.next_state(edit.state, EditEvent.ACCEPT if after else EditEvent.REFUSE),
        detail="" if after else answer.detail,
        shown_arguments=after.call.shown_arguments if after else None,
        differences=differences(before.call, after.call) if after else [],
        rulebook_digest=judged.rulebook_digest,
        judged_at=now,
    )
    if not rows:
        raise LostRow(f"edit {edit.edit_id} was judged before")


async def add_tombstones(
    connection: Connection, tenant: str, call_ids: Sequence[str], withdrawal: Withdrawal | None
) -> set[str]:
    """Remember calls nothing was heard of, with how they were withdrawn if they were; return which they were.

    Waits for a request that is just being opened, so that the call is either opened here or remembered there.
    """
    said = {"kind": withdrawal and withdrawal.kind, "reason": withdrawal and withdrawal.reason}
    rows = await connection.run(QUERIES.add_tombstones, tenant=tenant, call_ids=list(call_ids), **said)
    return {row["call_id"] for row in rows}


async def lock_calls(connection: Connection, tenant: str, call_ids: Sequence[str]) -> list[Approval]:
    """Return the tenant's approvals of these calls, locked in the order of the calls' ids."""
    if not call_ids:
        return []
    rows = await connection.run(QUERIES.lock_calls, tenant=tenant, call_ids=list(call_ids))
    return [approval_from(row) for row in rows]


async def save_withdrawn(
    connection: Connection, approvals: Sequence[Approval], withdrawal: Withdrawal
) -> list[datetime]:
    """Close locked approvals that were pending; return when each was closed, by the database clock."""
    if not approvals:
        return []
    ids, said = [approval.approval_id for approval in approvals], {"kind": withdrawal.kind, "reason": withdrawal.reason}
    rows = await connection.run(QUERIES.withdraw, approval_ids=ids, **said)
    ends: dict[str, datetime] = {row["approval_id"]: row["closed_at"] for row in rows}
    _check_count(len(ends), approvals)
    return [ends[approval_id] for approval_id in ids]


async def expire_overdue(connection: Connection, most: int) -> list[Approval]:
    """Close at most `most` overdue approvals that nobody else holds, and return them as they are now."""
    return [approval_from(row) for row in await connection.run(QUERIES.expire, most=most)]


async def lock_due(connection: Connection, most: int) -> list[Approval]:
    """Return at most `most` pending approvals with a step due, locked; those that somebody else holds are left."""
    return [approval_from(row) for row in await connection.run(QUERIES.lock_due, most=most)]


async def save_steps(connection: Connection, approvals: Sequence[Approval]) -> None:
    """Save locked approvals after their next step."""
    if not approvals:
        return
    names = ("approval_id", "steps_done", "next_step_at", "revision")
    taken = [json_values({name: getattr(each, name) for name in names} | decider_values(each)) for each in approvals]
    _check_count(len(await connection.run(QUERIES.save_steps, taken=taken)), approvals)


async def index_words(connection: Connection, most: int, behind: timedelta) -> int:
    """Write the words of cards that changed `behind` ago or before; return how many changes these were, at most `most`.

    0 where another replica does it. What opened and closed meanwhile is written once, as it is by then.
    History says what changed, so that no call waits for what people search. A number that is missing there belongs to
    a transaction that is under way, or was rolled back: what follows it waits for a minute.
    """
    held = await connection.run(QUERIES.hold_word_cursor)
    if not held:
        await connection.run(QUERIES.begin_word_cursor)
        held = await connection.run(QUERIES.hold_word_cursor)
    last = held[0][0] if held else 0
    changes = []
    for row in await connection.run(QUERIES.changed_cards, after=last, most=most, behind=behind) if held else []:
        if row["id"] != last + 1 and not row["settled"]:
            break
        changes.append(row)
        last = row["id"]
    if changes:
        await connection.run(QUERIES.plan_anew)
        changed = {row["subject_id"] for row in changes}
        if known := changed - {row["subject_id"] for row in changes if row["opened"]}:
            await connection.run(QUERIES.remove_open_words, approval_ids=sorted(known))
        await connection.run(QUERIES.add_words, approval_ids=sorted(changed))
        await connection.run(QUERIES.move_word_cursor, id=last)
    return len(changes)


async def newest_of_sets(connection: Connection) -> list[Approval]:
    """Return of each set of deciders that something pending has, in every tenant, the newest approval."""
    return [approval_from(row) for row in await connection.run(QUERIES.newest_of_sets)]


async def list_set(connection: Connection, of: Approval, most: int) -> list[Approval]:
    """Return at most `most` pending approvals of the same set of deciders, newest first."""
    rows = await connection.run(QUERIES.list_set, approval_id=of.approval_id, most=most)
    return [approval_from(row) for row in rows]


async def count_set(connection: Connection, of: Approval, most: int) -> int:
    """Return how many pending approvals of the same set of deciders there are; counting ends at `most`."""
    return int((await connection.run(QUERIES.count_set, approval_id=of.approval_id, most=most))[0][0])


async def count_by_tenant(connection: Connection, most: int) -> dict[str, int]:
    """Return how many approvals of each tenant wait; counting ends at `most`."""
    return {row["tenant"]: row["pending"] for row in await connection.run(QUERIES.count_by_tenant, most=most)}


async def count_pending(connection: Connection) -> tuple[int, float]:
    """Return how many approvals of all tenants wait, at most COUNTED_MAX, and for how many seconds the oldest does."""
    (row,) = await connection.run(QUERIES.count_pending, most=COUNTED_MAX)
    return row["pending"], row["oldest"]


def _check_count(count: int, approvals: Sequence[Approval]) -> None:
    if count != len(approvals):
        raise LostRow(f"{count} of {len(approvals)} approvals were pending, first {approvals[0].approval_id}")
