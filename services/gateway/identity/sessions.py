"""How a browser stays signed in: a random token in a cookie, and what it stands for in the database.

Only the token's hash is kept. A session has no rights of its own: those of an API key are read from the key at each
request, those of a person who signed in at a provider from the directory and the settings, so that taking them away
ends every session. A sign-in makes a new token; nobody can fix one beforehand.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from placet.contracts.errors import Refused
from placet.contracts.ids import new_id
from placet.gateway.identity.keys import hash_secret
from placet.gateway.identity.store import sessions as store
from placet.gateway.identity.store.keys import lock_secret
from placet.gateway.store import reading
from placet.runtime.work import Change, UnitOfWork, Work


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has just signed in."""

    tenant: str
    #: Stable id, `person:…`.
    person: str
    #: `key`, `link` or `oidc`.
    method: str
    key_id: str | None = None
    #: Of the secret that they showed; the session begins only where the key has it still.
    secret_hash: str = ""


@dataclass(frozen=True, slots=True)
class Sessions:
    """Begins, finds and ends sessions."""

    units: UnitOfWork
    #: Longest life of a session, and longest pause in it.
    seconds: int
    idle_seconds: int

    async def begin(self, holder: Holder, before: str = "") -> str:
        """Begin a session and return its cookie; one that the browser had `before` ends.

        Raises Refused (401) where the key has another secret by now than the one that was shown.
        """
        cookie, session_id = secrets.token_urlsafe(32), new_id()
        old = await self.find(before) if before else None
        session = {
            "session_id": session_id,
            "token_hash": hash_secret(cookie),
            "tenant": holder.tenant,
            "person": holder.person,
            "method": holder.method,
            "key_id": holder.key_id,
        }
        async with self.units.begin() as work:
            shown = holder.key_id and holder.secret_hash
            if shown and not await lock_secret(work.connection, holder.key_id or "", holder.secret_hash):
                raise Refused("That API key is not valid.", status=401, kind="unauthorized")
            await store.add_session(work.connection, session, self.seconds)
            detail = {"method": holder.method}
            change = Change(holder.tenant, "session", session_id, "begun", None, "open", holder.person, detail=detail)
            work.record(change)
        if old is not None:
            await self.end(old.tenant, old.session_id, holder.person)
        return cookie

    async def find(self, cookie: str) -> store.StoredSession | None:
        """Return the session of a cookie, None where it is over or was never one."""
        async with reading(self.units.database) as connection:
            return await store.find_session(connection, hash_secret(cookie), self.idle_seconds)

    async def use(self, cookie: str) -> store.StoredSession | None:
        """Return the session of a cookie, and note that it is used."""
        async with reading(self.units.database) as connection:
            session = await store.find_session(connection, hash_secret(cookie), self.idle_seconds)
            if session is not None and session.unseen:
                await store.note_session(connection, session.session_id)
        return session

    async def holds(self, session_id: str) -> bool:
        """Tell whether a session still holds; asking is no use of it."""
        async with reading(self.units.database) as connection:
            return await store.session_holds(connection, session_id, self.idle_seconds)

    async def end(self, tenant: str, session_id: str, by: str) -> bool:
        """End a session for good; tell whether there was one to end."""
        async with self.units.begin() as work:
            return await end_one(work, tenant, session_id, by)


async def end_one(work: Work, tenant: str, session_id: str, by: str) -> bool:
    """End a session for good; tell whether there was one to end."""
    ended = await store.end_session(work.connection, tenant, session_id, by)
    if ended:
        work.record(_ended(tenant, session_id, by))
    return ended


async def end_all_of(work: Work, tenant: str, key_id: str, by: str) -> None:
    """End the sessions that began with a key whose secret is another one from now on."""
    for session_id in await store.end_sessions_of(work.connection, key_id, by):
        work.record(_ended(tenant, session_id, by))


def _ended(tenant: str, session_id: str, by: str) -> Change:
    return Change(tenant, "session", session_id, "ended", "open", "ended", by, detail={})
