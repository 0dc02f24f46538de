"""Lists of approvals: what waits for somebody, or what fits a filter. Each page costs the same among a million.

Every filter has an index in the order of the list. Who may decide is a set of names, and very many approvals share
few of these sets: "mine" is one short stretch of an index for each set that names the caller.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from services.gateway.paging import Cursor
from services.gateway.store.read import APPROVALS, Row
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

    def given(self) -> dict[str, Any]:
        """Return those that ask for something, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


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

    def values(self) -> dict[str, Any]:
        """Return it as the statement takes it."""
        lists = {"names": self.names, "strengths": self.strengths, "owned_agents": self.owned_agents}
        return {"person": self.person, **{name: sorted(values) for name, values in lists.items()}}


async def list_approvals(
    connection: Connection, tenant: str, filters: Filters, *, after: Cursor | None = None, limit: int
) -> Sequence[Row]:
    """Return approvals that fit, newest first, from after a cursor on."""
    values = {"tenant": tenant, "most": limit, **filters.given(), **_after(after)}
    return await _rows(connection, fitting(frozenset(values)), values)


async def list_mine(
    connection: Connection, tenant: str, seat: Seat, filters: Filters, *, after: Cursor | None = None, limit: int
) -> Sequence[Row]:
    """Return pending approvals that fit and that somebody may decide, newest first, from after a cursor on."""
    values = {"tenant": tenant, "most": limit, **filters.given(), **_after(after), **seat.values()}
    return await _rows(connection, mine(frozenset(values)), values)


# Building one costs ten times what running it does, and there are few: one for each choice of filters.
@lru_cache(maxsize=512)
def fitting(names: frozenset[str]) -> sa.Select[Any]:
    """Return the statement for a page of what fits the filters of these names."""
    return _page(sa.select(APPROVALS).where(*_fits(APPROVALS, names)), APPROVALS, names)


@lru_cache(maxsize=512)
def mine(names: frozenset[str]) -> sa.Select[Any]:
    """Return the statement: a page of each set of deciders that names somebody, and one of what they asked for."""
    sets = _sets()
    named = APPROVALS.alias("named")
    wanted = [*_fits(named, names), *_for(named), named.c.state == _PENDING]
    keys = sa.select(named.c.created_at, named.c.approval_id).where(*wanted)
    page = _page(keys.where(named.c.deciders_digest == sets.c.deciders_digest), named, names).lateral("page")
    by_name = sa.select(page).select_from(sets.join(page, sa.true())).where(sets.c.deciders.overlap(_texts("names")))
    named_requester = sa.literal_column("'requester'") == sa.any_(named.c.deciders)
    own = _page(keys.where(named.c.requester == _text("person"), named_requester), named, names).subquery("own")
    found = sa.union(by_name, sa.select(own)).subquery("found")
    chosen = _page(sa.select(found), found).subquery("chosen")
    joined = chosen.join(APPROVALS, APPROVALS.c.approval_id == chosen.c.approval_id)
    return _page(sa.select(APPROVALS).select_from(joined), chosen)


def _sets() -> sa.CTE:
    """Return every set of deciders that something pending has: one step along the index for each."""
    first, other = APPROVALS.alias("first"), APPROVALS.alias("other")
    sets = _next_set(first).cte("sets", recursive=True)
    later = other.c.deciders_digest > sets.c.deciders_digest
    following = _next_set(other).where(later).lateral("following")
    return sets.union_all(sa.select(following).select_from(sets.join(following, sa.true())))


def _next_set(view: sa.FromClause) -> sa.Select[Any]:
    c = view.c
    waiting = sa.select(c.deciders_digest, c.deciders).where(c.tenant == _text("tenant"), c.state == _PENDING)
    return waiting.order_by(c.deciders_digest).limit(1)


def _for(view: sa.FromClause) -> list[sa.ColumnElement[bool]]:
    """Return what must be true of an approval beside its names: four eyes, and how surely the caller is known."""
    rule = view.c.approval_rule
    excluded = sa.func.coalesce(rule["exclude"], sa.cast([], pg.JSONB))
    return [
        sa.or_(view.c.requester != _text("person"), sa.not_(excluded.has_key("requester"))),
        sa.or_(view.c.agent != sa.all_(_texts("owned_agents")), sa.not_(excluded.has_key("agent_owner"))),
        rule["min_strength"].astext == sa.any_(_texts("strengths")),
    ]


def _fits(view: sa.FromClause, names: frozenset[str]) -> list[sa.ColumnElement[bool]]:
    columns = ("tenant", "state", "conversation_id", "tool", "agent", "category")
    found: list[sa.ColumnElement[bool]] = [view.c[name] == _text(name) for name in columns if name in names]
    if "older_than_seconds" in names:
        age = sa.func.make_interval(0, 0, 0, 0, 0, 0, sa.bindparam("older_than_seconds", type_=sa.Integer))
        found.append(view.c.created_at <= sa.func.now() - age)
    if "search" in names:
        words = sa.func.to_tsvector(_SIMPLE, view.c.summary)
        found.append(words.op("@@")(sa.func.websearch_to_tsquery(_SIMPLE, _text("search"))))
    return found


def _page(statement: sa.Select[Any], of: sa.FromClause, names: Collection[str] = ()) -> sa.Select[Any]:
    """Return a page, newest first; after a cursor where `names` has one."""
    at, row_id = of.c.created_at, of.c.approval_id
    if "after_at" in names:
        cursor = sa.tuple_(sa.bindparam("after_at", type_=sa.TIMESTAMP(timezone=True)), _text("after_id"))
        statement = statement.where(sa.tuple_(at, row_id) < cursor)
    return statement.order_by(at.desc(), row_id.desc()).limit(sa.bindparam("most", type_=sa.Integer))


def _after(cursor: Cursor | None) -> dict[str, Any]:
    return {} if cursor is None else {"after_at": cursor.at, "after_id": cursor.id}


async def _rows(connection: Connection, statement: sa.Select[Any], values: Mapping[str, Any]) -> Sequence[Row]:
    return [dict(row) for row in (await connection.execute(statement, values)).mappings()]


def _text(name: str) -> sa.BindParameter[str]:
    return sa.bindparam(name, type_=sa.Text)


def _texts(name: str) -> sa.BindParameter[Any]:
    return sa.bindparam(name, type_=_TEXTS)
