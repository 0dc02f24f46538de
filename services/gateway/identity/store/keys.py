"""API keys and conversation tokens: who a bearer is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.domain.approvers import identity_of
from placet.gateway.identity.keys import Scope, checked_key, hash_code, new_key, same_hash
from placet.gateway.tables import API_KEYS, CONVERSATIONS
from placet.runtime.sql import Connection

#: How long a code is good, and how many wrong ones may be tried.
CODE_LIFE = timedelta(days=3)
CODE_TRIES_MAX = 5
#: Keys of one person that somebody else made, and that wait to be taken over.
WAITING_MAX = 10
#: Keys with a code that are made for one person within CODES_SPAN, by one tenant and by all: each is a mail to them.
CODES_SPAN = timedelta(days=1)
CODES_OF_TENANT_MAX = 5
CODES_MAX = 15

# Statements that many requests run are built once: building one costs more than running it.
_OWNER = sa.func.coalesce(sa.func.nullif(CONVERSATIONS.c.token_of, ""), CONVERSATIONS.c.created_by)
#: Keys that chat, without those that wait to be taken over before they are good for anything.
_CHATTING = sa.and_(
    API_KEYS.c.revoked_at.is_(None),
    API_KEYS.c.scopes.contains([str(Scope.CHAT)]),
    sa.or_(API_KEYS.c.taken_over_at.is_not(None), sa.func.cardinality(API_KEYS.c.scopes) == 1),
)
_HAS_KEY = sa.exists().where(
    API_KEYS.c.tenant == CONVERSATIONS.c.tenant,
    API_KEYS.c.person == sa.func.replace(_OWNER, identity_of(""), ""),
    _CHATTING,
)
_FIND_TOKEN = sa.select(
    CONVERSATIONS.c.tenant, CONVERSATIONS.c.conversation_id, CONVERSATIONS.c.visitor, _OWNER, _HAS_KEY
).where(
    CONVERSATIONS.c.token_hash == sa.bindparam("token_hash"),
    CONVERSATIONS.c.token_expires_at > sa.func.now(),
    sa.func.coalesce(CONVERSATIONS.c.ended_at, sa.func.now())
    > sa.func.now() - sa.bindparam("after_end", type_=sa.Interval),
)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One API key without its secret."""

    key_id: str
    tenant: str
    person: str
    scopes: Sequence[str]
    secret_hash: str
    created_at: datetime
    created_by: str
    revoked_at: datetime | None
    #: None as long as only its maker is known to have it.
    taken_over_at: datetime | None


_KEY = [API_KEYS.c[name] for name in ApiKey.__dataclass_fields__]
_FIND = sa.select(*_KEY).where(API_KEYS.c.key_id == sa.any_(sa.bindparam("key_ids", type_=pg.ARRAY(pg.TEXT))))


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """The conversation that a token opens, and its end user."""

    tenant: str
    conversation_id: str
    visitor: str | None
    #: Who took it, with a key or signed in: `person:…`; empty where nobody knows.
    owner: str
    #: Whether they have a key with which they could take one now.
    has_key: bool


async def add_key(
    connection: Connection, *, tenant: str, person: str, scopes: Sequence[str], created_by: str, code: str = ""
) -> str:
    """Store a new API key and return it, for the only time; raise ValueError for a name or scope that is none.

    Who makes one for themselves has it to themselves. `code` is what its owner is sent to take it over with.
    """
    wanted = checked_key(tenant, person, scopes)
    key, kept = new_key()
    values: dict[str, Any] = {"key_id": kept.key_id, "tenant": tenant, "person": person, "created_by": created_by}
    if created_by == identity_of(person):
        values |= {"taken_over_at": sa.func.now(), "taken_over_by": "maker"}
    elif code:
        ends = sa.func.now() + sa.literal(CODE_LIFE, sa.Interval)
        values |= {"code_hash": hash_code(kept.key_id, code), "code_expires_at": ends}
    await connection.execute(sa.insert(API_KEYS).values(**values, scopes=wanted, secret_hash=kept.secret_hash))
    return key


async def may_make(connection: Connection, tenant: str, person: str, scopes: Collection[str]) -> bool:
    """Tell whether one more key with any of these scopes may wait for this person; makers come one after another."""
    await connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtextextended(f"keys of {person}", 0))))
    c = API_KEYS.c
    here = (c.tenant == tenant, c.person == person, c.taken_over_at.is_(None), c.revoked_at.is_(None))
    such = sa.select(sa.func.count()).where(*here, c.scopes.overlap(sorted(scopes)))
    waiting = (await connection.execute(such)).scalar_one()
    return bool(waiting < WAITING_MAX)


