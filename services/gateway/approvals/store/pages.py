"""What every list of approvals is made of: its order, where a page begins, and parameters with their types."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

TEXTS = pg.ARRAY(pg.TEXT)
#: Name in a statement's `names` that turns its order round: oldest first.
OLDEST = "oldest_first"


def page(statement: sa.Select[Any], of: sa.FromClause, names: Collection[str] = ()) -> sa.Select[Any]:
    """Return a page, newest first or as `names` says; after a cursor where `names` has one."""
    return ordered(statement, of, names).limit(sa.bindparam("most", type_=sa.Integer))


def ordered(statement: sa.Select[Any], of: sa.FromClause, names: Collection[str] = ()) -> sa.Select[Any]:
    """Return all that follows, newest first or as `names` says; after a cursor where `names` has one."""
    at, row_id, oldest = of.c.created_at, of.c.approval_id, OLDEST in names
    if "after_at" in names:
        cursor = sa.tuple_(sa.bindparam("after_at", type_=sa.TIMESTAMP(timezone=True)), text("after_id"))
        here = sa.tuple_(at, row_id)
        statement = statement.where(here > cursor if oldest else here < cursor)
    return statement.order_by(at, row_id) if oldest else statement.order_by(at.desc(), row_id.desc())


def direction(names: Collection[str]) -> frozenset[str]:
    """Return of `names` what says the order: for a page of what is cut already."""
    return frozenset(names) & {OLDEST}


def text(name: str) -> sa.BindParameter[str]:
    """Return a parameter that is a text."""
    return sa.bindparam(name, type_=sa.Text)


def texts(name: str) -> sa.BindParameter[Any]:
    """Return a parameter that is a list of texts."""
    return sa.bindparam(name, type_=TEXTS)
