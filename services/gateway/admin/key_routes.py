"""API keys over HTTP: create, list, take over, revoke. Within one tenant, and but for taking over for administrators.

Whoever makes a key for somebody else has seen it. So one that decides, operates or administers is good for nothing
before its owner has shown in another way that they have it: signed in, or with a code that only they were sent. It has
another secret then, which only its owner sees: what its maker has seen is good no more.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from placet.contracts.errors import Refused
from placet.contracts.messages import KeyOffered
from placet.contracts.visitors import NAME_PATTERN
from placet.domain.approvers import identity_of, name_of
from placet.domain.directory import Person
from placet.gateway.conversations.access import writing
from placet.gateway.http.callers import CallerOf, DepsOf, PathId
from placet.gateway.http.deps import Deps
from placet.gateway.http.errors import described
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.auth import RESERVED, Caller
from placet.gateway.identity.keys import Scope, new_code, parse_secret
from placet.gateway.identity.sessions import end_all_of
from placet.gateway.identity.store import keys as store
from placet.gateway.identity.store.sessions import people_of
from placet.gateway.store import reading
from placet.gateway.texts import Body, answer_of
from placet.runtime.sql import Connection
from placet.runtime.work import Change

router = APIRouter(prefix="/v1/keys", tags=["keys"], route_class=StrictRoute)

SHOWN_MAX = 1000


class KeyIn(Body):
    """Whose key it is and what it may do."""

    person: Annotated[str, Field(pattern=NAME_PATTERN, description="Its owner, who decides as `person:<this>`.")]
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=10)]


class KeyOut(BaseModel):
    """An API key without its secret."""

    id: str
    tenant: str
    person: str
    scopes: list[str]
    created_at: datetime
    created_by: str
    revoked_at: datetime | None = None
    taken_over_at: datetime | None = Field(
        default=None,
        description="Null: its owner has yet to take it over; one that decides, operates or administers is good then.",
    )


class NewKeyOut(BaseModel):
    """A new API key."""

    id: str
    key: str = Field(description="The key itself, shown this once.")
    tenant: str
    person: str
    scopes: list[str]
    taken_over: bool = Field(
        description="False: one that decides, operates or administers is good once its owner has taken it over."
    )
    code_sent: bool = Field(
        default=False,
        description="Whether a code to take it over with was handed to the notifier, which sends it where the "
        "directory has an address and mail or Slack is set up. To other tenants than `default` and the person's own it "
        "is true also where there is no address.",
    )


class TakenOverOut(KeyOut):
    """A key that is its owner's alone."""

    key: str = Field(description="The key itself from now on, shown this once; the one that it was before is none.")


class TakeOverIn(Body):
    """How somebody shows that a key is theirs."""

    code: Annotated[str, Field(max_length=40, description="The code that its owner was sent.")]


class KeyList(BaseModel):
    """Keys, newest first."""

    items: list[KeyOut]


async def _code_for(deps: Deps, connection: Connection, caller: Caller, name: str) -> tuple[str, bool]:
    """Return the code to take over a key with that `caller` makes of somebody, empty for none; and whether it is sent.

    Another tenant than the house's learns neither whom the directory lists, but for its own people, nor what others do.
    """
    of_tenant, of_all = await store.count_codes(connection, caller.tenant, name)
    known = caller.of_house or name in await people_of(connection, caller.tenant)
    owner = deps.directory().people.get(name)
    reachable = owner is not None and bool(owner.emails or _in_slack(deps, caller.tenant, owner))
    sends = of_all < store.CODES_MAX and (reachable or not known)
    told = of_tenant < store.CODES_OF_TENANT_MAX and (sends or not known)
    return (new_code(), sends) if told else ("", False)


def _in_slack(deps: Deps, tenant: str, owner: Person) -> bool:
    """Tell whether somebody has a user in the tenant's Slack; where only the notifier may know that, in any."""
    team = deps.slack.by_tenant.get(tenant)
    return bool(owner.users_in(team.team) if team else owner.slack and not deps.slack.teams)


@router.get("", responses=described(401, 403, 503))
async def list_all(deps: DepsOf, caller: CallerOf) -> KeyList:
    """List the keys of your tenant, revoked ones too."""
    caller.need(Scope.ADMIN)
    async with reading(deps.runtime.database) as connection:
        found = await store.list_keys(connection, caller.tenant, SHOWN_MAX)
    return KeyList(items=[answer_of(KeyOut, key, id=key.key_id) for key in found])


