"""What every list of approvals is made of: its order, where a page begins, and parameters with their types."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

TEXTS = pg.ARRAY(pg.TEXT)


def page(statement: sa.Select[Any], of: sa.FromClause, names: Collection[str] = ()) -> sa.Select[Any]:
    """Return a page, newest first; after a cursor where `names` has one."""
    return ordered(statement, of, names).limit(sa.bindparam("most", type_=sa.Integer))


def ordered(statement: sa.Select[Any], of: sa.FromClause, names: Collection[str] = ()) -> sa.Select[Any]:
    """Return all that follows, newest first; after a cursor where `names` has one."""
    at, row_id = of.c.created_at, of.c.approval_id
    if "after_at" in names:
        cursor = sa.tuple_(sa.bindparam("after_at", type_=sa.TIMESTAMP(timezone=True)), text("after_id"))
        statement = statement.where(sa.tuple_(at, row_id) < cursor)
    return statement.order_by(at.desc(), row_id.desc())


def text(name: str) -> sa.BindParameter[str]:
    """Return a parameter that is a text."""
    return sa.bindparam(name, type_=sa.Text)


def texts(name: str) -> sa.BindParameter[Any]:
    """Return a parameter that is a list of texts."""
    return sa.bindparam(name, type_=TEXTS)
