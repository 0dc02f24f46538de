"""Lists of approvals: what fits a filter, or may wait for somebody. Each page costs the same among a million.

Every filter has an index in the order of the list. What says who may decide is a set (`deciders_digest`), and very many
approvals share few of these: what may be somebody's is one short stretch of an index for each set that lets them in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, get_args

import sqlalchemy as sa

from placet.contracts.messages.approvals import ClosedState
from placet.gateway.approvals.search import ALTERNATIVES_MAX, EXPANDED_MAX, Alternative, alternatives, expanded
from placet.gateway.approvals.store import words
from placet.gateway.approvals.store.pages import OLDEST, direction, page, text, texts
from placet.gateway.store.paging import Cursor
from placet.gateway.store.read import APPROVALS, Row, approval_facts, with_openers
from placet.gateway.tables import API_KEYS
from placet.runtime.sql import Connection

#: Written out, because an index of what is pending helps only where the planner reads the word.
_PENDING: sa.ColumnElement[str] = sa.literal_column("'pending'")
#: Every state of an approval.
STATES: tuple[sa.ColumnElement[str], ...] = tuple(
    sa.literal_column(f"'{state}'") for state in (*get_args(ClosedState), "pending")
)
#: Columns without an index of their own: what has a value of one is walked along the words, as `column=value`.
_NAMED = ("requester", "rule", "decided_by")
#: Name in a statement's `names` that asks for what `placet.gateway.approvals.survey` reads, and no more.
NARROW = "narrow"
_NARROW = [
    "approval_id",
    "conversation_id",
    "tool",
    "schema_digest",
    "arguments",
    "category",
    "agent",
    "requester",
    "rule",
    "state",
    "decided_by",
    "created_at",
    "expires_at",
]


@dataclass(frozen=True, slots=True)
class Filters:
    """Which approvals of a tenant; None does not ask."""

    state: str | None = None
    conversation_id: str | None = None
    #: Approvals that surface in that conversation, beside its own.
    surfaced: Sequence[str] | None = None
    tool: str | None = None
    agent: str | None = None
    category: str | None = None
    requester: str | None = None
    rule: str | None = None
    decided_by: str | None = None
    #: Opened at least so long ago.
    older_than_seconds: int | None = None
    #: Opened then or later, and before.
    opened_after: datetime | None = None
    opened_before: datetime | None = None
    #: Words of the summary, as web search engines take them.
    search: str | None = None

    def asks(self) -> list[Alternative]:
        """Return what is looked for among the words: of a search, and of the columns that have no index."""
        named = [f"{name}={value}" for name in _NAMED if (value := getattr(self, name)) is not None]
        found = alternatives(self.search or "") or ([Alternative()] if named else [])
        for each in found:
            each.words += named
        return found

    def given(self, asks: Sequence[Alternative] = ()) -> dict[str, Any]:
        """Return what a statement takes, by name: what asks for something, words as `asks`.

        Where words can be walked, also whether what is open is, and what is not.
        """
        found = {name: value for name, value in asdict(self).items() if value is not None and name != "search"}
        if asks:
            found["asks"] = [each.as_json() for each in asks]
            if all(each.words for each in asks):
                found |= {words.OPEN: True} if self.state in {None, "pending"} else {}
                found |= {words.CLOSED: True} if self.state != "pending" else {}
                found |= {words.WIDE: True} if len(asks) > ALTERNATIVES_MAX else {}
        return found


@dataclass(frozen=True, slots=True)
class Seat:
    """What may wait for somebody: what they asked for themselves, and the sets that let them in."""

    person: str
    digests: tuple[str, ...]

    def values(self) -> dict[str, Any]:
        """Return it as the statement takes it."""
        return {"person": self.person, "digests": list(self.digests)}


async def list_approvals(
    connection: Connection,
    tenant: str,
    filters: Filters,
    *,
    after: Cursor | None = None,
    limit: int,
    oldest: bool = False,
    narrow: bool = False,
) -> Sequence[Row]:
    """Return approvals that fit, newest first or `oldest`, from after a cursor on; `narrow`: what a survey reads."""
    values = {"tenant": tenant, "most": limit, **await _given(connection, tenant, filters), **_after(after)}
    names = frozenset(values) | ({OLDEST} if oldest else set()) | ({NARROW} if narrow else set())
    return await _rows(connection, fitting(names), values)


async def list_sets(connection: Connection, tenant: str) -> Sequence[Row]:
    """Return for each set that something pending has: its digest and tool, whom it names, and a rule that it is of."""
    return await _rows(connection, sets(), {"tenant": tenant})


async def list_candidates(
    connection: Connection,
    tenant: str,
    seat: Seat,
    filters: Filters,
    *,
    after: Cursor | None = None,
    limit: int,
    oldest: bool = False,
) -> Sequence[Row]:
    """Return pending approvals that fit and may wait for somebody, newest first or `oldest`, from after a cursor on.

    Left out is what is closed to them, because they voted or asked for it, and what is overdue.
    """
    values = {
        "tenant": tenant,
        "most": limit,
        **await _given(connection, tenant, filters),
        **_after(after),
        **seat.values(),
    }
    names = frozenset(values) | ({OLDEST} if oldest else set())
    if not _walks(values):
        return await _rows(connection, candidates(names), values)
    reach = (await _rows(connection, depths(names), values))[0]
    by_words, by_sets = reach["words"], reach["sets"]
    if by_words is None or (by_sets is not None and (by_words >= by_sets if oldest else by_words <= by_sets)):
        return await _rows(connection, worded_candidates(names), values)
    return await _rows(connection, candidates(names - {words.OPEN, words.CLOSED, words.WIDE}), values)


# Building one costs ten times what running it does, and there are few: one for each choice of filters.
@lru_cache(maxsize=512)
def fitting(names: frozenset[str]) -> sa.Select[Any]:
    """Return the statement for a page of what fits the filters of these names."""
    narrow = [APPROVALS.c[name] for name in _NARROW]
    shown = sa.select(*(narrow if NARROW in names else approval_facts(APPROVALS)))
    if _walks(names):
        view = APPROVALS.alias("worded")
        chosen = words.walked(names, _fits(view, names), view).subquery("chosen")
        return page(shown.select_from(_of_keys(chosen)), chosen, direction(names))
    if names.isdisjoint({"state", "conversation_id", "tool", "agent", "category"}):
        # No index has all states: a stretch of each.
        view = APPROVALS.alias("each")
        keys = sa.select(view.c.created_at, view.c.approval_id).where(*_fits(view, names))
        stretches = [page(keys.where(view.c.state == state), view, names) for state in STATES]
        chosen = sa.union_all(*stretches).subquery("chosen")
        return page(shown.select_from(_of_keys(chosen)), chosen, direction(names))
    return page(shown.where(*_fits(APPROVALS, names)), APPROVALS, names)


@lru_cache(maxsize=1)
def sets() -> sa.Select[Any]:
    """Return the statement for the sets: one step along the index for each."""
    first, other = APPROVALS.alias("first"), APPROVALS.alias("other")
    found = _next_set(first).cte("sets", recursive=True)
    later = other.c.deciders_digest > found.c.deciders_digest
    following = _next_set(other).where(later).lateral("following")
    return sa.select(found.union_all(sa.select(following).select_from(found.join(following, sa.true()))))


@lru_cache(maxsize=512)
def candidates(names: frozenset[str]) -> sa.Select[Any]:
    """Return the statement: a page of each set that lets somebody in, and one of what they asked for themselves."""
    digests = sa.func.unnest(texts("digests")).table_valued("digest", name="mine").render_derived()
    named = APPROVALS.alias("named")
    wanted = [*_fits(named, names), *_open_to(named), named.c.state == _PENDING]
    keys = sa.select(named.c.created_at, named.c.approval_id).where(*wanted)
    stretch = page(keys.where(named.c.deciders_digest == digests.c.digest), named, names).lateral("stretch")
    by_name = sa.select(stretch).select_from(digests.join(stretch, sa.true()))
    own = page(keys.where(_is_requester(named)), named, names).subquery("own")
    found = sa.union(by_name, sa.select(own)).subquery("found")
    return _candidates_of(page(sa.select(found), found, direction(names)).subquery("chosen"), names)


@lru_cache(maxsize=512)
def worded_candidates(names: frozenset[str]) -> sa.Select[Any]:
    """Return the same along words: better where few have a word, and the sets let somebody in to very much."""
    view = APPROVALS.alias("worded")
    let_in = view.c.deciders_digest == sa.any_(texts("digests"))
    theirs = sa.or_(let_in, _is_requester(view))
    wanted = [*_fits(view, names), *_open_to(view), view.c.state == _PENDING, theirs]
    return _candidates_of(words.walked(names, wanted, view).subquery("chosen"), names)


@lru_cache(maxsize=512)
def depths(names: frozenset[str]) -> sa.Select[Any]:
    """Return the statement for how far back a look goes along the words, and one along the sets; NULL to the end."""
    digests = sa.func.unnest(texts("digests")).table_valued("digest", name="mine").render_derived()
    c = APPROVALS.c
    here = (c.tenant == text("tenant"), c.state == _PENDING, c.deciders_digest == digests.c.digest)
    reach = words.depth(APPROVALS, names, *here).correlate(digests).scalar_subquery()
    sets_reach = sa.select(words.nearest(names)(reach)).select_from(digests).scalar_subquery()
    return sa.select(words.depth_of_words(names).scalar_subquery().label("words"), sets_reach.label("sets"))


def _walks(names: Collection[str]) -> bool:
    return words.OPEN in names or words.CLOSED in names


def _is_requester(view: sa.FromClause) -> sa.ColumnElement[bool]:
    named_requester = sa.literal_column("'requester'") == sa.any_(view.c.deciders)
    return sa.and_(view.c.requester == text("person"), named_requester)


def _of_keys(chosen: sa.FromClause) -> sa.FromClause:
    return chosen.join(APPROVALS, APPROVALS.c.approval_id == chosen.c.approval_id)


def _candidates_of(chosen: sa.FromClause, names: frozenset[str]) -> sa.Select[Any]:
    shown = sa.select(*approval_facts(APPROVALS)).select_from(_of_keys(chosen))
    return page(shown, chosen, direction(names))


def _next_set(view: sa.FromClause) -> sa.Select[Any]:
    c = view.c
    columns = (c.deciders_digest, c.tool, c.agent, c.deciders, c.approval_rule)
    waiting = sa.select(*columns).where(c.tenant == text("tenant"), c.state == _PENDING)
    return waiting.order_by(c.deciders_digest).limit(1)


def _open_to(view: sa.FromClause) -> list[sa.ColumnElement[bool]]:
    """Return what must be true of an approval beside its set: time left, and that it is not closed to the caller.

    What a revoked key did closes nothing.
    """
    person, key_id = text("person"), view.c.closed_to.op("->>")(text("person"))
    works = sa.exists().where(API_KEYS.c.key_id == key_id, API_KEYS.c.revoked_at.is_(None))
    closed = sa.and_(view.c.closed_to.has_key(person), sa.or_(key_id.is_(None), works))
    return [view.c.expires_at > sa.func.now(), sa.not_(closed)]


def _fits(view: sa.FromClause, names: frozenset[str]) -> list[sa.ColumnElement[bool]]:
    columns = ("tenant", "state", "conversation_id", "tool", "agent", "category", *_NAMED)
    equal: dict[str, sa.ColumnElement[bool]] = {each: view.c[each] == text(each) for each in columns if each in names}
    if "surfaced" in names:
        surfaces = view.c.approval_id == sa.any_(texts("surfaced"))
        equal["conversation_id"] = sa.or_(equal["conversation_id"], surfaces)
    found = list(equal.values())
    if "older_than_seconds" in names:
        age = sa.func.make_interval(0, 0, 0, 0, 0, 0, sa.bindparam("older_than_seconds", type_=sa.Integer))
        found.append(view.c.created_at <= sa.func.now() - age)
    moment = sa.TIMESTAMP(timezone=True)
    if "opened_after" in names:
        found.append(view.c.created_at >= sa.bindparam("opened_after", type_=moment))
    if "opened_before" in names:
        found.append(view.c.created_at < sa.bindparam("opened_before", type_=moment))
    if "asks" in names and not _walks(names):
        found.append(words.fits_words(view))
    return found


async def _given(connection: Connection, tenant: str, filters: Filters) -> dict[str, Any]:
    """Return what a statement takes; for the beginning of a word it has the words that begin so, where few do."""
    asks = list[Alternative]()
    for asked in filters.asks():
        if asked.words or not asked.prefixes:
            asks.append(asked)
            continue
        prefix = max(asked.prefixes, key=len)
        values = {"tenant": tenant, "prefix": prefix, "most": EXPANDED_MAX + 1}
        begun = [row["word"] for row in await _rows(connection, words.beginning(), values)]
        asks += expanded(asked, prefix, begun) if len(begun) <= EXPANDED_MAX else [asked]
    if filters.search and not asks:
        # No word begins so: then nothing fits, and the words are walked to say it.
        asks = [Alternative(words=[""], has=["%"])]
    return filters.given(asks)


def _after(cursor: Cursor | None) -> dict[str, Any]:
    return {} if cursor is None else {"after_at": cursor.at, "after_id": cursor.id}


async def _rows(connection: Connection, statement: sa.Select[Any], values: Mapping[str, Any]) -> Sequence[Row]:
    found = [dict(row) for row in (await connection.execute(statement, values)).mappings()]
    return await with_openers(connection, found) if found and "opened_by" in found[0] else found