@router.post("", status_code=201, responses=described(400, 401, 403, 409, 413, 415, 503))
async def create(deps: DepsOf, caller: CallerOf, body: KeyIn) -> NewKeyOut:
    """Create a key; its secret is in this answer and nowhere else."""
    caller.need(Scope.ADMIN)
    scopes, own = sorted(set(body.scopes)), caller.person == identity_of(body.person)
    code, sends = "", False
    async with writing(deps.runtime.units, caller) as work:
        if not own and not RESERVED.isdisjoint(scopes):
            if not await store.may_make(work.connection, caller.tenant, body.person, RESERVED):
                title = "Too many keys wait for this person to take them over."
                detail = f"Revoke some, or let them be taken over: at most {store.WAITING_MAX} wait."
                raise Refused(title, status=409, kind="too-many-keys", detail=detail)
            code, sends = await _code_for(deps, work.connection, caller, body.person)
        key = await store.add_key(
            work.connection,
            tenant=caller.tenant,
            person=body.person,
            scopes=scopes,
            created_by=caller.person,
            code=code,
        )
        parsed = parse_secret(key)
        key_id = parsed.key_id if parsed else ""
        work.record(_change(caller, key_id, "created", None, "active", owner=identity_of(body.person)))
        if sends:
            whose = {"tenant": caller.tenant, "key_id": key_id, "person": body.person}
            work.emit(KeyOffered(**whose, by=caller.person, code=code))
    made = {"tenant": caller.tenant, "person": body.person, "taken_over": own, "code_sent": bool(code)}
    return NewKeyOut.model_validate({**made, "id": key_id, "key": key, "scopes": list(scopes)})


@router.post("/take-over", responses=described(400, 401, 403, 409, 413, 415, 503))
async def take_over_with_code(deps: DepsOf, caller: CallerOf, body: TakeOverIn) -> TakenOverOut:
    """Take the key over that this request comes with, by the code that you were sent. Five wrong codes end it.

    The answer has the key as it is from now on; the one that you send is good no more.
    """
    if caller.proof != "api_key" or caller.key_id is None:
        raise Refused("Send the key that you take over.", status=403, kind="not-your-key")
    async with writing(deps.runtime.units, caller) as work:
        fits = await store.code_fits(work.connection, caller.key_id, body.code)
    if not fits:
        raise Refused("This code is wrong, used or too old.", status=403, kind="wrong-code")
    return await _take_over(deps, caller, caller.key_id, "code")


@router.post("/{key_id}/take-over", responses=described(401, 403, 404, 503))
async def take_over_by_sign_in(deps: DepsOf, caller: CallerOf, key_id: PathId) -> TakenOverOut:
    """Take a key over that somebody made for you: signed in at the sign-in service, or with a key that is yours.

    The answer has the key as it is from now on; the one that its maker has is good no more, and sessions that began
    with it end.
    """
    signed_in = caller.proof == "web_session" and caller.key_id is None
    if not signed_in and not (caller.key_id and caller.own_key):
        raise Refused("Sign in, or use a key that is yours already.", status=403, kind="not-your-key")
    return await _take_over(deps, caller, key_id, "sign-in" if signed_in else "key")


async def _take_over(deps: DepsOf, caller: CallerOf, key_id: str, how: str) -> TakenOverOut:
    async with writing(deps.runtime.units, caller) as work:
        taken = await store.take_over(work.connection, caller.tenant, key_id, name_of(caller.person), how)
        if taken is None:
            raise Refused("There is no such key of yours to take over.", status=404, kind="not-found")
        key, secret = taken
        await end_all_of(work, caller.tenant, key_id, caller.person)
        work.record(_change(caller, key_id, "taken-over", "active", "active", by=how, made_by=key.created_by))
    deps.authenticator.forget(key_id)
    return answer_of(TakenOverOut, key, id=key.key_id, key=secret)


@router.delete("/{key_id}", status_code=204, responses=described(401, 403, 404, 503))
async def revoke(deps: DepsOf, caller: CallerOf, key_id: PathId) -> Response:
    """Revoke a key; it and the sessions that began with it stop working at once here, within a second elsewhere."""
    caller.need(Scope.ADMIN)
    async with writing(deps.runtime.units, caller) as work:
        if not await store.revoke_key(work.connection, caller.tenant, key_id, caller.person):
            raise Refused("There is no such working key.", status=404, kind="not-found")
        work.record(_change(caller, key_id, "revoked", "active", "revoked"))
    deps.authenticator.forget(key_id)
    return Response(status_code=204)


def _change(caller: Caller, key_id: str, event: str, before: str | None, after: str, **detail: str) -> Change:
    return Change(caller.tenant, "api-key", key_id, event, before, after, caller.person, detail=dict(detail))
