"""Approvals by their words: of several words the rarest is walked, newest first, and what has it is looked at.

What is rarest is measured where the page begins: the word whose 200 newest approvals reach back furthest.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from placet.gateway.approvals.search import ALTERNATIVES_MAX, EXPANDED_MAX
from placet.gateway.approvals.store.pages import OLDEST, TEXTS, direction, ordered, page, text
from placet.gateway.store.read import WORDS
from placet.runtime.sql import records

#: How far a look goes that measures how rare something is, in approvals.
DEPTH = 200
#: Names in a statement's `names` that let it walk what is open, and what is not.
OPEN, CLOSED = "walk_open", "walk_closed"
#: Name in a statement's `names` that says that there are more alternatives than people type: words of a beginning.
WIDE = "wide"
_KINDS = dict.fromkeys(("words", "has", "lacks"), TEXTS)


def fits_words(view: sa.FromClause) -> sa.ColumnElement[bool]:
    """Return whether an approval fits one of the alternatives that were asked for; judged row by row, never joined."""
    asked = records("asks", _KINDS)
    fits = sa.select(sa.func.bool_or(_fits(view, asked))).select_from(asked).correlate(view).scalar_subquery()
    return sa.func.coalesce(fits, sa.false())


def walked(names: Collection[str], wanted: Collection[sa.ColumnElement[bool]], view: sa.FromClause) -> sa.Select[Any]:
    """Return the statement for keys of a page: a stretch of each alternative's rarest word, open or not.

    `wanted` is what else must be true of an approval, which is called `view` there. Each alternative must have words.
    """
    asked, opens = _asked(names)
    rarest = _rarest(asked, opens, names)
    has = sa.and_(WORDS.c.tenant == text("tenant"), WORDS.c.word == rarest.c.word, WORDS.c.is_open == opens.c.is_open)
    keys = sa.select(WORDS.c.created_at, WORDS.c.approval_id).select_from(
        WORDS.join(view, view.c.approval_id == WORDS.c.approval_id)
    )
    stretch = page(keys.where(has, _fits(view, asked), *wanted), WORDS, names).lateral("stretch")
    joined = asked.join(opens, sa.true()).join(rarest, sa.true()).join(stretch, sa.true())
    found = sa.select(stretch).select_from(joined).distinct().subquery("found")
    return page(sa.select(found), found, direction(names))


@lru_cache(maxsize=1)
def beginning() -> sa.Select[Any]:
    """Return the statement for the words that begin with `prefix`, by the alphabet: one step of the index for each."""
    first, other = WORDS.alias("first"), WORDS.alias("other")
    begun = sa.select(first.c.word).where(first.c.tenant == text("tenant"), first.c.word >= text("prefix"))
    found = begun.order_by(first.c.word).limit(1).cte("found", recursive=True)
    after = sa.select(other.c.word).where(other.c.tenant == text("tenant"), other.c.word > found.c.word)
    following = after.order_by(other.c.word).limit(1).lateral("following")
    here = sa.func.starts_with(found.c.word, text("prefix"))
    every = found.union_all(sa.select(following.c.word).select_from(found.join(following, here)))
    begins = sa.func.starts_with(every.c.word, text("prefix"))
    return sa.select(every.c.word).where(begins).limit(sa.bindparam("most", type_=sa.Integer))


def depth_of_words(names: Collection[str]) -> sa.Select[Any]:
    """Return the statement for how far back a look along the words goes; NULL where it comes to their end."""
    asked, opens = _asked(names)
    rarest = _rarest(asked, opens, names)
    joined = asked.join(opens, sa.true()).join(rarest, sa.true())
    return sa.select(nearest(names)(rarest.c.depth)).select_from(joined)


def nearest(names: Collection[str]) -> Any:
    """Return the function that picks of several depths the one that reaches least far from where a page begins."""
    return sa.func.min if OLDEST in names else sa.func.max


def depth(view: sa.FromClause, names: Collection[str], *wanted: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Return the statement for when the approval at `DEPTH` was opened; no row where there are fewer."""
    return ordered(sa.select(view.c.created_at).where(*wanted), view, names).offset(DEPTH).limit(1)


def _asked(names: Collection[str]) -> tuple[sa.Subquery, sa.Values]:
    """Return the alternatives, and which stretches are walked, so that the planner knows how few they are.

    Else it takes the statement for a large one, and compiles it for longer than it runs.
    """
    walked_ones = [(name == OPEN,) for name in (OPEN, CLOSED) if name in names]
    opens = sa.values(sa.column("is_open", sa.Boolean), name="opens", literal_binds=True).data(walked_ones)
    most = ALTERNATIVES_MAX * EXPANDED_MAX if WIDE in names else ALTERNATIVES_MAX
    few = sa.select(records("asks", _KINDS)).limit(sa.literal_column(str(most)))
    return few.subquery("asked"), opens


def _rarest(asked: sa.FromClause, opens: sa.FromClause, names: Collection[str]) -> sa.FromClause:
    other = WORDS.alias("other")
    word = sa.func.unnest(asked.c.words).table_valued("word", name="each").render_derived()
    here = (other.c.tenant == text("tenant"), other.c.word == word.c.word, other.c.is_open == opens.c.is_open)
    reach = depth(other, names, *here).correlate(word, opens).scalar_subquery()
    furthest = sa.literal_column("depth")
    return (
        sa.select(word.c.word, reach.label("depth"))
        .select_from(word)
        .order_by((furthest.desc() if OLDEST in names else furthest.asc()).nulls_first())
        .limit(1)
        .lateral("rarest")
    )


def _fits(view: sa.FromClause, asked: sa.FromClause) -> sa.ColumnElement[bool]:
    searched = view.c.searched
    return sa.and_(searched.like(sa.all_(asked.c.has)), sa.not_(searched.like(sa.any_(asked.c.lacks))))
