"""Who is calling, and what they may ask.

Three proofs: an API key, a conversation token, a web session. Each gives a `Caller` with one tenant; what the caller
asks for is looked up inside that tenant, so what is foreign does not exist. Fails closed: no proof, no caller.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from starlette.requests import HTTPConnection

from placet.contracts.dead_letters import HOUSE_TENANT
from placet.contracts.errors import Refused
from placet.contracts.messages.approvals import Proof
from placet.contracts.visitors import ANSWERED, visitor_id
from placet.domain.approvers import identity_of, is_person, name_of
from placet.domain.directory import Directory, Person
from placet.gateway.identity.keys import Scope, Secret, form_token, parse_secret, same_hash
from placet.gateway.identity.sessions import Sessions
from placet.gateway.identity.store.keys import ApiKey, TokenHolder, find_keys, find_token
from placet.gateway.store import reading
from placet.runtime.batcher import Batcher
from placet.runtime.database import Database
from placet.surfaces.texts import LANGUAGES

Role = Literal["requester", "operators"]

#: Name of the session cookie.
COOKIE = "placet_session"
#: How long a key or token may be remembered, in seconds: the longest that another replica's revocation goes unseen.
#: A decision by a revoked key counts for nothing even within it: approval looks the key up when it decides.
REMEMBER_SECONDS = 1.0
REMEMBERED_MAX = 10_000
#: A key for one of these that somebody else made is good for nothing before its owner has taken it over.
RESERVED = frozenset({Scope.DECIDE, Scope.OPERATE, Scope.ADMIN})
#: Header in which a request of a page says whose page it is: the form token of the session that it was made in.
PAGE = "placet-page"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class NoCaller(Refused):
    """Nobody we know: a wrong, revoked or missing proof. The answer does not say which."""

    def __init__(self, title: str) -> None:
        super().__init__(title, status=401, kind="unauthorized")


class OtherSession(NoCaller):
    """The page that asks was made for somebody else, or before they signed in anew: it must not act for who is now."""


@dataclass(frozen=True, slots=True)
class Caller:
    """One authenticated caller."""

    tenant: str
    #: Stable id, `person:…` or `visitor:…`.
    person: str
    proof: Proof
    scopes: frozenset[str]
    #: Set for a conversation token: everything outside that conversation does not exist for it.
    conversation_id: str | None = None
    #: Of a conversation token: what it is found by.
    token_hash: str = ""
    key_id: str | None = None
    #: Whether they act for the house: the owner of a key does; others do where the directory says so.
    operator: bool = False
    #: What forms of our own pages send back; empty where the proof is none that browsers send by themselves.
    form_token: str = ""
    #: Set for a browser that is signed in.
    session_id: str | None = None
    #: In which our pages speak to them.
    language: str = LANGUAGES[0]
    #: False: somebody else made the key, and its owner has not taken it over yet.
    own_key: bool = True
    #: Who made the key, where somebody else did.
    key_made_by: str = ""
    #: People by id whom our pages name: those of the directory.
    people: Mapping[str, Person] = field(default_factory=dict, compare=False, repr=False)

    @property
    def holders(self) -> tuple[str, ...]:
        """Who can be the caller: a key's owner and, until it was taken over, its maker; of a session its person."""
        if self.proof == "conversation_token":
            return ()
        return (self.person,) if self.own_key or not self.key_made_by else (self.person, self.key_made_by)

    @property
    def writers(self) -> tuple[str, ...]:
        """The same people where they write as themselves, and so hold no token of the conversation."""
        return tuple(f"{ANSWERED}{each}" for each in self.holders)

    def may(self, scope: Scope) -> bool:
        """Tell whether the caller has a scope."""
        return scope in self.scopes

    def need(self, *scopes: Scope) -> None:
        """Raise Refused (403) unless the caller has one of `scopes`."""
        if self.scopes.isdisjoint(scopes):
            wanted = " or ".join(scopes)
            has = ", ".join(sorted(self.scopes)) or "none"
            detail = (
                f"This needs the scope {wanted}. What you show has the scopes {has}; ask who gives out keys for one."
            )
            if not self.own_key and not self.scopes:
                detail = "Somebody else made this key: it is good once its owner has taken it over."
            raise Refused(
                "This key lacks a scope that is needed here.",
                status=403,
                kind="scope-missing",
                scopes=list(scopes),
                detail=detail,
            )

    @property
    def of_house(self) -> bool:
        """Whether the caller belongs to the house's own tenant: its administrators look after all others too."""
        return self.tenant == HOUSE_TENANT

    def need_house(self) -> None:
        """Raise Refused (403) unless the caller belongs to the house."""
        if not self.of_house:
            title = "This is for administrators of the house tenant."
            detail = f"They belong to the tenant {HOUSE_TENANT}."
            raise Refused(title, status=403, kind="not-the-house", detail=detail)

    def sees(self, conversation_id: str) -> bool:
        """Tell whether a conversation of the caller's tenant exists for this caller."""
        return self.conversation_id in {None, conversation_id}

    def sees_job(self, author: str | None) -> bool:
        """Tell whether a job that `author` asked for exists for this caller: who only chats has their own ones.

        None: nobody knows any more who asked for it. For the token of a conversation there are no jobs.
        """
        if self.conversation_id is not None:
            return False
        return self.may(Scope.DECIDE) or self.may(Scope.OPERATE) or author == self.person

    def roles_for(self, requester: str) -> list[Role]:
        """Return what this caller proves about an approval that `requester` asked for.

        A conversation token stands for the requester's side of its conversation and for nothing else; a key's owner
        is an operator, and the requester too where they wrote the message themselves.
        """
        if self.proof == "conversation_token":
            return ["requester"]
        roles: list[Role] = ["operators"] if self.operator else []
        return [*roles, "requester"] if self.person == requester else roles

    @property
    def account(self) -> tuple[str, ...]:
        """What a caller's messages and streams are counted on: a key, a conversation's token, or somebody signed in."""
        if self.proof == "api_key":
            return ("key", self.key_id or "")
        if self.conversation_id is not None:
            return ("token", self.tenant, self.conversation_id)
        return ("person", self.tenant, self.person)

    def came_with(self, key: ApiKey) -> bool:
        """Tell whether they have its secret still: where it was taken over since, they came with that of its maker."""
        return (key.taken_over_at is not None) == self.own_key


