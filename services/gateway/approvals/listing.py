"""A page of approvals, in any order and grouped, for the API and for the inbox alike."""

from __future__ import annotations

from dataclasses import dataclass, replace

from placet.domain.directory import Directory
from placet.gateway.approvals.mine import Page, after_row, list_mine, survey_mine
from placet.gateway.approvals.search import COUNT_MAX
from placet.gateway.approvals.store.inbox import Filters, list_approvals
from placet.gateway.approvals.survey import Order, Survey
from placet.gateway.conversations.store import surfaced_in
from placet.gateway.identity.auth import Caller
from placet.gateway.store.paging import Cursor
from placet.gateway.store.read import load_approval, load_approvals
from placet.runtime.sql import Connection

#: Orders whose pages go on however much there is; the others are sorted among what a survey sees.
KEYSET: frozenset[Order] = frozenset({"newest", "oldest"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which approvals somebody wants to see, and how they stand."""

    filters: Filters
    #: Only what they can decide now.
    mine: bool = False
    order: Order = "newest"
    #: A name of `survey.GROUPS`; empty: not grouped.
    group: str = ""

    @property
    def oldest(self) -> bool:
        """Whether what is looked at begins with the oldest: they run out first."""
        return self.order in {"oldest", "deadline"}


async def with_surfaced(connection: Connection, caller: Caller, filters: Filters) -> Filters:
    """Return filters that let in, with a conversation, what people are asked in the jobs that its calls wait for.

    Not for the token of a conversation, which decides about no job.
    """
    if filters.conversation_id is None or caller.conversation_id is not None:
        return filters
    surfaced = await surfaced_in(connection, caller.tenant, filters.conversation_id)
    return replace(filters, surfaced=surfaced) if surfaced else filters


async def survey_of(connection: Connection, caller: Caller, directory: Directory, wanted: Wanted) -> Survey:
    """Return what fits, looked over: COUNT_MAX at most."""
    if wanted.mine:
        return await survey_mine(connection, caller, directory, wanted.filters, oldest=wanted.oldest)
    most, oldest = COUNT_MAX + 1, wanted.oldest
    rows = await list_approvals(connection, caller.tenant, wanted.filters, limit=most, oldest=oldest, narrow=True)
    return Survey(rows[:COUNT_MAX], len(rows) <= COUNT_MAX)


async def list_page(
    connection: Connection,
    caller: Caller,
    directory: Directory,
    wanted: Wanted,
    survey: Survey | None = None,
    *,
    after: Cursor | None = None,
    limit: int,
) -> Page:
    """Return a page of what is wanted, from after a cursor on; `survey` is what was looked over already."""
    if wanted.order in KEYSET and not wanted.group and (survey is None or not survey.complete):
        # A stretch of an index.
        filters, oldest = wanted.filters, wanted.oldest
        if wanted.mine:
            return await list_mine(connection, caller, directory, filters, after=after, limit=limit, oldest=oldest)
        rows = await list_approvals(connection, caller.tenant, filters, after=after, limit=limit + 1, oldest=oldest)
        return Page(rows[:limit], after_row(rows[limit - 1]) if len(rows) > limit else None)
    seen = survey or await survey_of(connection, caller, directory, wanted)
    last = await load_approval(connection, caller.tenant, after.id) if after else None
    rows, following = seen.page(wanted.order, wanted.group, last, limit)
    if not wanted.mine:
        keys = [(caller.tenant, row["approval_id"]) for row in rows]
        whole = await load_approvals(connection, keys)
        rows = [whole[key] for key in keys if key in whole]
    return Page(rows, after_row(following) if following else None)
