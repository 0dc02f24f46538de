"""SQL of grants. A use is one decrement; expiry is judged by a clock that is read after the row is locked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from placet.contracts.canonical import NotStrictJson, canonical_text, parse_arguments
from placet.contracts.messages import GrantAsked
from placet.contracts.visitors import ANSWERED
from placet.domain.approvers import person_id
from placet.domain.catalog import ToolSpec
from placet.policy.rules import CallFacts
from placet.policy.rules.grants import Entry, Grant, subjects_of
from placet.policy.states import GrantState, grant_state
from placet.runtime.queries import load_queries
from placet.runtime.work import Work

_PIECES = load_queries(__file__, "grants.sql")
QUERIES = _PIECES.filled("usable", _PIECES.usable.source)
#: Most grants looked at for one call, of those that are alike. A call that only a later one covers is held.
CONSIDERED_MAX = 100
_SAID = {
    *("grant_id", "tenant", "approval_id", "owner", "key_id", "rule", "scope", "bounds", "uses", "expires_at"),
    "rulebook_digest",
}


async def add_grant(work: Work, asked: GrantAsked, entry: Entry, given_at: datetime) -> bool:
    """Store a grant; False where it, or another one of the same approval, is there already."""
    call = asked.call
    added = await work.run(
        QUERIES.add,
        **asked.model_dump(include=_SAID),
        tool=call.tool,
        schema_digest=call.schema_digest,
        tool_digest=entry.tool_digest,
        subject=subjects_of(call)[asked.scope],
        arguments=call.arguments,
        shown_arguments=entry.shown_arguments,
        given_at=given_at,
    )
    return bool(added)


async def find_grants(work: Work, rule: str, call: CallFacts, spec: ToolSpec, tool_digest: str) -> list[Grant]:
    """Return the grants that may cover a call held by `rule`; none where its arguments have no canonical form."""
    try:
        asked = canonical_text(dict(call.arguments))
    except NotStrictJson:
        return []
    found = await work.run(
        QUERIES.find,
        asked=asked,
        **subjects_of(call),
        tool=call.tool,
        schema_digest=spec.schema_digest,
        tool_digest=tool_digest,
        rule=rule,
        most=CONSIDERED_MAX,
    )
    return [Grant(**{**row, "arguments": parse_arguments(row["arguments"])}) for row in found]


async def find_askers(work: Work, call: CallFacts) -> frozenset[str]:
    """Return who may have asked for a call beside its requester, as the gateway knows: approval counts so too."""
    name = person_id(call.requester)
    rows = await work.run(QUERIES.askers, tenant=call.tenant, conversation_id=call.conversation_id)
    found = [each for row in rows for each in row["people"].split()]
    if name is not None:
        found += [row["created_by"] for row in await work.run(QUERIES.key_makers, tenant=call.tenant, person=name)]
    return frozenset(each.removeprefix(ANSWERED) for each in found)


async def use_grant(work: Work, grant_id: str, call_id: str) -> int | None:
    """Use a grant for one call; return the uses left, or None where it covers nothing any more."""
    await work.run(QUERIES.lock, grant_id=grant_id)
    used = await work.run(QUERIES.use, grant_id=grant_id, call_id=call_id)
    return int(used[0]["uses_left"]) if used else None


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
    rows = await work.run(QUERIES.void, tools=list(tools), digests=list(tools.values()))
    return [
        Changed(row["tenant"], row["grant_id"], row["uses_left"], grant_state(row["uses_left"]), row["void_reason"])
        for row in rows
    ]


async def return_use(work: Work, tenant: str, call_id: str) -> Changed | None:
    """Give back the use that a call took and did not need; None where it took none, or gave it back before."""
    rows = await work.run(QUERIES.return_use, call_id=call_id, tenant=tenant)
    if not rows:
        return None
    grant_id, uses_left, expired, revoked, void = rows[0]
    return Changed(tenant, grant_id, uses_left, grant_state(uses_left - 1, expired=expired, revoked=revoked, void=void))


async def revoke_grant(work: Work, tenant: str, grant_id: str, by: str) -> Changed | None:
    """Revoke a grant; return what it was before, or None where there is none to revoke."""
    rows = await work.run(QUERIES.revoke, grant_id=grant_id, tenant=tenant, by=by)
    if not rows:
        return None
    uses_left, expired, void = rows[0]
    return Changed(tenant, grant_id, uses_left, grant_state(uses_left, expired=expired, void=void))
