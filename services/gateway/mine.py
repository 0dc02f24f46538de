"""What somebody can decide now: what the database finds by names and votes, judged by the rules of deciding.

Whole sets of approvals are judged at once where their rule does not look at the call; only what is left is judged one
by one, so that a page costs the same however much waits for others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.gateway.auth import Caller
from services.gateway.held import held_of
from services.gateway.paging import Cursor
from services.gateway.store.inbox import Filters, Seat, list_candidates, list_sets
from services.gateway.store.read import Row
from services.gateway.voting import given_by, revoked
from shared import deciders
from shared.approvers import identity_of
from shared.deciders import Voter
from shared.directory import Directory
from shared.messages import ApprovalRule
from shared.messages.approvals import strengths_met
from shared.sql import Connection

#: Rows that one look takes at most.
LOOK_MAX = 1_000
#: Rows looked through for one page; a page that has a row by then ends there.
LOOKED_MAX = 5_000


@dataclass(frozen=True, slots=True)
class Page:
    """What somebody can decide, newest first, and where the next page begins; None on the last."""

    rows: Sequence[Row]
    next: Cursor | None = None


async def list_mine(
    connection: Connection,
    caller: Caller,
    directory: Directory,
    filters: Filters,
    *,
    after: Cursor | None = None,
    limit: int,
) -> Page:
    """Return what `caller` can decide now, from after a cursor on.

    No page is empty while there is more: looking goes on until something is found. A page may be short where a
    condition of a rule is false for most of what it looks at.
    """
    seat = await _seat(connection, caller, directory, filters.tool)
    found: list[Row] = []
    looked, size = 0, limit + 1
    while True:
        rows = await list_candidates(connection, caller.tenant, seat, filters, after=after, limit=size)
        found += await decidable(connection, rows, caller, directory)
        looked += len(rows)
        if len(found) > limit:
            return Page(found[:limit], _cursor(found[limit - 1]))
        if len(rows) < size:
            return Page(found)
        after = _cursor(rows[-1])
        if found and looked >= LOOKED_MAX:
            return Page(found, after)
        size = min(2 * size, LOOK_MAX)


async def _seat(connection: Connection, caller: Caller, directory: Directory, tool: str | None) -> Seat:
    """Return which sets let the caller in, and what keeps single calls from them."""
    visitor = caller.proof == "conversation_token"
    voter = _voter(caller, caller.person)
    chosen = [
        row["deciders_digest"]
        for row in ([] if visitor else await list_sets(connection, caller.tenant))
        if tool in {None, row["tool"]}
        and deciders.lets_in(ApprovalRule.model_validate(row["approval_rule"]), row["deciders"], voter, directory)
    ]
    owned = [
        agent for agent, owners in directory.owners.items() if caller.person in {identity_of(each) for each in owners}
    ]
    return Seat(caller.person, visitor, tuple(chosen), tuple(sorted(owned)))


async def decidable(connection: Connection, rows: Sequence[Row], caller: Caller, directory: Directory) -> list[Row]:
    """Return those of `rows` that the caller may decide; each has `voters` beside what an approval has."""
    directory = directory.without(await revoked(connection, given_by(rows)))
    return [row for row in rows if _may_decide(row, caller, directory)]


def _may_decide(row: Row, caller: Caller, directory: Directory) -> bool:
    held, voter = held_of(row), _voter(caller, row["requester"], row["opened_by"])
    rights = deciders.all_panels(held, voter, directory, row["voters"])
    # Whoever voted and was given a place since votes again, if that counts for more.
    if row.get("voted") and held.seats is not None and rights <= held.seats.get(voter.counts_as, frozenset()):
        return False
    return bool(
        rights or deciders.may_veto(held, voter, directory)
    ) and held.approval_rule.min_strength in strengths_met(caller.proof)


def _voter(caller: Caller, requester: str, opened_by: str = "") -> Voter:
    roles = tuple(caller.roles_for(requester))
    return Voter(caller.person, roles, caller.proof, caller.conversation_id, caller.key_id, opened_by)


def _cursor(row: Row) -> Cursor:
    return Cursor(row["created_at"], row["approval_id"])
