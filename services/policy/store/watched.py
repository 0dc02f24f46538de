"""SQL of watched calls. Whether a veto window is over is judged by the clock and not by the transaction's beginning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.contracts.messages import ApprovalRule, WatchedCallClosed
from placet.policy.rules import CallFacts
from placet.policy.rules.watched import Watched, arguments_digest
from placet.policy.tables import WATCHED_CALLS
from placet.runtime.work import Work

#: Most terms of earlier calls that are asked for together; rulebooks have fewer.
FOUND_MAX = 20


def _find_statement() -> sa.Select[Any]:
    """Find what stands in the way, of calls with the same terms one: a denial first, then the same arguments."""
    c, same = WATCHED_CALLS.c, WATCHED_CALLS.c.arguments_digest == sa.bindparam("arguments_digest")
    here = c.conversation_id == sa.bindparam("conversation_id")
    theirs = c.requester == sa.bindparam("requester")
    # Said twice, so that the index of those that reach further is found.
    wide = sa.and_(sa.text("veto_within <> 'conversation'"), sa.or_(c.veto_within == "tenant", theirs))
    found = (
        sa.select(c.call_id, c.approval, c.denied_at, c.denied_by, c.reason, c.asked_at, same.label("same"))
        .where(*(c[name] == sa.bindparam(name) for name in ("tenant", "tool")), sa.or_(here, wide))
        .where(sa.or_(same, c.veto_on == "tool"), sa.or_(c.until.is_(None), c.until > sa.func.clock_timestamp()))
        .where(c.call_id != sa.bindparam("call_id"))
        .ext(pg.distinct_on(c.approval))
        .order_by(c.approval, *_first(c, same))
        .subquery()
    )
    return sa.select(found).order_by(*_first(found.c, found.c.same)).limit(FOUND_MAX)


def _first(c: sa.ColumnCollection[str, Any], same: sa.ColumnElement[bool]) -> Sequence[sa.ColumnElement[Any]]:
    return c.denied_at.is_(None), same.desc(), c.denied_at.desc(), c.asked_at.desc()


def _waiting() -> sa.ColumnElement[bool]:
    return sa.and_(
        WATCHED_CALLS.c.call_id == sa.bindparam("ended"),
        WATCHED_CALLS.c.tenant == sa.bindparam("of_tenant"),
        WATCHED_CALLS.c.denied_at.is_(None),
    )


def _deny_statement() -> sa.Update:
    at = sa.bindparam("at", type_=sa.TIMESTAMP(timezone=True))
    window = WATCHED_CALLS.c.window_seconds * sa.literal(timedelta(seconds=1), sa.Interval)
    said: dict[str, Any] = {"denied_by": sa.bindparam("by"), "reason": sa.bindparam("words")}
    return sa.update(WATCHED_CALLS).where(_waiting()).values(denied_at=at, until=at + window, **said)


def _revision_statement() -> sa.Executable:
    """Watch a waiting call under other arguments too; its row is locked, so that its end comes before or after."""
    arguments = sa.bindparam("arguments_digest", type_=sa.Text)
    columns = [column.name for column in WATCHED_CALLS.c]
    values = [arguments if name == "arguments_digest" else WATCHED_CALLS.c[name] for name in columns]
    waiting = sa.select(*values).where(_waiting()).limit(1).with_for_update()
    return pg.insert(WATCHED_CALLS).from_select(columns, waiting).on_conflict_do_nothing()


_FIND = _find_statement()
_ADD = pg.insert(WATCHED_CALLS).on_conflict_do_nothing()
_ADD_REVISION = _revision_statement()
#: Before the end is written in a statement of its own, which then sees what was added meanwhile.
_LOCK = sa.select(WATCHED_CALLS.c.call_id).where(_waiting()).with_for_update()
_DENY = _deny_statement()
_FORGET = sa.delete(WATCHED_CALLS).where(_waiting())


async def find(work: Work, call: CallFacts) -> Sequence[Watched]:
    """Return the earlier calls that stand in the way of `call`, denials first; of those with the same terms one."""
    rows = await work.connection.execute(_FIND, {**_of_call(call), "call_id": call.call_id})
    return [
        Watched(row.call_id, ApprovalRule.model_validate_json(row.approval), row.denied_at, row.denied_by, row.reason)
        for row in rows
    ]


async def add(work: Work, call: CallFacts, terms: ApprovalRule) -> None:
    """Watch a call that is held; a denial of it is remembered under these terms."""
    values = {
        "call_id": call.call_id,
        "veto_on": terms.veto_on,
        "veto_within": terms.veto_within,
        "window_seconds": terms.veto_window_seconds,
        "approval": terms.model_dump_json(),
        "asked_at": work.now,
        "denied_by": "",
        "reason": "",
        **_of_call(call),
    }
    await work.connection.execute(_ADD, values)


async def add_revision(work: Work, tenant: str, call_id: str, arguments: Mapping[str, Any]) -> None:
    """Watch a call also as people would change it; nothing where it is not watched, or ended."""
    values = {"ended": call_id, "of_tenant": tenant, "arguments_digest": arguments_digest(arguments)}
    await work.connection.execute(_ADD_REVISION, values)


async def deny(work: Work, closed: WatchedCallClosed) -> None:
    """Begin the veto window of a call that people denied; the first denial that was heard of counts."""
    ended = {"ended": closed.call_id, "of_tenant": closed.tenant}
    await work.connection.execute(_LOCK, ended)
    said = {"by": closed.decided_by, "words": closed.reason, "at": closed.closed_at}
    await work.connection.execute(_DENY, ended | said)


async def forget(work: Work, tenant: str, call_id: str) -> None:
    """Watch a call no more that ended without a denial."""
    ended = {"ended": call_id, "of_tenant": tenant}
    await work.connection.execute(_LOCK, ended)
    await work.connection.execute(_FORGET, ended)


def _of_call(call: CallFacts) -> dict[str, str]:
    same = {name: getattr(call, name) for name in ("tenant", "conversation_id", "requester", "tool")}
    return same | {"arguments_digest": arguments_digest(call.arguments)}
