"""What somebody can decide now: what the database finds by names and votes, judged by the rules of deciding.

Whole sets of approvals are judged at once where their rule does not look at the call; only what is left is judged one
by one, so that a page costs the same however much waits for others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placet.contracts.messages import ApprovalRule
from placet.domain import deciders
from placet.domain.deciders import Voter
from placet.domain.directory import Directory
from placet.gateway.approvals.held import held_of, in_turns
from placet.gateway.approvals.search import COUNT_MAX
from placet.gateway.approvals.store.inbox import Filters, Seat, list_candidates, list_sets
from placet.gateway.approvals.survey import Survey
from placet.gateway.approvals.voting import given_by, revoked
from placet.gateway.identity.auth import Caller
from placet.gateway.store.paging import Cursor
from placet.gateway.store.read import Row
from placet.runtime.sql import Connection

#: Rows that one look takes at most.
LOOK_MAX = 1_000
#: Rows looked through for one page; a page that has a row by then ends there.
LOOKED_MAX = 5_000


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list, in its order, and where the next begins; None on the last."""

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
    oldest: bool = False,
) -> Page:
    """Return what `caller` can decide now, newest first or `oldest`, from after a cursor on.

    No page is empty while there is more: looking goes on until something is found. A page may be short where a
    condition of a rule is false for most of what it looks at.
    """
    seat = await _seat(connection, caller, directory, filters.tool)
    found: list[Row] = []
    looked, size = 0, limit + 1
    while True:
        rows = await list_candidates(connection, caller.tenant, seat, filters, after=after, limit=size, oldest=oldest)
        found += await decidable(connection, rows, caller, directory, again=False)
        looked += len(rows)
        if len(found) > limit:
            return Page(found[:limit], after_row(found[limit - 1]))
        if len(rows) < size:
            return Page(found)
        after = after_row(rows[-1])
        if found and looked >= LOOKED_MAX:
            return Page(found, after)
        size = min(2 * size, LOOK_MAX)


async def survey_mine(
    connection: Connection, caller: Caller, directory: Directory, filters: Filters, *, oldest: bool = False
) -> Survey:
    """Return what `caller` can decide now, as whole rows: of the COUNT_MAX + 1 newest, or `oldest`, candidates."""
    seat = await _seat(connection, caller, directory, filters.tool)
    rows = await list_candidates(connection, caller.tenant, seat, filters, limit=COUNT_MAX + 1, oldest=oldest)
    return Survey(await decidable(connection, rows, caller, directory, again=False), len(rows) <= COUNT_MAX)


async def _seat(connection: Connection, caller: Caller, directory: Directory, tool: str | None) -> Seat:
    """Return which sets let the caller in."""
    voter = _voter(caller, caller.person)
    # A visitor is asked what they asked for themselves, and nothing else.
    sets = [] if caller.proof == "conversation_token" else await list_sets(connection, caller.tenant)
    chosen = [
        row["deciders_digest"]
        for row in sets
        if tool in {None, row["tool"]}
        and deciders.lets_in(
            ApprovalRule.model_validate(row["approval_rule"]), row["deciders"], row["agent"], voter, directory
        )
    ]
    return Seat(caller.person, tuple(chosen))


async def decidable(
    connection: Connection, rows: Sequence[Row], caller: Caller, directory: Directory, *, again: bool = True
) -> list[Row]:
    """Return those of `rows` that the caller may decide; `again`: also where their vote counts already."""
    keys = {key for row in rows for key in (*row["voters"].values(), *row["closed_to"].values())}
    directory = directory.without(await revoked(connection, keys | given_by(rows)))
    return [row async for row in in_turns(rows) if _may_decide(row, caller, directory, again=again)]


def _may_decide(row: Row, caller: Caller, directory: Directory, *, again: bool) -> bool:
    voter = _voter(caller, row["requester"], row["opened_by"])
    gone, closed_to = directory.revoked_keys, row["closed_to"]
    if not again and voter.identity in closed_to and closed_to[voter.identity] not in gone:
        return False
    voted = {who for who, key in row["voters"].items() if key not in gone}
    return deciders.decides_now(held_of(row), voter, directory, voted)


def _voter(caller: Caller, requester: str, opened_by: str = "") -> Voter:
    roles = tuple(caller.roles_for(requester))
    return Voter(caller.person, roles, caller.proof, caller.conversation_id, caller.key_id, opened_by)


def after_row(row: Row) -> Cursor:
    """Return where the page behind a row begins."""
    return Cursor(row["created_at"], row["approval_id"])