@dataclass
class Authenticator:
    """Turns requests into callers."""

    database: Database
    sessions: Sessions
    public_url: str = ""
    #: Who is who now, and what they may do who signed in at a provider.
    directory: Callable[[], Directory] = Directory
    provider_scopes: frozenset[str] = frozenset()
    #: How long the token of a conversation that has ended still reads it.
    ended_token_seconds: int = 86_400
    #: Tenant of those who sign in at a provider; empty where nobody can.
    provider_tenant: str = ""
    clock: Callable[[], float] = time.monotonic
    #: Until when they are good: keys by their ids, holders of conversation tokens by these tokens' hashes.
    _remembered: dict[str, tuple[float, ApiKey]] = field(default_factory=dict)
    _tokens: dict[str, tuple[float, Caller]] = field(default_factory=dict)
    _batcher: Batcher[str, ApiKey | None] = field(init=False)

    def __post_init__(self) -> None:
        """Prepare what looks keys up together: many requests come with the same one."""
        self._batcher = Batcher(self._find_all, isolate=True)

    async def caller(self, request: HTTPConnection) -> Caller:
        """Return who sent `request`; raise NoCaller where nobody proved to be anybody."""
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        if scheme:
            if scheme.lower() != "bearer":
                raise NoCaller("Only bearer credentials are accepted.")
            return await self._bearer(credentials.strip())
        if cookie := request.cookies.get(cookie_name(self.public_url)):
            if request.scope.get("method", "GET") not in _SAFE_METHODS:
                refuse_other_sites(request, self.public_url)
            caller = await self._session(cookie)
            if not same_hash(request.headers.get(PAGE, caller.form_token), caller.form_token):
                raise OtherSession("Somebody has signed in anew since this page was loaded. Reload it.")
            return caller
        raise NoCaller("An API key or a conversation token is needed.")

    async def still(self, caller: Caller) -> bool:
        """Tell whether the caller's key, token and session still hold, and their person may act still."""
        if caller.token_hash:
            return await self._holder(caller.token_hash) is not None
        if caller.session_id is not None and not await self.sessions.holds(caller.session_id):
            return False
        if caller.proof == "web_session" and caller.key_id is None:
            return self._is_known(caller.person)
        if not self.directory().is_active(name_of(caller.person)):
            return False
        if caller.key_id is None:
            return True
        key = await self._working_key(caller.key_id)
        return key is not None and caller.came_with(key)

    async def key_works(self, secret: Secret) -> bool:
        """Tell whether an API key is known, not revoked, and has this secret."""
        return await self._key_with(secret) is not None

    def forget_token(self, token_hash: str) -> None:
        """Look a conversation's token up again at its next use: another has taken its place."""
        self._tokens.pop(token_hash, None)

    def forget(self, key_id: str) -> None:
        """Look the key up again at its next use: it was just revoked or taken over."""
        self._remembered.pop(key_id, None)

    async def _bearer(self, credentials: str) -> Caller:
        secret = parse_secret(credentials)
        if secret is None:
            raise NoCaller("The credentials are not valid.")
        if not secret.key_id:
            return await self._token(secret.secret_hash)
        key = await self._key_with(secret)
        # Who left is nobody, whatever their key was for: an administrator's makes further keys.
        if key is None or not self.directory().is_active(key.person):
            raise NoCaller("The credentials are not valid.")
        return _caller_with(key, "api_key")

    async def _key_with(self, secret: Secret) -> ApiKey | None:
        key = await self._working_key(secret.key_id)
        if key is not None and not same_hash(key.secret_hash, secret.secret_hash):
            # It may have another secret since: another replica gave it to its owner. Until then nobody else forgets it.
            key = await self._batcher.submit(secret.key_id)
            if key is None or key.revoked_at is not None or not same_hash(key.secret_hash, secret.secret_hash):
                return None
            self.forget(secret.key_id)
        return key

    async def _token(self, token_hash: str) -> Caller:
        ends, caller = self._tokens.get(token_hash, (0.0, None))
        if caller is not None and self.clock() < ends:
            return caller
        holder = await self._holder(token_hash)
        if holder is None:
            self._tokens.pop(token_hash, None)
            raise NoCaller("The credentials are not valid.")
        caller = Caller(
            holder.tenant,
            visitor_id(holder.visitor, holder.conversation_id),
            "conversation_token",
            frozenset({Scope.CHAT, Scope.DECIDE}),
            conversation_id=holder.conversation_id,
            token_hash=token_hash,
        )
        if len(self._tokens) >= REMEMBERED_MAX:
            self._tokens.clear()
        self._tokens[token_hash] = (self.clock() + REMEMBER_SECONDS, caller)
        return caller

    async def _holder(self, token_hash: str) -> TokenHolder | None:
        """Return the holder of a token that is good: as long as whoever took it could still come themselves.

        So it ends with its frontend's last key, and lives on while that has another one: keys change one by one.
        """
        async with reading(self.database) as connection:
            holder = await find_token(connection, token_hash, self.ended_token_seconds)
        if holder is None or not is_person(holder.owner) or self._could_come(holder):
            return holder
        return None

    def _could_come(self, holder: TokenHolder) -> bool:
        """Tell whether a token's owner is active, with a key that works or at the sign-in service."""
        if not self.directory().is_active(name_of(holder.owner)):
            return False
        signs_in = holder.tenant == self.provider_tenant and Scope.CHAT in self.provider_scopes
        return holder.has_key or (signs_in and self._is_known(holder.owner))

    async def _session(self, cookie: str) -> Caller:
        session = await self.sessions.use(cookie)
        if session is None:
            raise NoCaller("The session is over; sign in again.")
        if session.key_id is None:
            if not self._is_known(session.person):
                raise NoCaller("The session is over; sign in again.")
            operator = self.directory().is_operator(session.person)
            caller = Caller(session.tenant, session.person, "web_session", self.provider_scopes, operator=operator)
        else:
            key = await self._working_key(session.key_id)
            if key is None or not self.directory().is_active(key.person):
                raise NoCaller("The session is over; sign in again.")
            caller = _caller_with(key, "web_session")
        return replace(caller, form_token=form_token(cookie), session_id=session.session_id)

    def _is_known(self, identity: str) -> bool:
        """Tell whether the directory lists somebody who may act: a provider's word alone makes nobody a person here."""
        person = self.directory().person(identity)
        return person is not None and person.active

    async def _working_key(self, key_id: str) -> ApiKey | None:
        known = self._remembered.get(key_id)
        if known and self.clock() < known[0]:
            return known[1]
        key = await self._batcher.submit(key_id)
        if key is None or key.revoked_at is not None:
            self.forget(key_id)
            return None
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[key_id] = (self.clock() + REMEMBER_SECONDS, key)
        return key

    async def _find_all(self, key_ids: Sequence[str]) -> list[ApiKey | None]:
        async with reading(self.database) as connection:
            found = await find_keys(connection, key_ids)
        return [found.get(key_id) for key_id in key_ids]


