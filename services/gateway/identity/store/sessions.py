"""Sessions of browsers: whose each is, and whether it still holds. Judged by the database's clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from placet.domain.approvers import name_of
from placet.gateway.tables import API_KEYS, SESSIONS
from placet.runtime.sql import Connection

#: How long the end of a session stays on record.
KEPT = timedelta(days=30)
#: Rows that one sign-in clears away at most.
CLEARED_MAX = 200
#: A session that was seen within this time is not written to again.
SEEN_EVERY = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class StoredSession:
    """One session without its secret."""

    session_id: str
    tenant: str
    #: Stable id, `person:…`.
    person: str
    #: How they signed in: `key`, `link` or `oidc`.
    method: str
    #: The API key whose rights it has; None for a person who signed in at a provider.
    key_id: str | None
    created_at: datetime
    seen_at: datetime
    expires_at: datetime
    revoked_at: datetime | None
    #: Whether it was last used so long ago that this use is worth a note.
    unseen: bool


_COLUMNS: list[sa.ColumnElement[Any]] = [
    SESSIONS.c[name] for name in StoredSession.__dataclass_fields__ if name != "unseen"
]
_COLUMNS.append((SESSIONS.c.seen_at < sa.func.now() - sa.literal(SEEN_EVERY, sa.Interval)).label("unseen"))


def _holds(idle: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    c, now = SESSIONS.c, sa.func.now()
    return sa.and_(c.revoked_at.is_(None), c.expires_at > now, c.seen_at > now - idle)


_IDLE: sa.ColumnElement[Any] = sa.bindparam("idle", type_=sa.Interval)
# Every request of a browser runs one of these, and building a statement costs more than running it.
_BY_HASH = sa.select(*_COLUMNS).where(SESSIONS.c.token_hash == sa.bindparam("token_hash"), _holds(_IDLE))
_BY_ID = sa.select(*_COLUMNS).where(SESSIONS.c.session_id == sa.bindparam("session_id"), _holds(_IDLE))


async def add_session(connection: Connection, session: dict[str, Any], seconds: int) -> None:
    """Store a session that begins now and lasts `seconds` at most; `session` has the columns that it is made of."""
    now = sa.func.now()
    ends = now + sa.literal(timedelta(seconds=seconds), sa.Interval)
    await connection.execute(sa.insert(SESSIONS).values(**session, seen_at=now, expires_at=ends))
    c = SESSIONS.c
    old = sa.select(c.session_id).where(c.expires_at < now - sa.literal(KEPT, sa.Interval)).limit(CLEARED_MAX)
    await connection.execute(sa.delete(SESSIONS).where(c.session_id.in_(old)))


async def find_session(connection: Connection, token_hash: str, idle_seconds: int) -> StoredSession | None:
    """Return the session whose token has this hash, where it still holds."""
    idle = timedelta(seconds=idle_seconds)
    row = (await connection.execute(_BY_HASH, {"token_hash": token_hash, "idle": idle})).one_or_none()
    return StoredSession(*row) if row else None


async def session_holds(connection: Connection, session_id: str, idle_seconds: int) -> bool:
    """Tell whether a session still holds."""
    idle = timedelta(seconds=idle_seconds)
    found = await connection.execute(_BY_ID, {"session_id": session_id, "idle": idle})
    return found.one_or_none() is not None


async def session_stands(connection: Connection, session_id: str) -> bool:
    """Tell whether a session that is used now was neither ended meanwhile nor is over."""
    c = SESSIONS.c
    stands = sa.and_(c.session_id == session_id, c.revoked_at.is_(None), c.expires_at > sa.func.clock_timestamp())
    return (await connection.execute(sa.select(c.session_id).where(stands))).one_or_none() is not None


async def note_session(connection: Connection, session_id: str) -> None:
    """Note that a session was used just now."""
    c, now = SESSIONS.c, sa.func.now()
    longer_ago = c.seen_at < now - sa.literal(SEEN_EVERY, sa.Interval)
    await connection.execute(sa.update(SESSIONS).where(c.session_id == session_id, longer_ago).values(seen_at=now))


async def end_session(connection: Connection, tenant: str, session_id: str, by: str) -> bool:
    """End a session of `tenant` that was not ended before; tell whether there was one."""
    c = SESSIONS.c
    here = sa.and_(c.session_id == session_id, c.tenant == tenant, c.revoked_at.is_(None))
    done = await connection.execute(sa.update(SESSIONS).where(here).values(revoked_at=sa.func.now(), revoked_by=by))
    return done.rowcount == 1


async def end_sessions_of(connection: Connection, key_id: str, by: str) -> list[str]:
    """End the sessions that began with a key; return their ids."""
    c = SESSIONS.c
    here = (c.key_id == key_id, c.revoked_at.is_(None), c.expires_at > sa.func.now())
    statement = sa.update(SESSIONS).where(*here).values(revoked_at=sa.func.now(), revoked_by=by)
    return list((await connection.execute(statement.returning(c.session_id))).scalars())


async def list_sessions(
    connection: Connection, tenant: str, person: str | None, idle_seconds: int, limit: int
) -> Sequence[StoredSession]:
    """Return the newest sessions of a tenant that still hold; of one person where one is named."""
    c = SESSIONS.c
    statement = sa.select(*_COLUMNS).where(c.tenant == tenant, _holds(_IDLE))
    statement = statement if person is None else statement.where(c.person == person)
    rows = await connection.execute(
        statement.order_by(c.created_at.desc()).limit(limit), {"idle": timedelta(seconds=idle_seconds)}
    )
    return [StoredSession(*row) for row in rows]


async def people_of(connection: Connection, tenant: str) -> set[str]:
    """Return the ids of people who have, or had, an API key of their own in a tenant, or signed in there.

    A key that waits to be taken over proves nobody, nor does a session that began with it: their maker chose the name.
    """
    keys = API_KEYS.c
    own = sa.select(keys.person).where(keys.tenant == tenant, keys.taken_over_at.is_not(None))
    signed_in = sa.select(SESSIONS.c.person).where(SESSIONS.c.tenant == tenant, SESSIONS.c.key_id.is_(None))
    return {name_of(each) for each in (await connection.execute(own.union(signed_in))).scalars()}
