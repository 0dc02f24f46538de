"""Lists of approvals: what waits for somebody, or what fits a filter. Each page costs the same among a million.

Every filter has an index in the order of the list. Who may decide is a set of names, and very many approvals share
few of these sets: "mine" is one short stretch of an index for each set that names the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from services.gateway.paging import Cursor
from services.gateway.store.read import APPROVALS, Row, all_rows, newest_page
from shared.sql import Connection

#: Written out, because an index of what is pending helps only where the planner reads the word.
_PENDING: sa.ColumnElement[str] = sa.literal_column("'pending'")
_SIMPLE: sa.ColumnElement[Any] = sa.literal_column("'simple'::regconfig")
_TEXTS = pg.ARRAY(pg.TEXT)


@dataclass(frozen=True, slots=True)
class Filters:
    """Which approvals of a tenant; None does not ask."""

    state: str | None = None
    conversation_id: str | None = None
    tool: str | None = None
    agent: str | None = None
    category: str | None = None
    #: Opened at least so long ago.
    older_than_seconds: int | None = None
    #: Words of the summary, as web search engines take them.
    search: str | None = None


@dataclass(frozen=True, slots=True)
class Seat:
    """What somebody may decide about, as far as a rule's names tell."""

    person: str
    #: Their names in the rules: `person:…`, `group:…`, `operators`; `requester` they are by `person`.
    names: frozenset[str]
    #: What a rule may want as `min_strength`.
    strengths: tuple[str, ...]
    #: Agents that they own, for four eyes.
    owned_agents: frozenset[str]


async def list_approvals(
    connection: Connection, tenant: str, filters: Filters, *, after: Cursor | None = None, limit: int
) -> Sequence[Row]:
    """Return approvals that fit, newest first, from after a cursor on."""
    return await all_rows(connection, fitting(tenant, filters, after, limit))


async def list_mine(
    connection: Connection, tenant: str, seat: Seat, filters: Filters, *, after: Cursor | None = None, limit: int
) -> Sequence[Row]:
    """Return pending approvals that fit and that somebody may decide, newest first, from after a cursor on."""
    return await all_rows(connection, mine(tenant, seat, filters, after, limit))


def fitting(tenant: str, filters: Filters, after: Cursor | None, limit: int) -> sa.Select[Any]:
    """Return the statement for a page of what fits."""
    statement = sa.select(APPROVALS).where(*_fits(APPROVALS, tenant, filters))
    return newest_page(statement, APPROVALS.c.created_at, APPROVALS.c.approval_id, after, limit)


def mine(tenant: str, seat: Seat, filters: Filters, after: Cursor | None, limit: int) -> sa.Select[Any]:
    """Return the statement: a page of each set of deciders that names somebody, and one of what they asked for."""
    sets = _sets(tenant)
    named = APPROVALS.alias("named")
    wanted = [*_fits(named, tenant, filters), *_for(named, seat), named.c.state == _PENDING]
    in_set = sa.select(named.c.created_at, named.c.approval_id).where(
        *wanted, named.c.deciders_digest == sets.c.deciders_digest
    )
    page = newest_page(in_set, named.c.created_at, named.c.approval_id, after, limit).lateral("page")
    by_name = sa.select(page).select_from(sets.join(page, sa.true())).where(sets.c.deciders.overlap(_texts(seat.names)))
    asked = sa.select(named.c.created_at, named.c.approval_id).where(
        *wanted,
        named.c.requester == seat.person,
        sa.literal_column("'requester'") == sa.any_(named.c.deciders),
    )
    own = newest_page(asked, named.c.created_at, named.c.approval_id, after, limit).subquery("own")
    found = sa.union(by_name, sa.select(own)).subquery("found")
    chosen = newest_page(sa.select(found), found.c.created_at, found.c.approval_id, None, limit).subquery("chosen")
    joined = chosen.join(APPROVALS, APPROVALS.c.approval_id == chosen.c.approval_id)
    return newest_page(sa.select(APPROVALS).select_from(joined), chosen.c.created_at, chosen.c.approval_id, None, limit)


def _sets(tenant: str) -> sa.CTE:
    """Return every set of deciders that something pending has: one step along the index for each."""
    first = APPROVALS.alias("first")
    sets = (
        sa.select(first.c.deciders_digest, first.c.deciders)
        .where(first.c.tenant == tenant, first.c.state == _PENDING)
        .order_by(first.c.deciders_digest)
        .limit(1)
        .cte("sets", recursive=True)
    )
    other = APPROVALS.alias("other")
    following = (
        sa.select(other.c.deciders_digest, other.c.deciders)
        .where(other.c.tenant == tenant, other.c.state == _PENDING, other.c.deciders_digest > sets.c.deciders_digest)
        .order_by(other.c.deciders_digest)
        .limit(1)
        .lateral("following")
    )
    return sets.union_all(sa.select(following).select_from(sets.join(following, sa.true())))


def _for(view: sa.FromClause, seat: Seat) -> list[sa.ColumnElement[bool]]:
    """Return what must be true of an approval beside its names: four eyes, and how surely the caller is known."""
    rule = view.c.approval_rule
    excluded = sa.func.coalesce(rule["exclude"], sa.cast([], pg.JSONB))
    return [
        sa.or_(view.c.requester != seat.person, sa.not_(excluded.has_key("requester"))),
        sa.or_(view.c.agent != sa.all_(_texts(seat.owned_agents)), sa.not_(excluded.has_key("agent_owner"))),
        rule["min_strength"].astext == sa.any_(_texts(seat.strengths)),
    ]


def _fits(view: sa.FromClause, tenant: str, filters: Filters) -> list[sa.ColumnElement[bool]]:
    found: list[sa.ColumnElement[bool]] = [view.c.tenant == tenant]
    names = ("state", "conversation_id", "tool", "agent", "category")
    found += [view.c[name] == wanted for name in names if (wanted := getattr(filters, name)) is not None]
    if filters.older_than_seconds is not None:
        age = sa.func.make_interval(0, 0, 0, 0, 0, 0, filters.older_than_seconds)
        found.append(view.c.created_at <= sa.func.now() - age)
    if filters.search is not None:
        words = sa.func.to_tsvector(_SIMPLE, view.c.summary)
        found.append(words.op("@@")(sa.func.websearch_to_tsquery(_SIMPLE, filters.search)))
    return found


def _texts(values: Sequence[str] | frozenset[str]) -> sa.ColumnElement[Any]:
    return sa.literal(sorted(values), _TEXTS)