def cookie_name(public_url: str, name: str = COOKIE) -> str:
    """Return a cookie's name at our address: over https one that no other host and no plain connection can set."""
    return f"__Host-{name}" if public_url.startswith("https://") else name


def same_site(origin: str, host: str, public_url: str) -> bool:
    """Tell whether `origin`, as the browser says, is the address that we are reached at."""
    if public_url:
        return origin == public_url.rstrip("/")
    return bool(host) and origin.partition("://")[2] == host


def refuse_other_sites(request: HTTPConnection, public_url: str) -> None:
    """Raise Refused (403) for a change that another site asks for: browsers send our cookie along all the same."""
    if not same_site(request.headers.get("origin", ""), request.headers.get("host", ""), public_url):
        raise Refused("This request does not come from this site.", status=403, kind="foreign-origin")


def _caller_with(key: ApiKey, proof: Proof) -> Caller:
    own = key.taken_over_at is not None
    scopes = frozenset(key.scopes)
    if not own and not RESERVED.isdisjoint(scopes):
        scopes = frozenset()
    person = identity_of(key.person)
    return Caller(
        key.tenant,
        person,
        proof,
        scopes,
        key_id=key.key_id,
        operator=True,
        own_key=own,
        key_made_by="" if key.created_by == person else key.created_by,
    )