async def count_codes(connection: Connection, tenant: str, person: str) -> tuple[int, int]:
    """Return how many codes were made for a person within CODES_SPAN, by this tenant and by all; revoked ones too."""
    c = API_KEYS.c
    since = sa.func.now() - sa.literal(CODES_SPAN, sa.Interval)
    counts = sa.select(sa.func.count().filter(c.tenant == tenant), sa.func.count())
    found = await connection.execute(
        counts.where(c.person == person, c.code_expires_at.is_not(None), c.created_at > since)
    )
    of_tenant, of_all = found.one()
    return of_tenant, of_all


async def take_over(
    connection: Connection, tenant: str, key_id: str, person: str, how: str
) -> tuple[ApiKey, str] | None:
    """Give a working key to its owner alone: return it with its new secret, for the only time.

    What its maker has is good no more. None where it is not theirs, or theirs already.
    """
    c = API_KEYS.c
    here = (c.key_id == key_id, c.tenant == tenant, c.person == person, c.revoked_at.is_(None))
    key, kept = new_key(key_id)
    values = {"taken_over_at": sa.func.now(), "taken_over_by": how, "code_hash": None, "secret_hash": kept.secret_hash}
    statement = sa.update(API_KEYS).where(*here, c.taken_over_at.is_(None)).values(**values).returning(*_KEY)
    row = (await connection.execute(statement)).one_or_none()
    return (ApiKey(*row), key) if row else None


async def lock_secret(connection: Connection, key_id: str, secret_hash: str) -> bool:
    """Tell whether a working key has this secret, and let nobody take the key over before the transaction ends."""
    c = API_KEYS.c
    here = (c.key_id == key_id, c.secret_hash == secret_hash, c.revoked_at.is_(None))
    found = await connection.execute(sa.select(c.key_id).where(*here).with_for_update(read=True))
    return found.one_or_none() is not None


async def code_fits(connection: Connection, key_id: str, code: str) -> bool:
    """Tell whether this is the code of a key; a wrong one counts, and after CODE_TRIES_MAX none is right."""
    c = API_KEYS.c
    here = (c.key_id == key_id, c.code_expires_at > sa.func.now(), c.code_tries < CODE_TRIES_MAX)
    tried = sa.update(API_KEYS).where(*here, c.taken_over_at.is_(None)).values(code_tries=c.code_tries + 1)
    stored = (await connection.execute(tried.returning(c.code_hash))).scalar_one_or_none()
    return stored is not None and same_hash(stored, hash_code(key_id, code))


async def find_keys(connection: Connection, key_ids: Iterable[str]) -> dict[str, ApiKey]:
    """Return the keys with these ids, revoked ones too, those that are there."""
    rows = await connection.execute(_FIND, {"key_ids": sorted(set(key_ids))})
    return {row.key_id: ApiKey(*row) for row in rows}


async def newest_admin_key(connection: Connection, tenant: str, person: str) -> str | None:
    """Return the id of the newest admin key of one person that is good: theirs, not one that waits for them."""
    statement = (
        sa.select(API_KEYS.c.key_id)
        .where(API_KEYS.c.tenant == tenant, API_KEYS.c.person == person, API_KEYS.c.revoked_at.is_(None))
        .where(API_KEYS.c.scopes.contains([str(Scope.ADMIN)]), API_KEYS.c.taken_over_at.is_not(None))
        .order_by(API_KEYS.c.created_at.desc())
        .limit(1)
    )
    found: str | None = (await connection.execute(statement)).scalar_one_or_none()
    return found


async def list_keys(connection: Connection, tenant: str, limit: int) -> list[ApiKey]:
    """Return the newest keys of a tenant, revoked ones too."""
    statement = sa.select(*_KEY).where(API_KEYS.c.tenant == tenant).order_by(API_KEYS.c.created_at.desc()).limit(limit)
    return [ApiKey(*row) for row in await connection.execute(statement)]


async def revoke_key(connection: Connection, tenant: str, key_id: str, by: str) -> bool:
    """Revoke a working key of `tenant`; tell whether there was one."""
    statement = (
        sa.update(API_KEYS)
        .where(API_KEYS.c.key_id == key_id, API_KEYS.c.tenant == tenant, API_KEYS.c.revoked_at.is_(None))
        .values(revoked_at=sa.func.now(), revoked_by=by)
    )
    return (await connection.execute(statement)).rowcount == 1


async def find_token(connection: Connection, token_hash: str, ended_seconds: int) -> TokenHolder | None:
    """Return the conversation whose token has this hash, and is good still: so long after the conversation's end."""
    values = {"token_hash": token_hash, "after_end": timedelta(seconds=ended_seconds)}
    row = (await connection.execute(_FIND_TOKEN, values)).one_or_none()
    return TokenHolder(*row) if row else None
