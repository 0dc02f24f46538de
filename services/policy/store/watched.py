"""SQL of watched calls. Whether a veto window is over is judged by the clock and not by the transaction's beginning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placet.contracts.messages import ApprovalRule, WatchedCallClosed
from placet.policy.rules import CallFacts
from placet.policy.rules.watched import Watched, arguments_digest
from placet.runtime.queries import load_queries
from placet.runtime.work import Work

QUERIES = load_queries(__file__, "watched.sql")
#: Most terms of earlier calls that are asked for together; rulebooks have fewer.
FOUND_MAX = 20


async def find(work: Work, call: CallFacts) -> Sequence[Watched]:
    """Return the earlier calls that stand in the way of `call`, denials first; of those with the same terms one."""
    rows = await work.run(QUERIES.find, **_of_call(call), most=FOUND_MAX)
    return [
        Watched(
            row["call_id"],
            ApprovalRule.model_validate_json(row["approval"]),
            row["denied_at"],
            row["denied_by"],
            row["reason"],
        )
        for row in rows
    ]


async def add(work: Work, call: CallFacts, terms: ApprovalRule) -> None:
    """Watch a call that is held; a denial of it is remembered under these terms."""
    await work.run(
        QUERIES.add,
        **_of_call(call),
        veto_on=terms.veto_on,
        veto_within=terms.veto_within,
        window_seconds=terms.veto_window_seconds,
        approval=terms.model_dump_json(),
        asked_at=work.now,
    )


async def add_revision(work: Work, tenant: str, call_id: str, arguments: Mapping[str, Any]) -> None:
    """Watch a call also as people would change it; nothing where it is not watched, or ended."""
    digest = arguments_digest(arguments)
    await work.run(QUERIES.add_revision, call_id=call_id, tenant=tenant, arguments_digest=digest)


async def deny(work: Work, closed: WatchedCallClosed) -> None:
    """Begin the veto window of a call that people denied; the first denial that was heard of counts."""
    ended = {"call_id": closed.call_id, "tenant": closed.tenant}
    await work.run(QUERIES.lock, **ended)
    await work.run(QUERIES.deny, **ended, by=closed.decided_by, reason=closed.reason, at=closed.closed_at)


async def forget(work: Work, tenant: str, call_id: str) -> None:
    """Watch a call no more that ended without a denial."""
    await work.run(QUERIES.lock, call_id=call_id, tenant=tenant)
    await work.run(QUERIES.forget, call_id=call_id, tenant=tenant)


def _of_call(call: CallFacts) -> dict[str, str]:
    same = {name: getattr(call, name) for name in ("call_id", "tenant", "conversation_id", "requester", "tool")}
    return same | {"arguments_digest": arguments_digest(call.arguments)}
