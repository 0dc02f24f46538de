"""SQL of grants. A use is one decrement; expiry is judged by a clock that is read after the row is locked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.contracts.canonical import parse_arguments
from placet.contracts.messages import GrantAsked
from placet.contracts.visitors import ANSWERED
from placet.domain.approvers import person_id
from placet.domain.catalog import ToolSpec
from placet.domain.grants import SCOPES
from placet.policy.rules import CallFacts
from placet.policy.rules.grants import Entry, Grant, subjects_of
from placet.policy.states import GrantState, grant_state
from placet.policy.tables import GRANT_USES, GRANTS
from placet.runtime.work import Work

#: Which API keys work, as the gateway shows it.
_KEYS = sa.table("api_keys", sa.column("key_id", sa.Text), sa.column("revoked_at"), schema="read")
#: Most grants looked at for one call. A call that only a later one covers is held.
CONSIDERED_MAX = 100


_ADD = pg.insert(GRANTS).on_conflict_do_nothing().returning(GRANTS.c.grant_id)


_WORKING_KEY = sa.exists().where(_KEYS.c.key_id == GRANTS.c.key_id, _KEYS.c.revoked_at.is_(None))
#: Whoever showed no key cannot lose it: of these the directory is asked.
_PROVED = sa.or_(GRANTS.c.key_id.is_(None), _WORKING_KEY)
_EXPIRED = (GRANTS.c.expires_at <= sa.func.clock_timestamp()).label("expired")
_IS_VOID = GRANTS.c.void_at.is_not(None).label("void")
#: Of a grant that is not used up, revoked, void, over or given with a key that is revoked.
_USABLE = (
    GRANTS.c.uses_left > 0,
    GRANTS.c.revoked_at.is_(None),
    GRANTS.c.void_at.is_(None),
    GRANTS.c.expires_at > sa.func.clock_timestamp(),
    _PROVED,
)


def _find_statement() -> sa.Select[Any]:
    """Find usable grants for a call; the one that ends first comes first."""
    c = GRANTS.c
    names = ("tenant", "tool", "schema_digest", "tool_digest", "rule")
    subjects = sa.or_(*(sa.and_(c.scope == scope, c.subject == sa.bindparam(f"{scope}_subject")) for scope in SCOPES))
    columns = ("grant_id", "owner", "key_id", "scope", "bounds", "arguments", "given_at", "expires_at")
    return (
        sa.select(*(c[name] for name in columns))
        .where(*(c[name] == sa.bindparam(name) for name in names), subjects, *_USABLE)
        .order_by(c.expires_at, c.grant_id)
        .limit(CONSIDERED_MAX)
    )


def _use_statement() -> sa.Executable:
    """Take one use of a locked grant that still is one, and keep for which call: no use without its row."""
    used = (
        sa.update(GRANTS)
        .where(GRANTS.c.grant_id == sa.bindparam("using"), *_USABLE)
        .values(uses_left=GRANTS.c.uses_left - 1)
        .returning(GRANTS.c.grant_id, GRANTS.c.tenant, GRANTS.c.uses_left)
        .cte("used")
    )
    given = sa.bindparam("call_id", type_=sa.Text)
    chosen = sa.select(given, used.c.grant_id, used.c.tenant, sa.func.clock_timestamp())
    kept = sa.insert(GRANT_USES).from_select(["call_id", "grant_id", "tenant", "used_at"], chosen)
    return kept.returning(sa.select(used.c.uses_left).scalar_subquery().label("uses_left"))


def _return_statement() -> sa.Executable:
    """Give a use back, once."""
    back = (
        sa.update(GRANT_USES)
        .where(
            GRANT_USES.c.call_id == sa.bindparam("ended"),
            GRANT_USES.c.tenant == sa.bindparam("of_tenant"),
            GRANT_USES.c.returned_at.is_(None),
        )
        .values(returned_at=sa.func.clock_timestamp())
        .returning(GRANT_USES.c.grant_id)
        .cte("back")
    )
    return (
        sa.update(GRANTS)
        .where(GRANTS.c.grant_id == back.c.grant_id)
        .values(uses_left=GRANTS.c.uses_left + 1)
        .returning(
            GRANTS.c.grant_id, GRANTS.c.uses_left, _EXPIRED, _IS_VOID, GRANTS.c.revoked_at.is_not(None).label("revoked")
        )
    )


def _void_statement() -> sa.Executable:
    """Make void what was given for another entry of its tool than the one there is now; what is over stays over."""
    c, tool = GRANTS.c, sa.func.unnest(_given("tools"), _given("digests")).table_valued("name", "digest", name="tool")
    tools = tool.render_derived()
    same = sa.exists().where(tools.c.name == c.tool, tools.c.digest == c.tool_digest)
    there = c.tool == sa.any_(_given("tools"))
    reason = sa.case((there, "the tool's entry in the rulebook has changed"), else_="the rulebook has the tool no more")
    return (
        sa.update(GRANTS)
        .where(c.void_at.is_(None), c.revoked_at.is_(None), c.expires_at > sa.func.clock_timestamp(), sa.not_(same))
        .values(void_at=sa.func.clock_timestamp(), void_reason=reason)
        .returning(c.tenant, c.grant_id, c.void_reason, c.uses_left)
    )


def _given(name: str) -> sa.BindParameter[Any]:
    return sa.bindparam(name, type_=pg.ARRAY(pg.TEXT))


_FIND = _find_statement()
_ASKERS = sa.text("SELECT people FROM read.askers WHERE tenant = :of_tenant AND conversation_id = :place")
_KEY_MAKERS = sa.text(
    # What was asked with a key before it was taken over, or revoked, may be judged late.
    "SELECT created_by FROM read.key_makers WHERE tenant = :of_tenant AND person = :name"
    " AND (taken_over_at IS NULL OR taken_over_at > clock_timestamp() - interval '1 day')"
    " AND (revoked_at IS NULL OR revoked_at > clock_timestamp() - interval '30 days')"
)
_LOCK = sa.select(GRANTS.c.grant_id).where(GRANTS.c.grant_id == sa.bindparam("using")).with_for_update()
_USE = _use_statement()
_RETURN = _return_statement()
_VOID = _void_statement()
_REVOKE = (
    sa.update(GRANTS)
    .where(
        GRANTS.c.grant_id == sa.bindparam("revoking"),
        GRANTS.c.tenant == sa.bindparam("of_tenant"),
        GRANTS.c.revoked_at.is_(None),
    )
    .values(revoked_at=sa.func.clock_timestamp(), revoked_by=sa.bindparam("by"))
    .returning(GRANTS.c.uses_left, _EXPIRED, _IS_VOID)
)


_SAID = {"grant_id", "tenant", "approval_id", "owner", "key_id", "rule", "scope", "bounds", "uses"}


async def add_grant(work: Work, asked: GrantAsked, entry: Entry, given_at: datetime) -> bool:
    """Store a grant; False where it, or another one of the same approval, is there already."""
    call = asked.call
    values = {
        **asked.model_dump(include=_SAID),
        "tool": call.tool,
        "schema_digest": call.schema_digest,
        "tool_digest": entry.tool_digest,
        "subject": subjects_of(call)[asked.scope],
        "arguments": call.arguments,
        "shown_arguments": entry.shown_arguments,
        "rulebook_digest": asked.rulebook_digest,
        "uses_left": asked.uses,
        "given_at": given_at,
        "expires_at": asked.expires_at,
    }
    return (await work.connection.execute(_ADD, values)).first() is not None


async def find_grants(work: Work, rule: str, call: CallFacts, spec: ToolSpec, tool_digest: str) -> list[Grant]:
    """Return the grants that may cover a call held by `rule`."""
    values = {
        "tenant": call.tenant,
        "tool": call.tool,
        "schema_digest": spec.schema_digest,
        "tool_digest": tool_digest,
        "rule": rule,
        **{f"{scope}_subject": subject for scope, subject in subjects_of(call).items()},
    }
    found = (await work.connection.execute(_FIND, values)).mappings()
    return [Grant(**{**row, "arguments": parse_arguments(row["arguments"])}) for row in found]


async def find_askers(work: Work, call: CallFacts) -> frozenset[str]:
    """Return who may have asked for a call beside its requester, as the gateway knows: approval counts so too."""
    name = person_id(call.requester)
    place = {"of_tenant": call.tenant, "place": call.conversation_id}
    found = [each for people in (await work.connection.execute(_ASKERS, place)).scalars() for each in people.split()]
    if name is not None:
        found += (await work.connection.execute(_KEY_MAKERS, {"of_tenant": call.tenant, "name": name})).scalars()
    return frozenset(each.removeprefix(ANSWERED) for each in found)


async def use_grant(work: Work, grant_id: str, call_id: str) -> int | None:
    """Use a grant for one call; return the uses left, or None where it covers nothing any more."""
    await work.connection.execute(_LOCK, {"using": grant_id})
    used = (await work.connection.execute(_USE, {"using": grant_id, "call_id": call_id})).scalar_one_or_none()
    return None if used is None else int(used)


@dataclass(frozen=True, slots=True)
class Changed:
    """A grant that was used less, taken back or made void."""

    tenant: str
    grant_id: str
    uses_left: int
    #: Where the grant was before.
    before: GrantState
    #: Why it is void.
    reason: str = ""


async def void_changed(work: Work, tools: Mapping[str, str]) -> list[Changed]:
    """Make every grant void whose tool has another entry now, or none; `tools`: name -> digest of its entry."""
    values = {"tools": list(tools), "digests": list(tools.values())}
    rows = await work.connection.execute(_VOID, values)
    return [
        Changed(row.tenant, row.grant_id, row.uses_left, grant_state(row.uses_left), row.void_reason) for row in rows
    ]


async def return_use(work: Work, tenant: str, call_id: str) -> Changed | None:
    """Give back the use that a call took and did not need; None where it took none, or gave it back before."""
    values = {"ended": call_id, "of_tenant": tenant}
    row = (await work.connection.execute(_RETURN, values)).one_or_none()
    if row is None:
        return None
    before = grant_state(row.uses_left - 1, expired=row.expired, revoked=row.revoked, void=row.void)
    return Changed(tenant, row.grant_id, row.uses_left, before)


async def revoke_grant(work: Work, tenant: str, grant_id: str, by: str) -> Changed | None:
    """Revoke a grant; return what it was before, or None where there is none to revoke."""
    values = {"revoking": grant_id, "of_tenant": tenant, "by": by}
    row = (await work.connection.execute(_REVOKE, values)).one_or_none()
    if row is None:
        return None
    before = grant_state(row.uses_left, expired=row.expired, void=row.void)
    return Changed(tenant, grant_id, row.uses_left, before)
